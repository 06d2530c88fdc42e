r"""The user's own data: a table with named columns, from CSV, TSV, npz or Parquet.

A column is numbers if all its cells are, otherwise texts. It is looked at when it is first asked
for, so that a column that nobody uses may hold anything. Nothing is ever unpickled.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np

from principia.lab.data.cells import LARGEST, as_number, need_names, read_cells
from principia.lab.data.npz import read_npz
from principia.lab.data.parquet import read_parquet
from principia.lab.params import UsageError, suggestion, usage_error

__all__ = ["FileTable", "Table", "column", "need_column", "read_csv", "read_table"]

DELIMITERS = ",;\t|"

Table: TypeAlias = Mapping[str, Any]  # columns by name, all as long: float64, or texts as objects


@final
class FileTable(Mapping[str, Any]):
    """A table whose columns are looked at when they are asked for.

    Args:
        file: What errors call it.
        cells: The cells of each column, as the file has them.
    """

    def __init__(self, file: str, cells: Mapping[str, Any]) -> None:
        self._file, self._cells = file, cells
        self._columns: dict[str, np.ndarray] = {}

    def __getitem__(self, name: str) -> np.ndarray:
        """Read a column, or refuse the first of its cells that is no value."""
        if name not in self._columns:
            self._columns[name] = read_cells(self._file, name, self._cells[name])
        return self._columns[name]

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a column, without a look at it."""
        return name in self._cells

    def __iter__(self) -> Iterator[str]:
        """Name the columns."""
        return iter(self._cells)

    def __len__(self) -> int:
        """Count the columns."""
        return len(self._cells)

    def as_given(self, name: str) -> list[Any]:
        """Give the cells of a column as the file has them."""
        cells = self._cells[name]
        return cells.tolist() if isinstance(cells, np.ndarray) else list(cells)


def read_table(path: Path) -> FileTable:
    r"""Read a table; the end of the name says the format.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tiny.csv"
        >>> _ = path.write_text("size,color\n1.5,red\n2,blue\n")
        >>> read_table(path)["size"].tolist()
        [1.5, 2.0]
    """
    readers = {
        ".csv": _read_csv, ".tsv": _read_csv, ".txt": _read_csv, ".npz": read_npz,
        ".parquet": read_parquet,
    }
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise usage_error("data", "--data", f"a file that ends in {', '.join(readers)}", path.name)
    try:
        size = path.stat().st_size
        if not 0 < size <= LARGEST:
            raise usage_error("data", path.name, f"a file of 1 to {LARGEST} bytes", size)
        cells = reader(path)
    except OSError as error:
        raise UsageError(f"data: {path} cannot be read: {error.strerror or error}.") from error
    return _table(path.name, cells)


def read_csv(body: bytes, name: str) -> FileTable:
    """Read a table that is no file, and never becomes one; errors call it by this name."""
    return _table(name, _csv_cells(name, body))


def _table(file: str, cells: Mapping[str, Any]) -> FileTable:
    if not cells or not len(next(iter(cells.values()))):
        raise UsageError(f"data: {file} must have a column and a row; it has none.")
    return FileTable(file, cells)


def _read_csv(path: Path) -> Mapping[str, tuple[str, ...]]:
    return _csv_cells(path.name, path.read_bytes())


def _csv_cells(file: str, body: bytes) -> Mapping[str, tuple[str, ...]]:
    if b"\0" in body:
        raise usage_error("data", file, "text", "a zero byte")
    stream = io.TextIOWrapper(io.BytesIO(body), encoding="utf-8-sig", newline="")
    try:
        first = stream.readline()
        stream.seek(0)
        delimiter = max(DELIMITERS, key=first.count)
        rows = csv.reader(stream, delimiter=delimiter, strict=True)
        header = [name.strip() for name in next(rows, [])]
        _check_header(file, header)
        cells = []
        for row in rows:
            if not row:
                continue  # an empty line
            if len(row) != len(header):
                raise UsageError(
                    f"data: line {rows.line_num} of {file} must have {len(header)} cells like "
                    f"the header; got {len(row)}."
                )
            cells.append(row)
    except UnicodeDecodeError:
        raise usage_error("data", file, "text in UTF-8", _place_of_other(body)) from None
    except csv.Error as error:
        raise UsageError(f"data: {file} is not a table of cells: {error}.") from error
    columns = zip(*cells, strict=True) if cells else [()] * len(header)
    return dict(zip(header, columns, strict=True))


def _check_header(file: str, names: list[str]) -> None:
    if not names or not all(names):
        raise UsageError(f"data: {file} must name every column in its first line; it does not.")
    need_names(file, names)
    if all(as_number(name) is not None for name in names):
        raise UsageError(
            f"data: the first line of {file} must name the columns; got numbers. Add a header."
        )


def _place_of_other(body: bytes) -> str:
    """Name the first byte that is no UTF-8."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return f"byte {error.start}"
    return "a part of a letter"


def column(table: Table, name: str, owner: str) -> np.ndarray:
    """Take a column by its name, or say which there are."""
    need_column(table, name, owner)
    return table[name]


def need_column(table: Table, name: str, owner: str) -> None:
    """Refuse a name that no column has, without a look at any column."""
    if name not in table:
        raise usage_error(owner, "column", "one of the table", name, suggestion(name, table))
