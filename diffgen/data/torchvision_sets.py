"""Published data sets by name, as torchvision has them: ``torchvision:CIFAR10``.

torchvision says where the files are, what their checksums are and what the classes are called. They are fetched once
into diffgen's cache. MNIST and its relatives are read as idx files. CIFAR is published as pickles: torchvision opens
them only after it has found the published checksum of each, so only the authors' own files are ever unpickled.
"""

from __future__ import annotations

import difflib
import gzip
import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from diffgen.data.checks import checked
from diffgen.data.idx import load_idx
from diffgen.data.pixels import channels_first
from diffgen.data.reading import Reading
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.cache import cache_kind
from diffgen.runs.files import write_whole
from diffgen.types import ImageSet

PREFIX = "torchvision:"
Split: TypeAlias = Literal["train", "test"]


@dataclass(frozen=True)
class _Request:
    """What was asked for.

    Attributes:
        datasets: the module ``torchvision.datasets``.
        name: of the data set, as in the table of known ones.
        root: folder of all published data sets.
        progress: is told of fetching and reading.
    """

    datasets: Any
    name: str
    split: Split
    root: Path
    source: str
    progress: Progress


def load_torchvision(source: str, progress: Progress) -> ImageSet:
    """A published data set, fetched if it is not there yet.

    Args:
        source: ``torchvision:NAME``, with ``:train`` or ``:test`` added or not; ``test`` is taken if not, because that
            is what the models under test have not seen. Upper and lower case do not matter.
        progress: is told of fetching and reading.

    Returns:
        The images, labels and, where torchvision knows them, names of the classes, in torchvision's order.

    Raises:
        UserError: an unknown name or half, no network, or files that are not the published ones.
    """
    name, split = named_set(source)
    try:
        from torchvision import datasets
    except Exception as error:  # beside a torch that it was not built for it raises RuntimeError or AttributeError
        raise UserError(
            f"The data set {source!r} needs torchvision, which cannot be imported ({type(error).__name__}); install "
            "torch and torchvision together with pip install --upgrade torch torchvision."
        ) from error
    request = _Request(datasets, name, split, cache_kind("datasets"), source, progress)
    images = KNOWN[name](request)
    count, (channels, height, width) = len(images), images.image_shape
    progress.detail(f"{source}: {count:,} {split} images of {channels}x{height}x{width} from {request.root}.")
    return images


def named_set(source: str) -> tuple[str, Split]:
    """The data set and part that a source names; nothing is fetched. UserError if there is none of the kind."""
    wanted, colon, split = source.removeprefix(PREFIX).partition(":")
    by_lower = {name.lower(): name for name in KNOWN}
    if wanted.lower() not in by_lower:
        near = difflib.get_close_matches(wanted.lower(), by_lower, n=1)
        hint = f"did you mean {PREFIX + by_lower[near[0]]!r}?" if near else f"known are {', '.join(KNOWN)}."
        raise UserError(f"The data set {source!r} is not among those that diffgen fetches; {hint}")
    if not colon or split == "test":
        return by_lower[wanted.lower()], "test"
    if split == "train":
        return by_lower[wanted.lower()], "train"
    raise UserError(f"The {split!r} in {source!r} is not known; write ':train' or ':test' after the name.")


def _idx(request: _Request) -> ImageSet:
    """MNIST and those in its format, each file with a checksum of its own."""
    known = getattr(request.datasets, request.name)
    folder = request.root / request.name / "raw"
    start = "train" if request.split == "train" else "t10k"
    chosen = [(file, md5) for file, md5 in known.resources if file.startswith(start)]
    # by hand, files may also lie there unpacked, or packed by another program; reading them runs nothing
    for file, md5 in chosen:
        if not (folder / file).exists() and not (folder / file).with_suffix("").exists():
            urls = [f"{mirror}{file}" for mirror in known.mirrors]
            fetch(urls, folder / file, md5, name=request.source, progress=request.progress)
    images = next(file for file, _ in chosen if "images" in file)
    return _named(
        load_idx(_present(folder, images), Reading(request.source, progress=request.progress)), tuple(known.classes)
    )


