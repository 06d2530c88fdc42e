"""The user's own tables: read right, or refused with the place of what is wrong."""

import csv
import io
import math
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from principia.lab.data import cells
from principia.lab.data.embedded import TABLES, embedded_table
from principia.lab.data.idx import read_idx
from principia.lab.data.own import load
from principia.lab.data.schema import Schema, examples
from principia.lab.data.table import FileTable, column, read_table
from principia.lab.params import UsageError
from principia.lab.seeds import Seed

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


def written(folder, text, name="mine.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]),
                min_size=1, max_size=8).map(str.strip).filter(bool)


@QUICK
@given(
    names=st.lists(texts.map(lambda text: f"c {text}"), min_size=1, max_size=4, unique=True),
    rows=st.integers(1, 6), delimiter=st.sampled_from(",;\t|"), data=st.data(),
)
def test_what_csv_writes_is_read_back(tmp_path, names, rows, delimiter, data):
    """Whatever Python's own csv module writes, with quotes and line breaks in cells."""
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    columns = {
        name: data.draw(st.lists(numbers, min_size=rows, max_size=rows)
                        | st.lists(texts.map(lambda text: f"t{text}"), min_size=rows,
                                   max_size=rows))
        for name in names
    }
    if any(sign in name for name in names for sign in ",;\t|\n\r\""):
        return  # which sign divides the cells is seen in the first line
    stream = io.StringIO()
    # a header of one column does not show a sign, which then is the comma
    writer = csv.writer(stream, delimiter=delimiter if len(names) > 1 else ",")
    writer.writerows([names, *zip(*columns.values(), strict=True)])
    found = read_table(written(tmp_path, stream.getvalue()))
    assert list(found) == [name.strip() for name in names]
    for name, written_ones in columns.items():
        assert found[name.strip()].tolist() == [
            one.strip() if isinstance(one, str) else one for one in written_ones]


@pytest.mark.parametrize(("text", "sentence"), [
    ("", "must be a file of 1 to"),
    ("a,b\n", "must have a column and a row; it has none"),
    ("a,b\n1,2\n3\n", "line 3 of mine.csv must have 2 cells like the header; got 1"),
    ("a,b\n1,2\n\n3,\n", "row 2, column 'b' of mine.csv must have a value; got ''"),
    ("a,b\n1,NA\n", "row 1, column 'b' of mine.csv must have a value; got 'NA'"),
    ("a,b\n1,inf\n", "row 1, column 'b' of mine.csv must be a finite number; got inf"),
    ("a,a\n1,2\n", "must name its columns differently; got 'a' twice"),
    ("a,\n1,2\n", "must name every column in its first line"),
    ("1,2\n3,4\n", "the first line of mine.csv must name the columns; got numbers"),
    (b"a,b\n\xff,2\n", "must be text in UTF-8; got 'byte 4'"),
    (b"a,b\n\x00,2\n", "must be text; got 'a zero byte'"),
    ('a,b\n"1,2\n', "is not a table of cells"),
])
def test_what_is_wrong_is_said_with_its_place(tmp_path, text, sentence):
    with pytest.raises(UsageError, match=sentence.replace("(", r"\(")):
        dict(read_table(written(tmp_path, text)))


