"""What networks run on: the device, a batch size that suits it, how long an image takes, and what a manifest says."""

from __future__ import annotations

import ctypes
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

import torch

import diffgen
from diffgen.errors import UserError
from diffgen.models import BlackBox
from diffgen.models.panel import Member
from diffgen.sampling import random_rows
from diffgen.types import Float32Array, ImageSet, UInt8Array

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of glibc's malloc.h
DEVICES = ("auto", "cpu", "cuda", "mps")
# on the CPU larger feature maps leave the cache and are newly mapped for every batch (docs/decisions/009)
_BATCH_SIZE = {"cpu": 64, "cuda": 2048, "mps": 1024}


def resolve_device(name: str) -> torch.device:
    """The device for ``auto``, ``cpu``, ``cuda`` (also ``cuda:1``) or ``mps``; from now on the same seed trains alike.

    Raises:
        UserError: no such device, or this machine has none.
    """
    # of cuDNN's gradients of convolutions some add up in another order each time
    torch.backends.cudnn.deterministic = True
    if name == "auto":
        return torch.device(
            "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        )
    kind = name.partition(":")[0]
    if kind not in DEVICES:
        raise UserError(f"The device {name!r} is not known; use one of {', '.join(DEVICES)}.")
    if kind == "cuda" and not torch.cuda.is_available():
        raise UserError("The device 'cuda' was asked for but torch finds no CUDA GPU; use --device cpu or auto.")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise UserError("The device 'mps' was asked for but this machine has none; use --device cpu or auto.")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UserError(f"The device {name!r} is not known; use one of {', '.join(DEVICES)}.") from error
    number = name.partition(":")[2]
    if kind == "cuda" and number and int(number) >= torch.cuda.device_count():
        raise UserError(f"The device {name!r} was asked for but there are only {torch.cuda.device_count()} CUDA GPUs.")
    return device


def search_batch_size(batch_size: int) -> int:
    """Images that a search draws and asks about between two looks at its budget, for a batch size of the networks.

    Eight batches: what is not a network (operators, distances to all real images, hashes) does several times as much in
    the same time when it is handed many at once; networks are handed a batch at a time (docs/decisions/009).
    """
    return 8 * batch_size


def free_large_arrays() -> None:
    """Have glibc, where it is there, give arrays of 4 MiB and more back to the system as soon as they are freed.

    By itself it keeps those of up to 32 MiB, in a heap for each thread, and batches of large pictures come in many
    sizes. Of small pictures the search would pay for it with a tenth of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 4 << 20)
        mallopt(_M_ARENA_MAX, 2)


def resolve_batch_size(given: int | None, device: torch.device) -> int:
    """Images handed to a network at once. UserError for fewer than one."""
    if given is None:
        return _BATCH_SIZE[device.type]
    if given < 1:
        raise UserError(f"The batch size {given} is not positive; use --batch-size auto or a number such as 256.")
    return given


_RECORDED_PACKAGES = ("torch", "torchvision", "numpy", "pymoo", "hdbscan", "umap-learn", "scikit-learn", "onnxruntime")


def versions() -> dict[str, str]:
    """Versions of Python, the system and every package that can change a run's outcome."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    return found | {package: installed(package) for package in _RECORDED_PACKAGES}


def made_of() -> dict[str, str]:
    """What must be the same on all machines of a run: the versions of everything that can change its outcome."""
    return {"diffgen": diffgen.__version__, **versions()}


def differing(own: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """What another process has otherwise than this one, as parts of a sentence."""
    return [
        f"{name} {theirs.get(name, 'missing')} instead of {text}"
        for name, text in own.items()
        if theirs.get(name) != text
    ]


def installed(package: str) -> str:
    """Its version, or "missing"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def device_name(device: torch.device) -> str:
    """Such as "cpu" or "cuda:0 (NVIDIA H200)"."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)


# -- how long an image takes each model ------------------------------------------------------------------------------

_TIMED, _PASSES, _SECONDS = 64, 5, 0.5  # images, and how often at most, and for how long about


class ModelTimes:
    """The least time an image took each model in any batch: other work on the machine only ever adds to it.

    Args:
        models: prepared, so that their first answer is past.
    """

    def __init__(self, models: Sequence[BlackBox]) -> None:
        self._models = tuple(models)
        self._least: dict[int, float] = {}

    def ask(self, index: int, images: UInt8Array) -> Float32Array:
        """float32 (N, K): what a model says of uint8 (N, C, H, W), N >= 1; noted is how long that took."""
        started = time.perf_counter()
        model = self._models[index]
        answers = model.predict(images)
        # a member of a panel asks the others, too
        spent = (model.seconds if isinstance(model, Member) else time.perf_counter() - started) / len(images)
        self._least[index] = min(spent, self._least.get(index, spent))
        return answers

    def forget(self, index: int) -> None:
        """Begin anew with a model that is asked in another way from now on."""
        self._least.pop(index, None)

    def milliseconds(self, data: ImageSet) -> tuple[float | None, ...]:
        """Of each model; None where a server or a table answers.

        A model that was not asked, since its answers were in the cache, is asked about some of the images now.
        """
        return tuple(self._of(index, data) for index in range(len(self._models)))

    def _of(self, index: int, data: ImageSet) -> float | None:
        model = self._models[index]
        if model.url is not None or model.is_table:
            return None
        if index not in self._least:
            images, begun = data.images[random_rows(len(data), _TIMED)], time.perf_counter()
            for _ in range(_PASSES):
                self.ask(index, images)
                if time.perf_counter() - begun >= _SECONDS:
                    break
        return round(1000 * self._least[index], 4)
