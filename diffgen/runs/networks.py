"""Networks and their optimisers as tensors by name, for training that is taken up again."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn


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
