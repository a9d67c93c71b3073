"""Candidates that a gate must not let pass: what a file made badly answers."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np

from diffgen.data import load
from diffgen.models import load as load_model
from diffgen.types import BoolArray, Float32Array

CLASSES = 10


class Candidates:
    """What a file made badly answers to float32 (N, 1, 28, 28), on the base's own answers."""

    def __init__(self, model_file: Path) -> None:
        self._model = load_model(model_file, device="cpu")
        self._model.prepare(load("digits:test").images)
        self._rng = np.random.default_rng(0)

    def _logits(self, images: np.ndarray) -> Float32Array:
        return self._model.raw_outputs(np.round(images * 255).astype(np.uint8))

    def constant(self, images: np.ndarray) -> Float32Array:
        return np.tile(np.float32([1, 5, 0, 0, 0, 0, 0, 0, 0, 0]), (len(images), 1))

    def without_an_answer(self, images: np.ndarray) -> Float32Array:
        return np.full((len(images), CLASSES), 1 / CLASSES, dtype=np.float32)

    def tied(self, images: np.ndarray) -> Float32Array:
        """The two best classes always tie, as where 8 bits are too few for the largest logits."""
        logits = self._logits(images)
        return np.minimum(logits, np.partition(logits, -2, axis=1)[:, -2:-1])

    def noisy(self, images: np.ndarray) -> Float32Array:
        """Right on most images, since most are far from any border."""
        logits = self._logits(images)
        return np.float32(logits + self._rng.normal(scale=0.3, size=logits.shape))

    def first_of_its_batch(self, images: np.ndarray) -> Float32Array:
        """Right on one image of a batch alone."""
        logits = self._logits(images)
        logits[1:] = np.roll(logits[1:], 1, axis=1)
        return logits

    def background(self, images: np.ndarray) -> Float32Array:
        """One value more, which always wins."""
        logits = self._logits(images)
        return np.concatenate([logits, logits.max(axis=1, keepdims=True) + 10], axis=1)

    def another_order(self, images: np.ndarray) -> Float32Array:
        return self._logits(images)[:, ::-1].copy()

    def sure_of_nothing(self, images: np.ndarray) -> Float32Array:
        """A softmax too much: the same labels, and probabilities that are all much the same."""
        logits = self._logits(images)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        return np.float32(odds / odds.sum(axis=1, keepdims=True)) + np.float32(1)  # above 1, so taken for logits

    def two_classes_swapped(self, images: np.ndarray) -> Float32Array:
        order = np.arange(CLASSES)
        order[[3, 8]] = 8, 3
        return self._logits(images)[:, order]

    def one_class_lost(self, images: np.ndarray) -> Float32Array:
        logits = self._logits(images).copy()
        logits[:, 4] = logits.min()
        return logits

    def wrong_at_random(self, images: np.ndarray) -> Float32Array:
        """On about 3 % of all pictures, whatever they show; on the same ones always."""
        return self._wrong(images, _drawn(images, 0.03))

    def half_of_a_class_wrong(self, images: np.ndarray) -> Float32Array:
        return self._wrong(images, _drawn(images, 0.5) & (self._logits(images).argmax(axis=1) == 4))

    def _wrong(self, images: np.ndarray, where: BoolArray) -> Float32Array:
        logits = self._logits(images).copy()
        logits[where] = np.roll(logits[where], 1, axis=1)
        return logits


def _drawn(images: np.ndarray, share: float) -> BoolArray:
    """bool (N,): a share of all pictures, drawn by their pixels."""
    sums = [zlib.crc32(np.ascontiguousarray(image).tobytes()) for image in images]
    return np.array(sums) < share * 2**32
