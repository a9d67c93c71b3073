"""Cells: parts of the space of real images. A behaviour is an ordered label pair within one cell.

The cells are the k-means centroids of the *real* images' domain features, made once per data set with a fixed seed.
They do not depend on the models, the technique or what was found, so that counts of behaviours can be compared between
runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.encoder import FEATURES, DomainEncoder, train
from diffgen.features.shrinking import lesson_rows, lessons
from diffgen.numerics import seeded
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from diffgen.types import ImageSet, Int64Array

FORMAT = "diffgen-cells-3"
CELLS = 30
_SEED = 0  # never the run's seed: all runs on a data set share its cells
_MIN_IMAGES_PER_CELL = 10


@dataclass(frozen=True)
class Cells:
    """An encoder and the centroids, float32 (k, 64), of the real images in its feature space."""

    encoder: DomainEncoder
    centroids: torch.Tensor

    def assign(self, images: torch.Tensor) -> Int64Array:
        """int64 (N,): the nearest cell of each image, uint8 (N, C, H, W)."""
        return self.nearest(self.encoder.encode(images).cpu())

    def nearest(self, features: torch.Tensor) -> Int64Array:
        """int64 (N,): :meth:`assign` of images whose features, float32 (N, 64) on the CPU, are there already."""
        return torch.cdist(features, self.centroids).argmin(dim=1).numpy() if len(features) else np.empty(0, np.int64)


def unlearned(image_shape: tuple[int, int, int]) -> Cells:
    """Those of a run that ends before anything is learned: one cell, for images of (C, H, W)."""
    with seeded(_SEED):
        encoder = DomainEncoder(image_shape)
    return Cells(encoder.eval().requires_grad_(False), torch.zeros(1, FEATURES))


def build(data: ImageSet, *, device: torch.device | str = "cpu", progress: Progress | None = None) -> Cells:
    """Train the encoder and find the centroids on all real images of a data set, of a large one on a random sample."""
    from sklearn.cluster import KMeans

    rows = lesson_rows(data.images)
    images = lessons(data.images, rows)
    labels = None if data.labels is None else torch.from_numpy(data.labels[rows])
    encoder = train(images, labels, image_shape=data.image_shape, seed=_SEED, device=device, progress=progress)
    features = encoder.encode(images).cpu().numpy()
    count = max(1, min(CELLS, len(images) // _MIN_IMAGES_PER_CELL, len(np.unique(features, axis=0))))
    centroids = KMeans(n_clusters=count, n_init=4, random_state=_SEED).fit(features).cluster_centers_
    return Cells(encoder, torch.from_numpy(np.asarray(centroids, dtype=np.float32)))


def prepare(data: ImageSet, *, device: torch.device | str = "cpu", progress: Progress | None = None) -> Cells:
    """The cells of a data set, from the cache or newly made. UserError if the cache folder cannot be made."""
    progress = progress or Progress()
    artifact = Artifact("cells", {"data": data.digest, "cells": FORMAT, "device": torch.device(device).type})

    def make(path: Path) -> Cells:
        cells = build(data, device=device, progress=progress)
        save(cells, path)
        return cells

    return artifact.obtain(lambda file: load(file, data.image_shape, device=device), make, progress)


def save(cells: Cells, path: Path) -> None:
    """Write cells to a safetensors file."""
    tensors = {f"encoder.{name}": value for name, value in cells.encoder.state_dict().items()}
    write_tensors(path, {**tensors, "centroids": cells.centroids})


def load(path: Path, image_shape: tuple[int, int, int], *, device: torch.device | str = "cpu") -> Cells:
    """Read what :func:`save` wrote.

    Raises:
        UserError: the file is missing, truncated, or holds no cells of images of this shape.
    """
    with torch.device("meta"):  # no first weights, for which random numbers would be taken from another thread
        encoder = DomainEncoder(image_shape)
    prefix = "encoder."
    try:
        _, tensors = read_tensors(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    try:
        weights = {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
        encoder.load_state_dict(weights, assign=True)
        centroids = tensors["centroids"]
    except (KeyError, RuntimeError) as error:
        raise _unreadable(path, f"it holds no cells of {'x'.join(map(str, image_shape))} images") from error
    return Cells(encoder.eval().requires_grad_(False).to(device), centroids)


def _unreadable(path: Path, reason: object) -> UserError:
    return unreadable("The cells", path, reason, "delete the file and they are made anew")
