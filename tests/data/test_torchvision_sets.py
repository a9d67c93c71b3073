"""diffgen.data.torchvision_sets; what is published is laid out or served from here."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import pickle
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat
from torchvision import datasets

from diffgen.data import load
from diffgen.data.torchvision_sets import KNOWN, fetch
from diffgen.errors import Stopped, UserError
from diffgen.events import Event, Progress, StopToken
from tests.recording import Recording

RANDOM = np.random.default_rng(0)
GREY = RANDOM.integers(0, 256, (60, 28, 28), dtype=np.uint8)
LABELS = RANDOM.integers(0, 10, 60)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of published sets in a cache of its own."""
    monkeypatch.setenv("DIFFGEN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "datasets"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and the address at which its files can be fetched."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def idx_files(make: Any, start: str = "t10k", images: np.ndarray = GREY) -> dict[str, bytes]:
    return {
        f"{start}-images-idx3-ubyte.gz": make.idx_bytes(images, compressed=True),
        f"{start}-labels-idx1-ubyte.gz": make.idx_bytes(LABELS, compressed=True),
    }


def publish(
    monkeypatch: pytest.MonkeyPatch, served: tuple[Path, str], files: dict[str, bytes], known: Any = datasets.MNIST
) -> None:
    """Make a data set of the format of MNIST consist of these files, at our address."""
    for name, content in files.items():
        (served[0] / name).write_bytes(content)
    monkeypatch.setattr(known, "mirrors", [served[1] + "gone/", served[1]])
    monkeypatch.setattr(known, "resources", [(name, md5(content)) for name, content in files.items()])


@pytest.mark.parametrize("source", ["torchvision:MNIST", "torchvision:mnist", "torchvision:MNIST:test"])
def test_files_are_fetched_once(
    root: Path, served: Any, make: Any, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    publish(monkeypatch, served, idx_files(make) | idx_files(make, "train", 255 - GREY))
    found = load(source)
    assert np.array_equal(found.images[:, 0], GREY)
    assert found.labels is not None
    assert np.array_equal(found.labels, LABELS)
    assert found.class_names == tuple(datasets.MNIST.classes)
    assert found.source == source
    assert sorted(file.name for file in (root / "MNIST" / "raw").iterdir()) == sorted(idx_files(make))
    shutil.rmtree(served[0])
    assert load(source).digest == found.digest
    served[0].mkdir()


def test_the_training_half(root: Path, served: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, served, idx_files(make) | idx_files(make, "train", 255 - GREY), datasets.KMNIST)
    found = load("torchvision:KMNIST:train")
    assert np.array_equal(found.images[:, 0], 255 - GREY)
    assert found.class_names == tuple(datasets.KMNIST.classes)


def test_progress_of_fetching(root: Path, served: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    files = idx_files(make)
    publish(monkeypatch, served, files)
    recorder = Recording()
    load("torchvision:MNIST", progress=recorder.progress)
    for name, content in files.items():
        assert recorder.totals[f"Fetching {name}"] == len(content)


def test_what_arrives_damaged_is_not_kept(
    root: Path, served: Any, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(monkeypatch, served, idx_files(make))
    (served[0] / "t10k-images-idx3-ubyte.gz").write_bytes(b"something else")
    refused(
        "torchvision:MNIST", "could not be fetched", "File not found", "damaged or another file", str(root / "MNIST")
    )
    assert list((root / "MNIST" / "raw").iterdir()) == []


@pytest.mark.parametrize("name", KNOWN)
def test_no_network(root: Path, refused: Any, name: str) -> None:
    message = refused(f"torchvision:{name}", f"'torchvision:{name}' could not be fetched", "by hand", "http")
    assert str(root) in message
    assert not [file for file in root.rglob("*") if file.is_file()]


def test_a_cache_that_cannot_be_made(root: Path, refused: Any) -> None:
    root.parent.write_text("a file")
    refused("torchvision:MNIST", "cannot be made", "DIFFGEN_CACHE")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("CIFAR", "did you mean 'torchvision:CIFAR10'?"),
        ("fashion_mnist", "did you mean 'torchvision:FashionMNIST'?"),
        ("zzz", "known are MNIST, FashionMNIST,"),
        ("", "known are"),
        ("CIFAR10:valid", "':train' or ':test'"),
        ("CIFAR10:", "':train' or ':test'"),
        ("EMNIST", "did you mean"),
    ],
)
def test_unknown_names(root: Path, refused: Any, name: str, words: str) -> None:
    refused(f"torchvision:{name}", words)


@pytest.mark.parametrize(
    ("bare", "meant"), [("cifar10", "CIFAR10"), ("Fashion-MNIST", "FashionMNIST"), ("svhn", "SVHN")]
)
def test_bare_names_are_recognised(refused: Any, bare: str, meant: str) -> None:
    refused(bare, f"did you mean 'torchvision:{meant}'?")


def test_every_known_name_is_one_of_torchvision() -> None:
    assert all(hasattr(datasets, name.partition("-")[0]) for name in KNOWN)
    assert {f"EMNIST-{split}" for split in datasets.EMNIST.splits} <= set(KNOWN)


@pytest.mark.parametrize("packed", [True, False])
def test_files_put_there_by_hand(root: Path, make: Any, packed: bool) -> None:
    files = idx_files(make)
    if not packed:
        files = {name.removesuffix(".gz"): gzip.decompress(content) for name, content in files.items()}
    make.write_folder(root / "FashionMNIST" / "raw", files)
    found = load("torchvision:FashionMNIST")
    assert np.array_equal(found.images[:, 0], GREY)
    assert found.class_names == tuple(datasets.FashionMNIST.classes)


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_real_files_are_what_torchvision_reads(root: Path, shared_folder: Path, name: str) -> None:
    folder = shared_folder / "data" / name
    if not folder.is_dir():
        pytest.skip(f"There is no folder {folder}.")
    known = {"mnist": "MNIST", "fashion-mnist": "FashionMNIST"}[name]
    raw = root / known / "raw"
    raw.mkdir(parents=True)
    for start in ("t10k", "train"):
        for kind in ("images-idx3", "labels-idx1"):
            packed = (folder / f"{start}-{kind}-ubyte.gz").read_bytes()
            (raw / f"{start}-{kind}-ubyte").write_bytes(gzip.decompress(packed))
    found = load(f"torchvision:{known}")
    expected = getattr(datasets, known)(str(root), train=False)
    assert np.array_equal(found.images[:, 0], expected.data.numpy())
    assert found.labels is not None
    assert np.array_equal(found.labels, expected.targets.numpy())


def test_emnist(root: Path, served: Any, make: Any, monkeypatch: pytest.MonkeyPatch, refused: Any) -> None:
    names = {
        f"t10k-{kind}": f"gzip/emnist-letters-test-{kind}" for kind in ("images-idx3-ubyte.gz", "labels-idx1-ubyte.gz")
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in idx_files(make).items():
            archive.writestr(names[name], content)
        archive.writestr("gzip/emnist-digits-test-images-idx3-ubyte.gz", b"damaged")
    (served[0] / "gzip.zip").write_bytes(stream.getvalue())
    monkeypatch.setattr(datasets.EMNIST, "url", served[1] + "gzip.zip")
    monkeypatch.setattr(datasets.EMNIST, "md5", md5(stream.getvalue()))
    found = load("torchvision:emnist-letters")
    assert np.array_equal(found.images[:, 0], GREY)
    assert found.class_names is not None
    assert found.class_names[:3] == ("N/A", "a", "b")
    assert len(list((root / "EMNIST" / "raw").iterdir())) == 3
    refused("torchvision:EMNIST-digits", "gzip.zip")


def cifar_files(labels_key: str = "labels", each: int = 60) -> dict[str, bytes]:
    pixels = RANDOM.integers(0, 256, (each, 3072), dtype=np.uint8)
    batch = pickle.dumps({"data": pixels, labels_key: [n % 10 for n in range(each)]}, protocol=2)
    names = pickle.dumps({"label_names": list("abcdefghij")}, protocol=2)
    return {**{f"data_batch_{n}": batch for n in range(1, 6)}, "test_batch": batch, "batches.meta": names}


def publish_cifar(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    known = datasets.CIFAR10
    monkeypatch.setattr(known, "train_list", [[f, md5(files[f])] for f in files if f.startswith("data")])
    monkeypatch.setattr(known, "test_list", [["test_batch", md5(files["test_batch"])]])
    monkeypatch.setattr(known, "meta", {**known.meta, "md5": md5(files["batches.meta"])})


def test_cifar(root: Path, served: Any, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    files = cifar_files()
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-py/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (served[0] / "cifar-10-python.tar.gz").write_bytes(stream.getvalue())
    publish_cifar(monkeypatch, files)
    monkeypatch.setattr(datasets.CIFAR10, "url", served[1] + "cifar-10-python.tar.gz")
    monkeypatch.setattr(datasets.CIFAR10, "tgz_md5", md5(stream.getvalue()))
    found = load("torchvision:CIFAR10")
    assert found.images.shape == (60, 3, 32, 32)
    pixels = pickle.loads(files["test_batch"])["data"]
    assert np.array_equal(found.images.reshape(60, -1), pixels)
    assert found.class_names == tuple("abcdefghij")
    assert load("torchvision:CIFAR10:train").images.shape == (300, 3, 32, 32)
    assert capfd.readouterr() == ("", ""), "only the command line writes to the screen"


class Bomb:
    """A pickle that leaves a trace when it is opened."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return (Path.touch, (self.trace,))


@pytest.mark.parametrize("file", ["test_batch", "batches.meta", "data_batch_3"])
def test_pickles_that_are_not_the_published_ones_are_not_opened(
    root: Path, tmp_path: Path, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    files = cifar_files()
    publish_cifar(monkeypatch, files)
    make.write_folder(root / "cifar-10-batches-py", files)
    assert len(load("torchvision:CIFAR10")) == 60
    hostile = pickle.dumps(Bomb(tmp_path / "trace"))
    (root / "cifar-10-batches-py" / file).write_bytes(hostile)
    refused("torchvision:CIFAR10", "not the published ones", "cifar-10-batches-py", "remove them")
    assert not (tmp_path / "trace").exists()
    pickle.loads(hostile)
    assert (tmp_path / "trace").exists(), "the pickle would have worked"


def test_an_archive_that_is_not_the_published_one(root: Path, make: Any, refused: Any) -> None:
    make.write_folder(root, {"cifar-10-python.tar.gz": b"x"})
    refused("torchvision:CIFAR10", "is not the published one", "MD5", "remove it")
    assert [file.name for file in root.iterdir()] == ["cifar-10-python.tar.gz"]


def test_svhn(root: Path, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.BytesIO()
    pixels = RANDOM.integers(0, 256, (32, 32, 3, 60), dtype=np.uint8)
    savemat(stream, {"X": pixels, "y": np.arange(60)[:, None] % 10 + 1})
    monkeypatch.setitem(datasets.SVHN.split_list, "test", ["http://127.0.0.1:1/x", "test.mat", md5(stream.getvalue())])
    refused("torchvision:SVHN", "could not be fetched", "refused", "'test.mat'")
    make.write_folder(root, {"test.mat": stream.getvalue()})
    found = load("torchvision:SVHN")
    assert np.array_equal(found.images, pixels.transpose(3, 2, 0, 1))
    assert found.class_names == tuple("0123456789")
    assert found.labels is not None
    assert found.labels[9] == 0
    (root / "test.mat").write_bytes(stream.getvalue()[:-9])
    refused("torchvision:SVHN", "is not the published one")


def test_usps(root: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import bz2

    lines = "".join(f"{n % 10 + 1} " + " ".join(f"{k}:{(k % 3) - 1}" for k in range(256)) + "\n" for n in range(60))
    packed = bz2.compress(lines.encode())
    monkeypatch.setitem(datasets.USPS.split_list, "test", ["http://127.0.0.1:1/x", "usps.t.bz2", md5(packed)])
    make.write_folder(root, {"usps.t.bz2": packed})
    assert load("torchvision:USPS").image_shape == (1, 16, 16)
    assert load("torchvision:USPS", resize=28).image_shape == (1, 28, 28)


def test_a_server_that_sends_too_much(tmp_path: Path, served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (served[0] / "x").write_bytes(bytes(2**20))
    monkeypatch.setattr("diffgen.data.torchvision_sets._MAX_BYTES", 2**19)
    with pytest.raises(UserError, match="more than"):
        fetch([served[1] + "x"], tmp_path / "kept" / "x", md5(bytes(2**20)), name="x", progress=Progress())
    assert list((tmp_path / "kept").iterdir()) == []


def test_interrupted_fetching_leaves_nothing(tmp_path: Path, served: Any) -> None:
    (served[0] / "x").write_bytes(b"x")
    stop = StopToken()

    def listen(event: Event) -> None:
        stop.stop()

    with pytest.raises(Stopped):
        fetch([served[1] + "x"], tmp_path / "kept" / "x", md5(b"x"), name="x", progress=Progress(listen, stop))
    assert list((tmp_path / "kept").iterdir()) == []


def test_torchvision_cannot_be_imported(root: Path, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torchvision", None)
    refused("torchvision:MNIST", "cannot be imported", "pip install --upgrade torch torchvision")
