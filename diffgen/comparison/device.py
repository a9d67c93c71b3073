"""Chooses the device that networks run on, and a batch size that suits it."""

from __future__ import annotations

import torch

from diffgen.errors import UserError

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


def resolve_batch_size(given: int | None, device: torch.device) -> int:
    """Images handed to a network at once.

    Raises:
        UserError: fewer than one.
    """
    if given is None:
        return _BATCH_SIZE[device.type]
    if given < 1:
        raise UserError(f"The batch size {given} is not positive; use --batch-size auto or a number such as 256.")
    return given
