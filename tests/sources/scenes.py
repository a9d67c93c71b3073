"""Images that operators are tried on: digits, which have a plain background, and photographs, which have none."""

from __future__ import annotations

import functools

import numpy as np
import torch
from sklearn.datasets import load_sample_image

from diffgen.data import load
from diffgen.features.vae import AutoEncoder, train
from diffgen.gan_training.augmentation import plain_background
from diffgen.sources.operators import OPERATORS, Scene


@functools.cache
def scene_of(colour: bool) -> Scene:
    """With an auto-encoder that has learnt a little."""
    images = torch.from_numpy(photographs() if colour else load("digits:test").images)
    return Scene(images, plain_background(images), AutoEncoder(train(images, steps=60), images))


def photographs() -> np.ndarray:
    """uint8 (12, 3, 32, 32), without a plain background."""
    image = load_sample_image("china.jpg").transpose(2, 0, 1)
    return np.stack([image[:, y : y + 32, x : x + 32] for y in (0, 150, 300) for x in (0, 200, 400, 560)])


def fitting(colour: bool) -> tuple[str, ...]:
    return tuple(name for name, each in OPERATORS.items() if each.fits(3 if colour else 1))


EVERY = [(name, colour) for colour in (False, True) for name in fitting(colour)]
