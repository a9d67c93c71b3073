"""Classifiers that are not under test: they label finds, or say as the jury of a run what its pictures show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from diffgen.comparison.label_order import places_of
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.types import UInt8Array


def prepare_reference(
    model: BlackBox, images: UInt8Array, names: Sequence[str], under_test: Mapping[str, str], progress: Progress
) -> None:
    """Let a reference model look at some images, and count its classes as the run does.

    Args:
        model: newly opened.
        images: uint8 (N, C, H, W).
        under_test: the role of each model of the run, by its SHA-256.

    Raises:
        UserError: it has other classes, or is one of those under test.
    """
    if model.digest is not None and model.digest in under_test:
        raise UserError(
            f"The reference model {model.name} is model {under_test[model.digest]} of the run, which would be its "
            "own judge; give another one."
        )
    model.prepare(images)
    if model.num_classes != len(names):
        raise UserError(
            f"The reference model {model.name} answers with {model.num_classes} classes but the run has "
            f"{len(names)}; give one with the same classes."
        )
    order = places_of(model.class_names, names)
    if order and order != tuple(range(len(names))):
        progress.say(f"The classes of model {model.name} are counted as the run does, by their names.")
        model.map_classes(order)


class GivenJury:
    """A classifier of the user's own as the jury; see :class:`diffgen.features.jury.Names`.

    Args:
        model: of a file; prepared, its classes counted as the run's.

    Attributes:
        order: the run's class of each of the file's own; empty: as they are.
    """

    small = False
    device = torch.device("cpu")

    def __init__(self, model: BlackBox) -> None:
        self._model = model
        self.labels = np.arange(model.num_classes)
        self.digest, self.order = model.digest or "", model.class_order
        self.in_words = f"the classifier {model.name}"

    def answers(self, images: torch.Tensor, *, batch_size: int = 512) -> torch.Tensor:
        """float32 (N, K) on the CPU, probabilities, for uint8 (N, C, H, W); ``batch_size`` is the model's own."""
        return self._model.predict(images).cpu()