def _emnist(request: _Request) -> ImageSet:
    """EMNIST: all of its parts in one zip, of which only the wished one is unpacked. Its pictures lie on their side."""
    known = request.datasets.EMNIST
    part = request.name.partition("-")[2]
    folder = request.root / "EMNIST" / "raw"
    files = [f"emnist-{part}-{request.split}-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    missing = [f for f in files if not (folder / f).exists() and not (folder / f).with_suffix("").exists()]
    if missing:
        archive = folder / known.url.rpartition("/")[2]
        fetch([known.url], archive, known.md5, name=request.source, progress=request.progress)
        for file in missing:
            _unpack(archive, f"gzip/{file}", folder / file)
    images = load_idx(_present(folder, files[0]), Reading(request.source, progress=request.progress))
    return _named(images, tuple(known.classes_split_dict[part]))


def _cifar(request: _Request) -> ImageSet:
    """CIFAR: a tar of pickles; see the top of this module."""
    known = getattr(request.datasets, request.name)
    unpacked = (request.root / known.base_folder).is_dir()
    if not unpacked:
        archive = request.root / known.filename
        fetch([known.url], archive, known.tgz_md5, name=request.source, progress=request.progress)
    made = _made(
        # its download finds the archive in place and only unpacks it; beside damaged files it would go to the network
        lambda: known(str(request.root), train=request.split == "train", download=not unpacked),
        request,
        request.root / known.base_folder,
    )
    return checked(channels_first(np.asarray(made.data)), made.targets, tuple(made.classes), request.source)


def _one_file(request: _Request) -> ImageSet:
    """SVHN and USPS: digits, one file for each half."""
    known = getattr(request.datasets, request.name)
    url, file, md5 = known.split_list[request.split]
    fetch([url], request.root / file, md5, name=request.source, progress=request.progress)
    svhn = request.name == "SVHN"
    half = {"split": request.split} if svhn else {"train": request.split == "train"}
    made = _made(lambda: known(str(request.root), **half), request, request.root / file)
    labels = made.labels if svhn else made.targets
    return checked(channels_first(np.asarray(made.data)), labels, tuple("0123456789"), request.source)


KNOWN: dict[str, Callable[[_Request], ImageSet]] = {
    "MNIST": _idx,
    "FashionMNIST": _idx,
    "KMNIST": _idx,
    "EMNIST-balanced": _emnist,
    "EMNIST-byclass": _emnist,
    "EMNIST-bymerge": _emnist,
    "EMNIST-digits": _emnist,
    "EMNIST-letters": _emnist,
    "EMNIST-mnist": _emnist,
    "USPS": _one_file,
    "CIFAR10": _cifar,
    "CIFAR100": _cifar,
    "SVHN": _one_file,
}


def _named(images: ImageSet, class_names: tuple[str, ...]) -> ImageSet:
    return checked(images.images, images.labels, class_names, images.source)


def _present(folder: Path, packed: str) -> Path:
    """The unpacked file where there is one, as torchvision itself leaves it."""
    plain = (folder / packed).with_suffix("")
    return plain if plain.exists() else folder / packed


def _made(make: Callable[[], Any], request: _Request, place: Path) -> Any:
    """What torchvision makes of files that lie there; it is not let near the network."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's, of the old pickles
            return make()
    except Exception as error:  # whatever a damaged file leads to; torchvision names no types
        reason = str(error).partition("\n")[0].rstrip(". ").replace(". ", "; ")
        raise UserError(
            f"The files of {request.source!r} in {str(place)!r} are damaged or not the published ones ({reason}); "
            "remove them, and they are fetched again."
        ) from error


def _unpack(archive: Path, member: str, path: Path) -> None:
    """One file of a zip whose checksum is the published one."""

    def copy(temporary: Path) -> None:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as packed, temporary.open("wb") as file:
            shutil.copyfileobj(packed, file)

    try:
        write_whole(path, copy)
    except (KeyError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile, EOFError) as error:
        raise UserError(
            f"The file {str(archive)!r} is damaged ({error}); remove it, and it is fetched again."
        ) from error


# -- published files are fetched once, and checked to be the published ones ------------------------------------------

_SECONDS = 30.0  # that a server may keep silent
_CHUNK = 2**18
_MAX_BYTES = 2 * 2**30
_USER_AGENT = "diffgen"


def fetch(urls: Sequence[str], path: Path, md5: str, *, name: str, progress: Progress) -> None:
    """Make sure that a published file lies at its place; it appears there whole or not at all.

    Args:
        urls: places that have it, tried in turn.
        path: where it shall lie; its folder is made. A file that is there already is only checked.
        name: what messages call the data set.

    Raises:
        UserError: no place has it, the network cannot be reached, or the file that is there is another one.
    """
    if path.exists():
        _check(path, md5, name)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"The cache folder {str(path.parent)!r} cannot be made ({error.strerror}); name another in DIFFGEN_CACHE."
        ) from error
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    reasons = []
    try:
        for url in urls:
            try:
                found = _download(url, temporary, path.name, progress)
            except (
                urllib.error.URLError,
                http.client.HTTPException,
                ConnectionError,
                TimeoutError,
                ValueError,
            ) as error:
                reasons.append(_in_words(error))
                continue
            if found == md5:
                os.replace(temporary, path)
                return
            reasons.append("what arrived is damaged or another file")
    except OSError as error:
        raise UserError(
            f"The file {str(path)!r} cannot be written ({error.strerror or error}); free some space."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    raise UserError(
        f"The data set {name!r} could not be fetched from {' or '.join(urls)} ({'; '.join(dict.fromkeys(reasons))}); "
        f"connect to the network, or put the file {path.name!r} into {str(path.parent)!r} by hand."
    )


def _download(url: str, path: Path, name: str, progress: Progress) -> str:
    """Write what a place has and return its checksum."""
    # Of the published checksums there is only the MD5. Nobody has made a second file for a given one, and the request
    # itself cannot be trusted: some of the places speak HTTP only.
    md5 = hashlib.md5(usedforsecurity=False)
    request = urllib.request.Request(url, headers={"User-Agent": _USER_AGENT})
    with (
        urllib.request.urlopen(request, timeout=_SECONDS) as response,
        path.open("wb") as file,
        progress.stage(f"Fetching {name}", total=response.length) as task,
    ):
        received = 0
        while piece := response.read(_CHUNK):
            received += len(piece)
            if received > _MAX_BYTES:
                raise ValueError(f"it sends more than {_MAX_BYTES // 2**30} GiB")
            md5.update(piece)
            file.write(piece)
            task.advance(len(piece))
    return md5.hexdigest()


def _check(path: Path, md5: str, name: str) -> None:
    found = hashlib.md5(usedforsecurity=False)
    try:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                found.update(piece)
    except OSError as error:
        raise UserError(f"The file {str(path)!r} cannot be read ({error.strerror}); check its permissions.") from error
    if found.hexdigest() != md5:
        raise UserError(
            f"The file {str(path)!r} is not the published one of {name!r} (its MD5 is {found.hexdigest()}, not {md5}); "
            "remove it, and it is fetched again."
        )


def _in_words(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    text = getattr(reason, "strerror", None) or str(reason) or type(error).__name__
    return str(text).partition("\n")[0].rstrip(". ").replace(". ", "; ")
