"""Downloads: whole, with the right sum, or not there at all."""

import gzip
import hashlib
import io
import os
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import needs
from principia.lab.data import cifar10, fashion, files, mnist, reviews, speech, text8, uci
from principia.lab.data.files import Remote, RemoteFolder, find, find_folder
from principia.lab.params import UsageError

BODY = bytes(range(256)) * 500


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.delenv("PRINCIPIA_DATA", raising=False)
    monkeypatch.delenv("PRINCIPIA_OFFLINE")
    monkeypatch.setenv("PRINCIPIA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(files, "SCHEMES", ("https", "http", "file"))  # the server of the tests
    return tmp_path / "cache" / "data"


@pytest.fixture
def server():
    """A server on this machine: /whole, /moved (there), /short (ends early), /long, /gone, /a."""
    answers = {"/whole": BODY, "/long": BODY + b"more", "/a": b"first", "/b": b"second"}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = answers.get(self.path)
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", f"http://{self.headers['Host']}/whole")
                self.end_headers()
                return
            self.send_response(200 if body or self.path == "/short" else 404)
            self.send_header("Content-Length", str(len(body or BODY)))
            self.end_headers()
            self.wfile.write(body if body is not None else BODY[:1000])

        def log_message(self, *args):
            pass

    host = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=host.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{host.server_port}"
    host.shutdown()
    host.server_close()
    thread.join()


def remote(server, path, body=BODY):
    return Remote(f"{server}{path}", len(body), hashlib.sha256(body).hexdigest())


def leftovers(cache):
    return [one for one in cache.rglob("*") if one.is_file()] if cache.exists() else []


def test_a_file_is_downloaded_once(cache, server):
    path = find("set/file.bin", remote=remote(server, "/whole"))
    assert path == cache / "set/file.bin"
    assert path.read_bytes() == BODY
    assert find("set/file.bin", remote=remote(server, "/gone")) == path
    assert leftovers(cache) == [path]


def test_a_damaged_file_of_a_data_folder_is_refused(cache, server, tmp_path, monkeypatch):
    """Verified once: then path, size and time tell that it is the same."""
    monkeypatch.setenv("PRINCIPIA_DATA", str(tmp_path / "data"))
    path = tmp_path / "data/set/file.bin"
    path.parent.mkdir(parents=True)
    path.write_bytes(BODY)
    known = remote(server, "/gone")
    hashed = []
    monkeypatch.setattr(files, "_sha256", lambda path: hashed.append(path) or sha256_of(path))
    for _ in range(3):
        assert find("set/file.bin", remote=known) == path
    assert hashed == [path]
    os.utime(path, ns=(0, 0))
    assert find("set/file.bin", remote=known) == path
    assert hashed == [path] * 2
    for body in (BODY[:-1], b"?" + BODY[1:]):
        path.write_bytes(body)
        for _ in range(2):  # a refusal is not remembered as if it had been right
            with pytest.raises(UsageError, match=r"data/set/file\.bin must have its known SHA-256"):
                find("set/file.bin", remote=known)


def sha256_of(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_damaged_folder_is_refused(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("PRINCIPIA_DATA", str(tmp_path))
    (tmp_path / "set").mkdir()
    for name in "ab":
        (tmp_path / "set" / name).write_text(name)
    sums = "".join(f"{sha256_of(tmp_path / 'set' / name)}  {name}\n" for name in "ab")
    known = RemoteFolder("https://nowhere", "ab", hashlib.sha256(sums.encode()).hexdigest())
    assert find_folder("set", known) == tmp_path / "set"
    (tmp_path / "set/b").write_text("bb")
    with pytest.raises(UsageError, match="set must have its known SHA-256"):
        find_folder("set", known)


def test_downloads_come_over_https_alone(cache, server, monkeypatch):
    monkeypatch.setattr(files, "SCHEMES", ("https",))
    for url in (f"{server}/whole", "file:///etc/hostname", "ftp://localhost/a", "data:,a", "whole"):
        with pytest.raises(UsageError, match="it must come over https, not from"):
            find("set/file.bin", remote=Remote(url, 9, "0"))
    every = [*mnist.FILES.values(), *fashion.FILES.values(), *speech.FILES.values(),
             *reviews.FILES.values(), text8.REMOTE, *(one for _, one in cifar10.FILES.values())]
    assert all(one.startswith("https://") for one in (*(each.url for each in every), uci.HOME))
    # a server may not lead away from https either
    monkeypatch.setattr(files, "_need_safe", lambda url, check=files._need_safe: (
        None if url.endswith("/moved") else check(url)))
    with pytest.raises(UsageError, match=r"it must come over https, not from http://.*/whole"):
        find("set/file.bin", remote=remote(server, "/moved"))
    assert leftovers(cache) == []


@pytest.mark.parametrize(("path", "sentence"), [
    ("/long", "must have its known size and SHA-256; it does not"),
    ("/short", "data: set/file.bin must be in a data folder|must have its known size"),
    ("/gone", r"downloading \S+/gone failed: Not Found"),
])
def test_a_bad_download_leaves_nothing(cache, server, path, sentence):
    with pytest.raises(UsageError, match=sentence):
        find("set/file.bin", remote=remote(server, path))
    assert leftovers(cache) == []


def test_other_bytes_of_the_right_size_are_refused(cache, server):
    wanted = remote(server, "/whole", BODY[::-1])
    with pytest.raises(UsageError, match="SHA-256"):
        find("set/file.bin", remote=wanted)
    assert leftovers(cache) == []


def test_offline_says_what_to_put_where(cache):
    with pytest.raises(UsageError, match="downloading") as caught:
        find("set/file.bin", remote=Remote("http://127.0.0.1:9/nothing", 1, "0"))
    assert str(cache) in str(caught.value)
    assert "PRINCIPIA_DATA" in str(caught.value)


def test_whoever_forbids_downloads_gets_none(cache, server, monkeypatch):
    monkeypatch.setenv("PRINCIPIA_OFFLINE", "1")
    with pytest.raises(UsageError, match="PRINCIPIA_OFFLINE forbids to download it"):
        find("set/file.bin", remote=remote(server, "/whole"))
    assert leftovers(cache) == []


def test_a_folder_comes_whole_or_not_at_all(cache, server):
    sums = "".join(
        f"{hashlib.sha256(body).hexdigest()}  {name}\n"
        for name, body in (("a", b"first"), ("b", b"second"))
    )
    right = RemoteFolder(server, ("a", "b"), hashlib.sha256(sums.encode()).hexdigest())
    with pytest.raises(UsageError, match="SHA-256"):
        find_folder("set", RemoteFolder(server, ("a", "b"), "0"))
    assert leftovers(cache) == []
    (cache / "set").mkdir(parents=True)
    (cache / "set/a").write_bytes(b"half a set from somewhere")
    folder = find_folder("set", right)
    assert [(folder / name).read_bytes() for name in "ab"] == [b"first", b"second"]


@pytest.mark.parametrize("files", [mnist.FILES, fashion.FILES, speech.FILES],
                         ids=["mnist", "fashion", "speech"])
def test_the_known_sums_are_those_of_the_real_files(files):
    """The files at hand are the ones that a download would accept."""
    folder = {id(mnist.FILES): "mnist", id(fashion.FILES): "fashion-mnist"}.get(id(files), "fsdd")
    for name, wanted in files.items():
        with needs.data():
            path = find(f"{folder}/{name}")
        body = path.read_bytes()
        assert (len(body), hashlib.sha256(body).hexdigest()) == (wanted.size, wanted.sha256)
        assert body[:4] == b"RIFF" or gzip.decompress(body)[:3] == b"\0\0\x08"


def test_a_recording_that_ends_early_is_refused(tmp_path):
    (tmp_path / "fsdd").mkdir()
    with needs.data():
        whole = find("fsdd/7_jackson_0.wav").read_bytes()
    for size in (len(whole) - 1, 1000, 44, 10, 0):
        (tmp_path / "fsdd/mine.wav").write_bytes(whole[:size])
        with pytest.raises(UsageError, match=r"speech: mine\.wav (is not a|must be one)"):
            speech.spoken_digit("mine.wav", data_dir=tmp_path)
    assert float(speech.spoken_digit().abs().max()) == 1


def test_the_beginning_of_a_file_in_a_tar_archive_is_downloaded(cache, tmp_path):
    archive, text = tmp_path / "text.tar.gz", b"anarchism originated as a term of abuse"
    with tarfile.open(archive, "w:gz") as stream:
        for name, body in (("of/this", b"nothing"), ("of/text", text), ("of/that", b"no more")):
            member = tarfile.TarInfo(name)
            member.size = len(body)
            stream.addfile(member, io.BytesIO(body))
    right = hashlib.sha256(text[:9]).hexdigest()
    url, size = archive.as_uri(), archive.stat().st_size
    for member, limit in (("of/that", size), ("text", size), ("of/text", size - 1)):
        with pytest.raises(UsageError, match="must have its known size and SHA-256"):
            find("set/text.prefix", remote=Remote(url, 9, right, limit, member))
    path = find("set/text.prefix", remote=Remote(url, 9, right, size, "of/text"))
    assert path.read_bytes() == b"anarchism"
    archive.write_bytes(archive.read_bytes()[: size // 2])
    with pytest.raises(UsageError, match="must have its known size and SHA-256"):
        find("other/text.prefix", remote=Remote(url, 9, right, size, "of/text"))
    assert leftovers(cache) == [path]


def test_the_beginning_of_a_zipped_file_is_downloaded(cache, tmp_path):
    archive, text = tmp_path / "text.zip", b"anarchism originated as a term of abuse"
    with zipfile.ZipFile(archive, "w") as stream:
        stream.writestr("text", text)
    right = hashlib.sha256(text[:9]).hexdigest()
    url, size = archive.as_uri(), archive.stat().st_size
    for wrong in (Remote(url, 10, right, zipped=size), Remote(url, 9, right, zipped=size - 1)):
        with pytest.raises(UsageError, match="must have its known size and SHA-256"):
            find("set/text.prefix", remote=wrong)
    path = find("set/text.prefix", remote=Remote(url, 9, right, zipped=size))
    assert path.read_bytes() == b"anarchism"
    archive.write_bytes(b"no archive")
    with pytest.raises(UsageError, match="must have its known size and SHA-256"):
        find("other/text.prefix", remote=Remote(url, 9, right, zipped=size))
    assert leftovers(cache) == [path]
