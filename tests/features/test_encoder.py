"""The domain encoder on photographs of which the first learning rate leaves an encoder with a silent first layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from diffgen.data import load
from diffgen.features import encoder as domain
from diffgen.features.encoder import DomainEncoder, tells_apart, train
from diffgen.features.shrinking import shrunk
from diffgen.sampling import random_rows
from tests.recording import Recording


def test_photographs_that_silence_it_are_learnt_at_a_lower_rate(shared_folder: Path) -> None:
    """400 of them: 39 different features are left of the first rate."""
    hands = load(shared_folder / "data" / "sign-digits" / "train.zip", resize=100)
    assert hands.labels is not None
    rows = random_rows(len(hands), 400, seed=1)
    images, labels = shrunk(torch.from_numpy(hands.images[rows])), torch.from_numpy(hands.labels[rows])
    encoder = train(images, labels, image_shape=hands.image_shape)
    assert len(torch.unique(encoder.encode(images), dim=0)) == 400
    assert tells_apart(encoder, images)


def test_an_encoder_that_gives_all_images_the_same_features_is_known() -> None:
    images = torch.from_numpy(load("digits").images)
    encoder = DomainEncoder((1, 28, 28))
    assert tells_apart(encoder, images)
    torch.nn.init.zeros_(encoder.body[0].weight)
    assert not tells_apart(encoder, images)
    # images that are alike have the same features, as they should
    assert tells_apart(encoder, images[:1].repeat(30, 1, 1, 1))


def test_whoever_waits_hears_that_it_learns_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domain, "_STEPS_GREY", 2)
    monkeypatch.setattr(domain, "tells_apart", lambda encoder, images: False)
    heard = Recording()
    train(torch.from_numpy(load("digits").images[:60]), None, progress=heard.progress)
    assert list(heard.totals) == [
        "Learning the image domain",
        "Learning the image domain, try 2 of at most 3",
        "Learning the image domain, try 3 of at most 3",
    ]
    assert "tell few of the real images apart" in heard.warnings[0]
