"""From the options ``--features`` and ``--features-weights`` to a feature extractor."""

from __future__ import annotations

import os

import torch

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.features.base import FeatureExtractor
from diffgen.types import ImageSet

EXTRACTORS = ("domain", "inception", "vgg16")


def load(
    name: str,
    *,
    data: ImageSet,
    weights: str | os.PathLike[str] | None = None,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> FeatureExtractor:
    """A feature extractor for the images of a data set.

    Args:
        name: "domain": a small encoder trained on the data set, on first use, then cached; "inception", "vgg16":
            networks trained on ImageNet.
        weights: file with the weights of the last two, or None: those that torchvision finds or downloads.
        device: where it computes.
        progress: where to say how far the training is.

    Raises:
        UserError: there is no such extractor, it has no weights, or the file's weights are another network's.
    """
    if name == "domain":
        if weights is not None:
            raise UserError(
                "The domain encoder is trained on the data itself and takes no weights; leave --features-weights out, "
                "or say --features inception or vgg16."
            )
        return cells.prepare(data, device=device, progress=progress).encoder
    if name == "inception":
        from diffgen.features.pretrained import InceptionV3

        return InceptionV3(weights, device=device)
    if name == "vgg16":
        from diffgen.features.pretrained import Vgg16

        return Vgg16(weights, device=device)
    raise UserError(f"There are no features {name!r}; give --features one of {', '.join(EXTRACTORS)}.")
