"""Several models as one: the selector looks at the picture, and only the model that it trusts is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from diffgen.config import Preprocessing, from_dict, roles
from diffgen.errors import UserError
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.numerics import own_numerics
from diffgen.selector.onnx_file import Selector, load_selector
from diffgen.selector.rules import RULES, Rule, most_confident, soft_vote, who_is_right
from diffgen.tasks.classification import labels_of
from diffgen.types import Int64Array, UInt8Array


@dataclass(frozen=True)
class Decision:
    """What an ensemble says of N images.

    Attributes:
        labels: int64 (N,), classes.
        chosen: int64 (N,): 0 where the label is A's, 1 where it is B's, ..., -1 where all were combined.
        asked: how many images each model was asked about.
    """

    labels: Int64Array
    chosen: Int64Array
    asked: tuple[int, ...]


class SelectorEnsemble:
    """One classifier made of two or more.

    Args:
        given: the models of the run that the selector was trained on, as for :func:`diffgen.compare`, and after them
            the file ``selector.onnx`` of that run, or a loaded selector.
        rule: "selector" asks one model for each image; "soft-vote" and "confidence" ask all; "oracle" wants the truth.
        device, batch_size: of the models.

    Raises:
        UserError: something cannot be opened, or the models are not those that the selector was made for.

    Example:
        >>> ensemble = SelectorEnsemble("a.onnx", "b.onnx", "runs/mine/selector.onnx")  # doctest: +SKIP
        >>> ensemble.predict(images)  # doctest: +SKIP
    """

    def __init__(
        self,
        *given: Any,
        rule: Rule = "selector",
        device: str = "cpu",
        batch_size: int = 256,
    ) -> None:
        if rule not in RULES:
            raise UserError(f"The rule {rule!r} is not known; use one of {', '.join(RULES)}.")
        if len(given) < 3:
            raise UserError(f"{len(given)} things were given; give the models of a run, two or more, and its selector.")
        *models, selector = given
        if not isinstance(selector, Selector):
            selector = load_selector(selector, device=device, batch_size=batch_size)
        self.rule = rule
        self.selector = selector
        if len(models) != len(selector.metadata["models"]):
            raise UserError(
                f"{len(models)} models are given, but the selector was trained for {len(selector.metadata['models'])}; "
                "give all of that run."
            )
        self._models = [
            _opened(model, role, selector, device=device, batch_size=batch_size)
            for role, model in zip(roles(models), models, strict=True)
        ]

    def predict(self, images: UInt8Array, *, truth: Int64Array | None = None) -> Int64Array:
        """Classes of images.

        Args:
            images: uint8 (N, C, H, W).
            truth: int64 (N,), what they show; for the rule "oracle" only.

        Returns:
            int64 (N,).

        Raises:
            UserError: images of another shape than the selector's, or the oracle without the truth.
            RunError: a model failed.
        """
        return self.decide(images, truth=truth).labels

    @own_numerics()
    def decide(self, images: UInt8Array, *, truth: Int64Array | None = None) -> Decision:
        """Classes of images, and whose word each is; see :meth:`predict`."""
        self._check(images, truth)
        count = len(images)
        if count == 0:
            return Decision(np.empty(0, np.int64), np.empty(0, np.int64), (0,) * len(self._models))
        for model in self._models:
            if model.num_classes == 0:
                model.prepare(images)
                names = self.selector.metadata.get("class_names") or range(model.num_classes)
                if model.num_classes != len(names):
                    raise UserError(
                        f"The model {model.name} answers with {model.num_classes:,} classes but the selector was "
                        f"trained for {len(names):,}; give the models of that run."
                    )
        if self.rule == "selector":
            chosen = self.selector.choose(images)
            labels = np.empty(count, dtype=np.int64)
            for role, model in enumerate(self._models):
                rows = np.flatnonzero(chosen == role)
                if len(rows):
                    labels[rows] = model.predict(images[rows]).argmax(axis=1)
            return Decision(labels, chosen, tuple(np.bincount(chosen, minlength=len(self._models)).tolist()))
        answers = np.stack([model.predict(images) for model in self._models], axis=1)
        asked = (count,) * len(self._models)
        if self.rule == "soft-vote":
            return Decision(soft_vote(answers), np.full(count, -1, dtype=np.int64), asked)
        said = labels_of(answers)
        if self.rule == "oracle":
            assert truth is not None
            chosen = who_is_right(said, truth)
        else:
            chosen = most_confident(answers)
        return Decision(said[np.arange(count), chosen], chosen, asked)

    def _check(self, images: UInt8Array, truth: Int64Array | None) -> None:
        shape = self.selector.image_shape
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[1:] != shape:
            raise UserError(
                f"The selector was trained on uint8 images of shape {shape} but is asked about {images.dtype} ones of "
                f"shape {images.shape[1:]}; give images (N, C, H, W) of that kind."
            )
        if self.rule == "oracle" and (truth is None or len(truth) != len(images)):
            raise UserError("The rule 'oracle' needs what every image shows; give truth, one label an image.")


def _opened(given: Any, role: str, selector: Selector, *, device: str, batch_size: int) -> BlackBox:
    """One of the models, fed as in the run that the selector was trained on."""
    entry = selector.metadata["models"].get(role, {})
    preprocessing: Preprocessing = from_dict(Preprocessing, entry.get("preprocessing", {}))
    model = load_model(
        given,
        device=device,
        batch_size=batch_size,
        preprocessing=preprocessing,
        class_order=entry.get("class_order", ()),
        sidecar=False,
    )
    recorded = entry.get("sha256")
    if recorded is not None and model.digest is not None and model.digest != recorded:
        raise UserError(
            f"Model {role} ({model.name}) is not the one that the selector was trained for ({entry.get('name')}); give "
            "that one, or train a selector for these."
        )
    return model
