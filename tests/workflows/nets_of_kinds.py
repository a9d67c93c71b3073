"""Two classifiers of digits that also say which kind of a digit each is: real nets of as many outputs as one likes."""

from __future__ import annotations

from pathlib import Path

import torch

from diffgen.data import load
from diffgen.workflows.demo import convolutional_classifier, dense_classifier, train_classifier

_DIGITS, _SIDE = 10, 28
_SHARE_OF_KINDS = 4  # how much the kind weighs against the digit


class NetOfKinds(torch.nn.Module):
    """A classifier of ten digits, and of so many kinds of each by random projections of the pixels.

    Args:
        kinds: of each digit.
        background: whether there is one value more in front, which is next to never the highest.
    """

    def __init__(self, digits: torch.nn.Module, kinds: int, background: bool) -> None:
        super().__init__()
        self.digits, self.background = digits, background
        weights = torch.randn(_SIDE * _SIDE, kinds, generator=torch.Generator().manual_seed(0))
        self.weights: torch.Tensor
        self.register_buffer("weights", _SHARE_OF_KINDS * weights / _SIDE)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Logits, (N, 10 kinds) or one more, for float32 (N, 1, 28, 28)."""
        flat = pixels.flatten(1)
        own = (flat - flat.mean(dim=1, keepdim=True)) @ self.weights
        logits = (self.digits(pixels)[:, :, None] + own[:, None]).flatten(1)
        return torch.nn.functional.pad(logits, (1, 0), value=-50.0) if self.background else logits


def make_nets(folder: Path, classes: int, *, passes: int = 4) -> tuple[Path, Path]:
    """Two TorchScript files, trained on the digits that ship with scikit-learn: the second has a background in front.

    Args:
        folder: where to.
        classes: a multiple of ten.
    """
    training = load("digits:train")
    made = []
    for name, network in (("a", convolutional_classifier(_DIGITS)), ("b", dense_classifier(_DIGITS))):
        digits = train_classifier(network, training, seed=0, passes=passes)
        net = NetOfKinds(digits, classes // _DIGITS, background=name == "b").eval()
        made.append(folder / f"{name}.pt")
        torch.jit.save(torch.jit.trace(net, torch.zeros(2, 1, _SIDE, _SIDE), check_trace=False), str(made[-1]))
    return made[0], made[1]
