r"""The Parquet format, read by pyarrow, once what the file promises fits a table."""

from pathlib import Path
from typing import Any

import numpy as np

from principia.lab.data.cells import NUMBER, TEXT, Unread, need_names, need_room
from principia.lab.params import UsageError

__all__ = ["read_parquet"]


def read_parquet(path: Path) -> dict[str, Any]:
    """Read the cells of all columns, but of those that hold lists, records or bytes."""
    try:
        import pyarrow  # type: ignore[import-not-found]
        import pyarrow.parquet as parquet  # type: ignore[import-not-found]
    except ImportError:
        raise UsageError(
            "data: Parquet files need pyarrow; it is not installed. Run pip install "
            "'principia[parquet]', or use CSV."
        ) from None
    try:
        flat, others, rows = _promised(path, pyarrow.types, parquet)
        # a text that many rows share is kept once
        with parquet.ParquetFile(path, read_dictionary=flat) as file:
            table = file.read(columns=flat)
        cells = {name: _cells(table.column(name), pyarrow) for name in flat}
        return {**cells, **{name: Unread(kind, rows) for name, kind in others.items()}}
    except UsageError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError, TypeError, LookupError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UsageError(f"data: {path.name} is not a Parquet file: {reason}.") from error


def _promised(path: Path, types: Any, parquet: Any) -> tuple[list[str], dict[str, str], int]:
    """Name the columns that can be read, the others with their kinds, and count the rows."""
    with parquet.ParquetFile(path) as file:
        schema, metadata = file.schema_arrow, file.metadata
    need_names(path.name, schema.names)
    numbers = (types.is_integer, types.is_floating, types.is_boolean)
    texts = (
        types.is_string, types.is_large_string, types.is_dictionary, types.is_null,
        types.is_decimal, types.is_temporal,
    )
    costs = {
        one.name: cost
        for holds, cost in ((texts, TEXT), (numbers, 2 * NUMBER)) for one in schema
        if any(kind(one.type) for kind in holds)
    }
    groups = [metadata.row_group(one) for one in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(one.num_rows for one in groups))
    need_room(path.name, sum(one.total_byte_size for one in groups) + rows * sum(costs.values()))
    others = {one.name: str(one.type) for one in schema if one.name not in costs}
    return [one for one in schema.names if one in costs], others, rows


def _cells(column: Any, pyarrow: Any) -> Any:
    """Give numbers as an array where none is missing, anything else as objects."""
    if isinstance(column.type, pyarrow.DictionaryType):
        parts = [
            np.array([*one.dictionary.to_pylist(), None], object)[
                one.indices.fill_null(len(one.dictionary)).to_numpy()
            ]
            for one in column.chunks
        ]
        return np.concatenate(parts) if parts else ()
    types = pyarrow.types
    if types.is_boolean(column.type) or types.is_decimal(column.type) or column.null_count:
        return column.to_pylist()
    return column.to_numpy() if types.is_primitive(column.type) else column.to_pylist()
