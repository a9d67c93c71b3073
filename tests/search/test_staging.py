"""Asking in stages: who is asked about what, and that nothing is lost of what two models show."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch

from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.search.archive import Archive
from diffgen.search.divergence import euclidean_plus_one
from diffgen.search.evaluator import Evaluator
from diffgen.search.proposal import NOT_ARCHIVED, Proposal
from diffgen.search.staging import Stages, most_apart

_CLASSES = 3


class Counted:
    """A model of the mean grey level, and how many images it was asked about."""

    def __init__(self, shift: float) -> None:
        self.shift, self.asked = shift, 0

    def __call__(self, images: np.ndarray) -> np.ndarray:
        self.asked += len(images)
        grey = images.reshape(len(images), -1).mean(axis=1) + self.shift
        raised = np.exp(-((grey[:, None] - np.array([0.2, 0.5, 0.8])) ** 2) * 40)
        return (raised / raised.sum(axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def nets() -> tuple[list[Counted], list[BlackBox]]:
    counted = [Counted(shift) for shift in (0.0, 0.02, 0.04, 0.1)]
    boxes = [load_model(each, device="cpu") for each in counted]
    for box in boxes:
        box.prepare(pictures(64, 9))
    for each in counted:
        each.asked = 0
    return counted, boxes


def pictures(count: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.integers(0, 256, (count, 1, 1, 1)).repeat(16, 2).repeat(16, 3).astype(np.uint8))


def test_a_share_is_drawn_by_number_and_seed_alone() -> None:
    stages = Stages((0, 1), 0.1, 7)
    whole = stages.sampled(1, 20_000)
    assert 0.09 < whole.mean() < 0.11
    parts = np.concatenate([stages.sampled(1, 333), stages.sampled(334, 20_000 - 333)])
    np.testing.assert_array_equal(whole, parts)
    assert (Stages((0, 1), 0.1, 8).sampled(1, 20_000) != whole).any()
    assert not Stages((0, 1), 0, 7).sampled(1, 100).any() and Stages((0, 1), 1, 7).sampled(1, 100).all()


def test_the_two_that_differ_most() -> None:
    labels = np.random.default_rng(0).integers(0, 3, (200, 5))
    labels[:, 3] = (labels[:, 1] + 1) % 3
    counts = {pair: (labels[:, pair[0]] != labels[:, pair[1]]).sum() for pair in combinations(range(5), 2)}
    assert most_apart(labels) == max(counts, key=counts.__getitem__) == (1, 3)
    assert most_apart(np.zeros((4, 3), np.int64)) == (0, 1)


def test_the_others_are_asked_where_two_differ_and_about_the_sample(
    nets: tuple[list[Counted], list[BlackBox]],
) -> None:
    counted, boxes = nets
    images, stages = pictures(2000, 1), Stages((0, 3), 0.05, 3)
    evaluator = Evaluator(boxes, archive=Archive((1, 16, 16)), margin=1e-6, stages=stages)
    halves = [evaluator.ask(Proposal(part, generation=1)) for part in images.split(1000)]
    said = torch.cat([half.probabilities for half in halves])
    asked = [each.asked for each in counted]
    whole = Evaluator(boxes, archive=Archive((1, 16, 16)), margin=1e-6).ask(Proposal(images, generation=1))
    labels = whole.probabilities.argmax(dim=2).numpy()
    wanted = (labels[:, 0] != labels[:, 3]) | stages.sampled(1, 2000)
    assert asked == [2000, int(wanted.sum()), int(wanted.sum()), 2000]
    assert evaluator.spared == 2 * int((~wanted).sum()) > 2000
    assert torch.equal(said[wanted], whole.probabilities[wanted])
    # whatever these two show, and whatever the sample shows, is found; nothing else is
    found = torch.cat([half.archive_numbers for half in halves]).numpy() != NOT_ARCHIVED
    np.testing.assert_array_equal(found, (whole.archive_numbers.numpy() != NOT_ARCHIVED) & wanted)
    divergence = torch.cat([half.divergence for half in halves])
    assert torch.equal(divergence[wanted], whole.divergence[wanted])
    pair = whole.probabilities[:, [0, 3]]
    assert torch.allclose(divergence[~wanted], euclidean_plus_one(pair)[~wanted])
