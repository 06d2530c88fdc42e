"""Generated and damaged tables are learned from, or refused in a sentence."""

import csv
import io
import warnings
import zipfile

import numpy as np
import pytest

import commands
from fuzzing import damaged, guarded, need_sentence
from principia.lab.data.own import load
from principia.lab.data.schema import Schema, examples
from principia.lab.params import UsageError
from principia.lab.seeds import Seed

CASES = 100  # of a chunk
CELLS = (
    "", "NA", "nan", "inf", "-inf", "1e308", "-1e308", "1e999", "1e-320", "1_000", "\u0661\u0662",
    "0x1", "1e", "1.5e3", " 3 ", "True", "é", "\U0001f600", '"', 'a"b', "a\nb", "a,b", "x" * 400,
    "-0", "+7", "1" * 400, "2024-01-01", "\u2028", "\ufeff", "=1+1",
)
NUMBERS = (
    lambda rng, rows: rng.normal(size=rows), lambda rng, rows: rng.integers(0, 3, rows),
    lambda rng, rows: rng.normal(size=rows) * 10.0 ** rng.integers(-320, 308),
    lambda rng, rows: np.where(rng.random(rows) < 0.1, 1e308, rng.normal(size=rows)),
    lambda rng, rows: rng.choice([1e308, -1e308], rows), lambda rng, rows: np.ones(rows),
    lambda rng, rows: np.arange(rows), lambda rng, rows: rng.random(rows) < 0.5,
    lambda rng, rows: rng.choice([0.0, np.nan], rows, p=[0.95, 0.05]),
)
TEXTS = (
    lambda rng, rows: rng.choice(["a", "b", "ß"], rows),
    lambda rng, rows: np.array([f"n{place}" for place in range(rows)]),
    lambda rng, rows: rng.choice(np.array([*CELLS, *"abcd"], object), rows),
)
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2)
KINDS = ("f2", "f4", ">f8", "f16", "i1", "u8", "?", "U3", "S3", "c16", "O", "M8[s]", "f4,i2", "U0")


def one_of(rng, things):
    return things[int(rng.integers(0, len(things)))]


def columns(rng):
    rows = int(one_of(rng, (0, 9, 10, 30, 30, 60, 60, 60)))
    names = [f"c{place}" for place in range(rng.integers(1, 5))]
    if rng.random() < 0.1:
        names[-1] = one_of(rng, ("", "c0", " c0 ", "1", "é", "a,b", '"', "x" * 300, "\u0661"))
    kinds = NUMBERS + TEXTS if rng.random() < 0.3 else (*NUMBERS[:3], TEXTS[0])
    return [(name, one_of(rng, kinds)(rng, rows)) for name in [*names, "y"]]


def write_csv(path, named, rng):
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=one_of(rng, ",;\t|"))
    writer.writerow([name for name, _ in named])
    writer.writerows(zip(*(values.tolist() for _, values in named), strict=True))
    text = stream.getvalue()
    written = one_of(rng, ("utf-8-sig", "utf-16", "latin-1")) if rng.random() < 0.1 else "utf-8"
    path.write_bytes(text.encode(written, "replace"))


def write_npz(path, named, rng):
    """Write arrays, some of other kinds and shapes, some with damaged headers, packed anyhow."""
    with (
        warnings.catch_warnings(),
        zipfile.ZipFile(path, "w", one_of(rng, PACKINGS)) as archive,
    ):
        warnings.simplefilter("ignore")  # zipfile warns of two members of one name
        for name, values in named:
            values = values.astype(str) if values.dtype.kind == "O" else values
            if rng.random() < 0.05:
                values = np.zeros(one_of(rng, ((), (3,), (2, 2, 2), (0, 3))), one_of(rng, KINDS))
            elif rng.random() < 0.1 and len(values) % 2 == 0:
                values = values.reshape(-1, 2)
            stream = io.BytesIO()
            np.lib.format.write_array(stream, values, one_of(rng, ((1, 0), (2, 0), (3, 0))))
            body = stream.getvalue()
            if rng.random() < 0.1:
                body = damaged(body[:130], rng) + body[130:]
            archive.writestr(f"{name}.npy", body)


def write_parquet(path, named, rng):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    arrays = [pyarrow.array(_plain(values)) for _, values in named]
    if rng.random() < 0.2:
        rows = len(arrays[0])
        odd = one_of(rng, ([[1, 2]], [{"a": 1}], [b"\xff"], [None], [True]))
        arrays[0] = pyarrow.array(odd * rows) if rng.random() < 0.7 else (
            pyarrow.array(["a"] * rows).dictionary_encode())
    table = pyarrow.Table.from_arrays(arrays, [name for name, _ in named])
    options = {"compression": one_of(rng, ("none", "snappy", "zstd", "gzip")),
               "use_dictionary": bool(rng.random() < 0.5), "version": one_of(rng, ("1.0", "2.6"))}
    parquet.write_table(table, path, row_group_size=int(one_of(rng, (3, 1000))), **options)


def _plain(values):
    return [str(one) for one in values] if values.dtype.kind == "O" else values.tolist()


WRITERS = {"csv": write_csv, "tsv": write_csv, "npz": write_npz, "parquet": write_parquet}


def case(folder, rng):
    """Write a table; name its file."""
    ending = one_of(rng, tuple(WRITERS))
    path = folder / f"mine.{ending}"
    WRITERS[ending](path, columns(rng), rng)
    if rng.random() < 0.3:
        path.write_bytes(damaged(path.read_bytes(), rng))
    return path


def learned(path):
    """Do with a table what training and predicting do; give the sentence that refused it."""
    try:
        table, _ = load(str(path))
        ready = examples(table, "y", seed=Seed(0))
        assert bool(ready.x.isfinite().all())
        assert bool(ready.y.isfinite().all())
        again = Schema.from_json(ready.schema.to_json())
        again.encode(table)
        assert {len(table.as_given(name)) for name in table} == {len(ready.x) + len(ready.x_test)}
    except UsageError as error:
        return str(error)
    return ""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("chunk", range(100))
def test_any_table_is_learned_from_or_refused(tmp_path, chunk):
    refused = []
    for place in range(CASES):
        rng = np.random.default_rng([chunk, place])
        path = case(tmp_path, rng)
        with guarded():
            refused.append(learned(path))
            if place % 50 == 0:
                words = ("run", "regression/ridge", "--data", path, "--target", "y", "--threads", 1)
                need_sentence(commands.principia(*words, cwd=tmp_path))
    assert 0 < refused.count("") < CASES, "a fuzzer whose tables are all alike proves nothing"
    assert not [one for one in refused if "\n" in one]
