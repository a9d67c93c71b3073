"""What is made once and kept in the cache: trained networks, cells. Two processes that want the same make it once."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from filelock import FileLock, Timeout

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.runs.cache import cache_file
from diffgen.runs.files import write_whole

if TYPE_CHECKING:
    import torch
    from torch import nn

_Made = TypeVar("_Made")
_Network = TypeVar("_Network", bound="nn.Module")
_HEADER = "diffgen"
_SECONDS_BETWEEN_LOOKS = 0.5  # whether there is still time to wait


@dataclass(frozen=True)
class Artifact:
    """Something that is kept under a key of everything that it is made from.

    Attributes:
        kind: folder of the cache, one of :data:`diffgen.runs.cache.KINDS`.
        made_from: JSON values; what differs in any of them is another artifact.
    """

    kind: str
    made_from: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """Its file; the folder exists, the file may not. UserError if the cache folder cannot be made."""
        return cache_file(self.kind, dict(self.made_from))

    def obtain(
        self,
        load: Callable[[Path], _Made],
        make: Callable[[Path], _Made],
        progress: Progress,
        *,
        anew: bool = False,
    ) -> _Made:
        """What the file holds; where it is missing or damaged, what is made now.

        While it is made it is locked: another process that wants the same waits, and loads what was made.

        Args:
            load: reads the file; a UserError says that it is damaged.
            progress: is told of damage, and of waiting.
            anew: make it although it is there.

        Raises:
            Stopped: the work was stopped.
        """
        path = self.path
        before = _stamp(path)
        if not anew and before is not None:
            try:
                found = load(path)
                _note_use(path)
                return found
            except UserError as error:
                progress.warn(f"{error} It is made anew now.")
        with _held(path, progress):
            if _stamp(path) not in (before, None):
                return load(path)  # made by another process meanwhile
            return make(path)


def _note_use(path: Path) -> None:
    """Let the file say when it was used last, by the time of its last reading, which many systems keep roughly."""
    with contextlib.suppress(OSError):  # somebody else's cache, or one that cannot be written
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def _held(path: Path, progress: Progress) -> contextlib.AbstractContextManager[Any]:
    """The lock of a file, once no other process has it."""
    lock = FileLock(path.with_suffix(".lock"))
    with contextlib.suppress(Timeout):
        return lock.acquire(timeout=0)
    progress.say(f"Another process is making {path.name}; waiting for it.")
    while True:
        with contextlib.suppress(Timeout):
            return lock.acquire(timeout=_SECONDS_BETWEEN_LOOKS)
        progress.stop.check()


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Tells one version of a file from another, or None: it is not there."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], header: Mapping[str, Any] | None = None) -> None:
    """Write tensors, and JSON values as a header, to a safetensors file. RunError if the file cannot be written."""
    from safetensors.torch import save_file  # imports torch

    own = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    metadata = None if header is None else {_HEADER: json.dumps(header, sort_keys=True)}
    write_whole(path, lambda temporary: save_file(own, temporary, metadata=metadata))


def read_tensors(path: Path, *, weights: bool = True) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """The header and the tensors that :func:`write_tensors` wrote.

    Args:
        weights: read the tensors too.

    Raises:
        OSError, ValueError: missing, truncated, or no such file.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as stored:
            header = json.loads((stored.metadata() or {}).get(_HEADER, "{}"))
            names = list(stored.keys()) if weights else []
            tensors = {name: stored.get_tensor(name) for name in names}
    except (SafetensorError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not isinstance(header, dict):
        raise ValueError("its header is no table of names and values")
    return header, tensors


def read_network(make: Callable[[], _Network], path: Path, what: str, *, device: torch.device | str) -> _Network:
    """A network with the weights that a file keeps, in evaluation mode and frozen; no random number is taken.

    Args:
        make: gives the network, whose first weights are drawn nowhere.
        path: the file that :func:`write_tensors` wrote.
        what: it is, with its article, as the sentence begins: "The encoder".
        device: where it is wanted.

    Raises:
        UserError: the file is missing, truncated, or holds the weights of another network.
    """
    import torch

    with torch.device("meta"):  # no first weights, for which random numbers would be taken from another thread
        network = make()
    try:
        network.load_state_dict(read_tensors(path)[1], assign=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise unreadable(what, path, error) from error
    return network.eval().requires_grad_(False).to(device)


def tensors_digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """The digest of a network's weights, for the key of what is made with it."""
    digest = blake2b(digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode() + tensors[name].detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def training_tensors(
    networks: Mapping[str, nn.Module], optimisers: Mapping[str, torch.optim.Optimizer]
) -> dict[str, torch.Tensor]:
    """All weights and moments of networks and optimisers by role; not copies."""
    tensors: dict[str, torch.Tensor] = {}
    for role, network in networks.items():
        tensors |= {f"network.{role}.{name}": value for name, value in network.state_dict().items()}
    for role, optimiser in optimisers.items():
        for number, moments in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{role}.{number}.{name}": value for name, value in moments.items()}
    return tensors


def restore_training(
    networks: Mapping[str, nn.Module],
    optimisers: Mapping[str, torch.optim.Optimizer],
    tensors: Mapping[str, torch.Tensor],
) -> None:
    """Bring networks and optimisers to what :func:`training_tensors` gave; other tensors may be among these.

    Raises:
        KeyError, ValueError, RuntimeError: they are of other networks.
    """
    for role, network in networks.items():
        network.load_state_dict(under(tensors, f"network.{role}."))
    for role, optimiser in optimisers.items():
        moments: dict[int, dict[str, torch.Tensor]] = {}
        for name, value in under(tensors, f"optimiser.{role}.").items():
            number, moment = name.split(".")
            moments.setdefault(int(number), {})[moment] = value
        optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})


def under(tensors: Mapping[str, torch.Tensor], prefix: str) -> dict[str, torch.Tensor]:
    """Those whose name begins so, by the rest of it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def unreadable(what: str, path: Path, reason: object, again: str = "delete the file and it is made anew") -> UserError:
    """The error about an artifact that cannot be read.

    Args:
        what: with its article, as the sentence begins: "The encoder".
        reason: why; of more than one line the first is told.
    """
    lines = str(reason).splitlines() or [type(reason).__name__]
    return UserError(f"{what} {path} cannot be read ({lines[0]}); {again}.")