def test_other_formats_hold_the_same_table(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    size, color = [1.5, 2.0, -3.0], ["red", "blue", "red"]
    np.savez(tmp_path / "a.npz", size=np.array(size), color=np.array(color))
    parquet.write_table(pyarrow.table({"size": size, "color": color}), tmp_path / "a.parquet")
    written(tmp_path, "size;color\n1.5;red\n2;blue\n-3;red\n", "a.csv")
    written(tmp_path, "\ufeffsize\tcolor\n1.5\tred\n2\tblue\n-3\tred\n", "a.tsv")
    for ending in ("npz", "parquet", "csv", "tsv"):
        table = read_table(tmp_path / f"a.{ending}")
        assert {name: column.tolist() for name, column in table.items()} == {
            "size": size, "color": color}


def test_a_missing_cell_of_parquet_is_refused(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.table({"a": [1.0, None, 3.0]}), tmp_path / "a.parquet")
    with pytest.raises(UsageError, match="row 2, column 'a'"):
        dict(read_table(tmp_path / "a.parquet"))


def test_a_matrix_of_npz_becomes_columns(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.arange(6.0).reshape(3, 2), y=np.arange(3))
    assert list(read_table(tmp_path / "a.npz")) == ["X0", "X1", "y"]


def test_pickles_are_never_opened(tmp_path):
    class Evil:
        def __reduce__(self):
            return (exec, ("raise SystemExit('a pickle was opened')",))

    np.savez(tmp_path / "a.npz", X=np.array([Evil()], dtype=object))
    with pytest.raises(UsageError, match="no Python objects"):
        read_table(tmp_path / "a.npz")


def test_a_header_that_promises_a_gigabyte_is_refused(tmp_path):
    body = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        body, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("X.npy", body.getvalue() + b"\0" * 64)
    with pytest.raises(UsageError, match="at most 1073741824 bytes of data; got 17592186044416"):
        read_table(tmp_path / "a.npz")


def test_members_count_together_before_anything_is_inflated(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(700), b=np.zeros(700))
    monkeypatch.setattr(cells, "LARGEST", 10_000)
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was inflated"))
        with pytest.raises(UsageError, match="at most 10000 bytes of data; got 11456"):
            read_table(tmp_path / "a.npz")
    # eight bytes of memory for each byte of the file
    np.savez_compressed(tmp_path / "a.npz", a=np.zeros(700, bool), b=np.zeros(700, bool))
    with pytest.raises(UsageError, match="at most 10000 bytes of data; got 12600"):
        read_table(tmp_path / "a.npz")


def test_a_parquet_file_that_promises_too_much_is_refused_unread(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"a": [1.0] * 1000, "b": ["x"] * 1000})
    parquet.write_table(table, tmp_path / "a.parquet")
    assert (tmp_path / "a.parquet").stat().st_size < 3000
    monkeypatch.setattr(cells, "LARGEST", 50_000)
    monkeypatch.setattr(parquet.ParquetFile, "read", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(UsageError, match="at most 50000 bytes of data; got 8"):
        read_table(tmp_path / "a.parquet")


def test_a_text_that_rows_share_is_kept_once(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    long = pyarrow.array(["x" * 1_000_000]).take(pyarrow.array([0] * 200))
    parquet.write_table(pyarrow.table({"a": long, "b": [None, "y"] * 100}), tmp_path / "a.parquet")
    table, peak = peak_of(lambda: (read_table(tmp_path / "a.parquet"), 1)[0])
    assert set(table["a"]) == {"x" * 1_000_000}
    assert peak < 10e6
    with pytest.raises(UsageError, match=r"row 1, column 'b' of a\.parquet must have a value"):
        table["b"]


def peak_of(work):
    """Give the result of some work, and how much memory of Python's it took at most."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_one_long_text_widens_no_other(tmp_path):
    """As an array of fixed width this took 2 GB: 4,000 rows as wide as the widest."""
    rows = "".join(f"{row},t\n" for row in range(4000))
    path = written(tmp_path, f"a,b\n0,{'x' * 130_000}\n{rows}")
    table, peak = peak_of(lambda: dict(read_table(path)))
    assert peak < 10e6
    assert [len(one) for one in table["b"][:2]] == [130_000, 1]


def test_many_columns_are_read_and_learned(tmp_path):
    """Nothing looks at every column for every column: 30,000 would take minutes."""
    names = [f"c{place}" for place in range(30_000)]
    row = ",".join("12" for _ in names)
    table = read_table(written(tmp_path, ",".join(names) + f"\n{row}\n{row}\n"))
    assert (len(table), table["c29999"].tolist()) == (30_000, [12.0, 12.0])
    with pytest.raises(UsageError, match=r"got 'z'\. There is c0, .*, c99, and 29900 more\."):
        column(table, "z", "data")


@pytest.mark.parametrize(
    "cell", ["1_000", "\u0661\u0662", "\uff11", "1\u066b5", "0x10", "1e", "12 3"]
)
def test_what_only_python_takes_for_a_number_is_text(tmp_path, cell):
    table = read_table(written(tmp_path, f"a,b\n{cell},1\n2,1e3\n"))
    assert table["a"].tolist() == [cell, "2"]
    assert table["b"].tolist() == [1.0, 1000.0]


def test_a_column_that_nobody_asks_for_may_hold_anything(tmp_path):
    rows = "".join(f"{place},{place % 3},,{'inf' if place % 2 else 'NA'}\n" for place in range(30))
    path = written(tmp_path, f"x,y,empty,odd\n{rows}")
    ready = examples(read_table(path), "y", seed=Seed(0), drop=("empty", "odd"))
    assert [one.name for one in ready.schema.features] == ["x"]
    with pytest.raises(UsageError, match="row 1, column 'empty'"):
        examples(read_table(path), "y", seed=Seed(0), drop=("odd",))


def test_lists_and_bytes_of_parquet_are_refused_when_asked_for(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"a": [[1, 2], [3, 4]], "b": [b"1", b"2"], "c": [1, 2], "d": [True, False]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert {name: table[name].tolist() for name in "cd"} == {"c": [1, 2], "d": ["True", "False"]}
    for name, kind in (("a", "list"), ("b", "binary")):
        with pytest.raises(UsageError, match=f"be numbers or texts; got '{kind}.*--drop {name}"):
            table[name]


def test_two_columns_of_one_name_are_refused(tmp_path):
    sentence = "must name its columns differently; got 'X0' twice"
    np.savez(tmp_path / "a.npz", X=np.zeros((3, 2)), X0=np.ones(3))
    with pytest.raises(UsageError, match=sentence):
        read_table(tmp_path / "a.npz")
    with warnings.catch_warnings(), zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        warnings.simplefilter("ignore")  # zipfile warns of it
        for value in (0.0, 1.0):
            with archive.open("X0.npy", "w") as stream:
                np.save(stream, np.full(3, value))
    with pytest.raises(UsageError, match=sentence):
        read_table(tmp_path / "b.npz")
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    twice = pyarrow.Table.from_arrays([pyarrow.array([1.0]), pyarrow.array([2.0])], ["X0", "X0"])
    parquet.write_table(twice, tmp_path / "a.parquet")
    with pytest.raises(UsageError, match=sentence):
        read_table(tmp_path / "a.parquet")


def npz(*, header, body=b"\0" * 24):
    """Write an npz file with the header of an array as somebody may have changed it."""
    text = header.encode()
    array = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + body
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x.npy", array)
    return stream.getvalue()


RIGHT = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }"


@pytest.mark.parametrize("header", [
    "(((", "  {'descr'", "{'descr': '<f8'", "{'descr': 0, 'fortran_order': False, 'shape': (3,)}",
    "\0", "{[]: 1}", RIGHT.replace("3", "-3"), RIGHT.replace("3", "03"), RIGHT.replace("f8", "f9"),
    RIGHT.replace("(3,)", "()"), RIGHT.replace("(3,)", "(2,)"), RIGHT.replace("<f8", "<U0"),
    RIGHT.replace("<f8", "<c8"), RIGHT.replace("<f8", "f8,f8"), "-" * 5000 + "1",
])
def test_a_broken_header_gets_a_sentence(tmp_path, header):
    path = written(tmp_path, npz(header=RIGHT), "a.npz")
    assert read_table(path)["x"].tolist() == [0, 0, 0]
    with pytest.raises(UsageError, match="data: "):
        read_table(written(tmp_path, npz(header=header), "a.npz"))


def test_a_damaged_compressed_array_gets_a_sentence(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", x=np.arange(1000.0))
    body = bytearray((tmp_path / "a.npz").read_bytes())
    body[60:90] = b"\xff" * 30
    with pytest.raises(UsageError, match=r"a\.npz is not an npz file: Error -3 while decompress"):
        read_table(written(tmp_path, bytes(body), "a.npz"))


def test_a_text_that_cannot_be_written_is_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.array(["a", "\ud800"]))
    with pytest.raises(UsageError, match=r"a\.npz is not an npz file: 'utf-8' codec"):
        read_table(tmp_path / "a.npz")


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet", "gz"])
def test_random_and_damaged_bytes_get_a_sentence(tmp_path, ending, seeds):
    """Fuzz: any bytes, and real files with bytes changed, cut off or put in; never a crash."""
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    good = _good_file(tmp_path, ending)
    read = read_idx if ending == "gz" else read_table
    sentences = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        for trial in range(60):
            body = bytearray(good) if trial % 3 else bytearray(rng.bytes(rng.integers(0, 400)))
            for _ in range(rng.integers(1, 6)):
                place = int(rng.integers(0, len(body) + 1))
                change = rng.integers(0, 3)
                if change == 0:
                    body[place:place + 1] = rng.bytes(1)
                elif change == 1:
                    body[place:] = b""
                else:
                    body[place:place] = rng.bytes(int(rng.integers(1, 9)))
            path = written(tmp_path, bytes(body), f"fuzz.{ending}")
            try:
                found = read(path)
            except UsageError as error:
                sentences.append(str(error))
                continue
            if isinstance(found, FileTable):
                assert len({len(found.as_given(name)) for name in found}) == 1
    assert sentences
    assert not [one for one in sentences if "\n" in one]


def _good_file(folder, ending):
    path = folder / f"good.{ending}"
    columns = {"size": np.linspace(0, 1, 20), "kind": np.array(["a", "b"] * 10)}
    if ending == "csv":
        rows = zip(*columns.values(), strict=True)
        path.write_text("size,kind\n" + "".join(f"{one},{other}\n" for one, other in rows))
    elif ending == "npz":
        np.savez(path, **columns)
    elif ending == "parquet":
        import pyarrow
        import pyarrow.parquet as parquet

        parquet.write_table(pyarrow.table(columns), path)
    else:
        import gzip

        path.write_bytes(gzip.compress(b"\0\0\x08\x02\0\0\0\x03\0\0\0\x04" + bytes(range(12))))
    return path.read_bytes()


def test_schema_scales_by_the_training_rows_and_encodes_categories(tmp_path):
    rng = np.random.default_rng(0)
    table = {
        "size": rng.normal(5, 3, 200), "kind": np.array(["a", "b", "c", "a"] * 50),
        "constant": np.ones(200), "price": rng.normal(size=200),
    }
    ready = examples(table, "price", seed=Seed(0))
    assert ready.schema.task == "regression"
    assert ready.x.shape == (160, 4)  # one number, three categories; the constant is left out
    assert float(ready.x[:, 0].mean()) == pytest.approx(0, abs=1e-6)
    assert float(ready.x[:, 0].std(correction=0)) == pytest.approx(1, abs=1e-6)
    assert torch.equal(ready.x[:, 1:].sum(1), torch.ones(160))
    again = Schema.from_json(ready.schema.to_json())
    assert again == ready.schema
    assert torch.equal(again.encode(table), ready.schema.encode(table))


def test_splits_are_seeded_stratified_and_apart():
    table, target = embedded_table("iris")
    table = {**table, "row": np.arange(150.0)}
    first, again, other = (examples(table, target, seed=Seed(seed)) for seed in (0, 0, 1))
    assert torch.equal(first.x, again.x)
    assert not torch.equal(first.x, other.x)
    assert first.y_test.bincount().tolist() == [10, 10, 10]
    rows = torch.cat([first.x[:, -1], first.x_test[:, -1]])
    assert len(rows.unique()) == 150


@pytest.mark.parametrize(("table", "sentence"), [
    ({"x": np.arange(20.0), "y": np.ones(20)}, "the target must be a column that varies"),
    ({"y": np.arange(20.0)}, "must have a column beside the target"),
    ({"x": np.ones(20), "y": np.arange(20.0)}, "all of them are constant"),
    ({"x": np.arange(4.0), "y": np.arange(4.0)}, "at least 10 rows; got 4"),
    ({"x": np.array([f"n{k}" for k in range(300)]), "y": np.arange(300.0)},
     "leave it out with --drop x"),
    ({"x": np.arange(20.0), "z": np.arange(20.0)}, "column must be one of the table; got 'y'"),
])
def test_tables_that_nobody_can_learn_are_refused(table, sentence):
    with pytest.raises(UsageError, match=sentence):
        examples(table, "y", seed=Seed(0))


def wild(far, **columns):
    return {"x": np.array([*np.linspace(0, 1, 39), far]), "z": np.arange(40.0), **columns}


@pytest.mark.parametrize("unit", [1e-300, 1e-30, 1e30, 1e300, 1.7e308])
def test_large_and_small_units_of_features_are_only_a_scale(unit):
    table = wild(0.5)
    ready, other = (
        examples({**table, "x": table["x"] * factor}, "z", seed=Seed(0)) for factor in (1.0, unit)
    )
    assert torch.allclose(ready.x, other.x, atol=1e-5)


def test_a_row_far_from_the_training_rows_is_refused():
    schema = examples(wild(0.5), "z", seed=Seed(0)).schema
    with pytest.raises(UsageError, match="row 2, column 'x' of the table must be on the scale"):
        schema.encode({"x": np.array([0.1, 1e300])})


@pytest.mark.parametrize(("y", "sentence"), [
    (np.linspace(1e37, 3e37, 40), "must be numbers from -1e\\+36 to 1e\\+36; got 3e\\+37"),
    (np.linspace(1, 2, 40) * 1e-40, "numbers that spread by 1e-36 or more"),
])
def test_a_target_that_float32_cannot_hold_is_refused(y, sentence):
    with pytest.raises(UsageError, match=sentence):
        examples(wild(0.5, y=y), "y", seed=Seed(0))


def test_a_new_category_is_refused_when_predicting():
    table = {"kind": np.array(["a", "b"] * 20), "y": np.arange(40.0)}
    schema = examples(table, "y", seed=Seed(0)).schema
    with pytest.raises(UsageError, match="row 2, column 'kind' must be one of the values"):
        schema.encode({"kind": np.array(["a", "z"])})


@pytest.mark.parametrize("name", list(TABLES))
def test_embedded_tables_can_be_learned(name):
    table, target = embedded_table(name)
    ready = examples(table, target, seed=Seed(0))
    assert bool(ready.x.isfinite().all())
    assert math.isclose(len(ready.y_test) / len(table[target]), 0.2, abs_tol=0.01)


def test_own_data_is_a_file_or_a_known_name(tmp_path):
    with pytest.raises(UsageError, match="must be a file, or one of iris, wine"):
        load(str(tmp_path / "nothing.csv"))
    with pytest.raises(UsageError, match=r"must be a file that ends in \.csv"):
        load(str(written(tmp_path, "{}", "mine.json")))
