r"""The user's own data: a table with named columns, from CSV, TSV, npz or Parquet.

A column is numbers if all its cells are, otherwise categories. Missing and infinite values are
refused with their row and column, never filled in silently. Nothing is ever unpickled.
"""

import csv
import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from principia.lab.params import UsageError, shown, suggestion, usage_error

__all__ = ["Table", "read_csv", "read_table"]

LARGEST = 1 << 30  # bytes: what is larger does not fit a table in memory
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
DELIMITERS = ",;\t|"

Table = dict[str, np.ndarray]  # columns by name, all as long: float64, or texts


def read_table(path: Path) -> Table:
    r"""Read a table; the end of the name says the format.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "tiny.csv"
        >>> _ = path.write_text("size,color\n1.5,red\n2,blue\n")
        >>> read_table(path)["size"].tolist()
        [1.5, 2.0]
    """
    readers = {
        ".csv": _read_csv, ".tsv": _read_csv, ".txt": _read_csv, ".npz": _read_npz,
        ".parquet": _read_parquet,
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


def read_csv(body: bytes, name: str) -> Table:
    """Read a table that is no file, and never becomes one; errors call it by this name."""
    return _table(name, _csv_cells(name, body))


def _table(file: str, cells: Mapping[str, np.ndarray]) -> Table:
    if not cells or not len(next(iter(cells.values()))):
        raise UsageError(f"data: {file} must have a column and a row; it has none.")
    return {name: _column(file, name, column) for name, column in cells.items()}


def _column(file: str, name: str, cells: np.ndarray) -> np.ndarray:
    """Make a column numbers if all its cells are, texts if not; refuse what is missing."""
    if cells.dtype.kind in "fiub":
        values = cells.astype(np.float64)
    else:
        cells = np.asarray(["" if one is None else str(one).strip() for one in cells])
        for row, cell in enumerate(cells):
            if cell.lower() in MISSING:
                raise _bad_cell(file, name, row, "have a value", str(cell))
        try:
            values = cells.astype(np.float64)
        except ValueError:
            return cells
    if not np.isfinite(values).all():
        row = int(np.flatnonzero(~np.isfinite(values))[0])
        raise _bad_cell(file, name, row, "be a finite number", float(values[row]))
    return values


def _bad_cell(file: str, name: str, row: int, must: str, got: object) -> UsageError:
    return UsageError(
        f"data: row {row + 1}, column {shown(name)} of {file} must {must}; got {shown(got)}. "
        "Mend the cell, or remove the row or the column."
    )


def _read_csv(path: Path) -> Mapping[str, np.ndarray]:
    return _csv_cells(path.name, path.read_bytes())


def _csv_cells(file: str, body: bytes) -> Mapping[str, np.ndarray]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise usage_error("data", file, "text in UTF-8", f"byte {error.start}") from error
    if "\0" in text:
        raise usage_error("data", file, "text", "a zero byte")
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first.count)
    try:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        header = [name.strip() for name in next(rows, [])]
        _check_names(file, header)
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
    except csv.Error as error:
        raise UsageError(f"data: {file} is not a table of cells: {error}.") from error
    columns = zip(*cells, strict=True) if cells else [()] * len(header)
    return {name: np.asarray(one, object) for name, one in zip(header, columns, strict=True)}


def _check_names(file: str, names: list[str]) -> None:
    if not names or not all(names):
        raise UsageError(f"data: {file} must name every column in its first line; it does not.")
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"data: {file} must name its columns differently; got {twice[0]!r} twice.")
    if all(_is_number(name) for name in names):
        raise UsageError(
            f"data: the first line of {file} must name the columns; got numbers. Add a header."
        )


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _read_npz(path: Path) -> Mapping[str, np.ndarray]:
    """Read arrays of one length; a matrix becomes columns `name0`, `name1`, ..."""
    try:
        with zipfile.ZipFile(path) as archive:
            arrays = {
                one.filename.removesuffix(".npy"): _read_npy(archive, one)
                for one in archive.infolist()
            }
    except (zipfile.BadZipFile, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"data: {path.name} is not an npz file: {error}.") from error
    columns: dict[str, np.ndarray] = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or array.dtype.kind not in "fiubU":
            got = f"{array.dtype} with {array.ndim} axes"
            raise usage_error(
                "data", f"{name} of {path.name}", "numbers or texts with 1 or 2 axes", got
            )
        if array.ndim == 1:
            columns[name] = array
        else:
            columns |= {f"{name}{place}": column for place, column in enumerate(array.T)}
    lengths = {len(one) for one in columns.values()}
    if len(lengths) > 1:
        raise usage_error("data", path.name, "arrays of one length", sorted(lengths))
    return columns


def _read_npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """Read one array, once its header promises what the file has."""
    if member.file_size > LARGEST:
        raise UsageError(f"data: {member.filename} must be at most {LARGEST} bytes; it is more.")
    with archive.open(member) as stream:
        body = stream.read(LARGEST + 1)
    buffer = io.BytesIO(body)
    version = np.lib.format.read_magic(buffer)
    read = {
        (1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if read is None:
        raise ValueError(f"version {version} of {member.filename}")
    shape, _, dtype = read(buffer)
    promised = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or promised != len(body) - buffer.tell():
        raise UsageError(
            f"data: {member.filename} must hold the {promised} bytes of its header, and no Python "
            "objects; it does not."
        )
    buffer.seek(0)
    return np.lib.format.read_array(buffer, allow_pickle=False)


def _read_parquet(path: Path) -> Mapping[str, np.ndarray]:
    try:
        import pyarrow  # type: ignore[import-not-found]
        import pyarrow.parquet as parquet  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError(
            "data: Parquet files need pyarrow; it is not installed. Run pip install "
            "'principia[parquet]', or use CSV."
        ) from None
    try:
        file = parquet.ParquetFile(path)
        size = sum(
            file.metadata.row_group(one).total_byte_size for one in range(file.num_row_groups)
        )
        if size > LARGEST:
            raise usage_error("data", path.name, f"at most {LARGEST} bytes of data", size)
        table = file.read()
        return {
            name: np.asarray(column.to_pylist(), object)
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        reason = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"data: {path.name} is not a Parquet file: {reason}.") from error


def column(table: Table, name: str, owner: str) -> np.ndarray:
    """Take a column by its name, or say which there are."""
    if name not in table:
        raise usage_error(owner, "column", "one of the table", name, suggestion(name, list(table)))
    return table[name]
