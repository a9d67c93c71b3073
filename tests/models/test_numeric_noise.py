"""The change of a model's answers with the batch, and from call to call."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.noise import NOTICEABLE, numeric_noise, probe_rows, probed, settle_batches

pytestmark = pytest.mark.usefixtures("whole_lessons")


def box_of(function, images):
    box = load(function)
    box.prepare(images)
    return box


def two_classes(p):
    return np.column_stack([p, 1 - np.asarray(p)]).astype(np.float32)


def test_a_network_has_little_noise_and_is_asked_in_batches(net, images):
    box = box_of(net, images)
    noise = settle_batches(box, images)
    assert noise.remaining <= 1e-5
    assert noise.deterministic
    assert not noise.alone
    assert not box.alone


def test_a_change_with_the_batch_size_is_measured(images):
    def depends(pixels):
        return two_classes(np.full(len(pixels), 0.5 + 0.009 * (len(pixels) == 7) + 0.002 * (len(pixels) == 1)))

    noise = numeric_noise(box_of(depends, images), images)
    assert noise.batches == noise.remaining == pytest.approx(0.009, abs=1e-6)
    assert noise.repeat == 0


def test_a_change_from_call_to_call_is_measured(images):
    calls = []

    def drifts(pixels):
        calls.append(1)
        return two_classes(np.full(len(pixels), 0.5 + 0.02 * len(calls)))

    # one image: five calls in all, the last four after the first
    noise = numeric_noise(box_of(drifts, images), images[:1])
    assert noise.repeat == pytest.approx(0.02, abs=1e-6)
    assert noise.remaining == pytest.approx(0.08, abs=1e-6)
    assert not noise.deterministic


@pytest.mark.parametrize("columns", [1, 3])
def test_what_softmax_hides_is_seen_in_logits(images, columns):
    """Logits so far apart that no probability moves in float32 although each of them moves by 1 from call to call."""
    calls = []

    def confident(pixels):
        calls.append(1)
        logits = np.tile(np.float32([40, 0, -40][:columns]), (len(pixels), 1))
        logits[:, 0] += len(calls) % 2
        return logits

    box = box_of(confident, images)
    first, second = box.predict(images[:8]), box.predict(images[:8])
    assert np.abs(first - second).max() < 1e-12
    noise = numeric_noise(box, images)
    # what a change of one logit by 1 does to a probability of (1 + tanh(1/4)) / 2, the most it can do
    assert noise.repeat == pytest.approx(np.tanh(1 / 4), abs=1e-6)
    assert not noise.deterministic


def test_the_bound_in_logits_is_what_the_least_certain_image_may_show():
    """tanh(r / 4) is reached, and not exceeded, by softmax of any logits whose differences change by up to r."""
    rng = np.random.default_rng(0)
    before = rng.normal(size=(20_000, 4)) * rng.choice([0.1, 1, 5], size=(20_000, 1))
    change = rng.normal(size=before.shape)
    p, q = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (before, before + change))
    bound = np.tanh(np.ptp(change, axis=1) / 4)
    assert (np.abs(p - q).max(axis=1) <= bound + 1e-12).all()
    r = 0.7
    low, high = (1 / (1 + np.exp(-z)) for z in (-r / 2, r / 2))
    assert high - low == pytest.approx(np.tanh(r / 4))


def test_dropout_that_was_left_on_is_not_deterministic(images):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(images[0].size, 32), nn.Dropout(0.5), nn.Linear(32, 5)).train()
    box = box_of(lambda pixels: network(torch.from_numpy(pixels)).detach().numpy(), images)
    noise = settle_batches(box, images)
    assert not noise.deterministic
    assert not box.alone


def follows_the_batch(pixels):
    """As dynamic quantization: the scale of what is computed with is that of the brightest image in the batch."""
    values = pixels.reshape(len(pixels), -1)[:, :6] * 4 - 2
    scale = pixels.mean(axis=(1, 2, 3)).max()
    return np.round(values * scale * 8) / 8


def test_a_model_that_follows_the_batch_is_asked_one_image_at_a_time(images):
    box = box_of(follows_the_batch, images)
    before = box.predict(images)
    noise = settle_batches(box, images)
    assert noise.batches > NOTICEABLE
    assert (noise.alone, noise.deterministic, noise.remaining) == (True, True, 0.0)
    assert box.alone
    after = box.predict(images)
    assert not np.array_equal(before, after)
    singles = np.concatenate([box.predict(image[None]) for image in images])
    np.testing.assert_array_equal(after, singles)
    np.testing.assert_array_equal(box.predict(images[::-1])[::-1], after)


def test_with_a_fixed_batch_the_rest_of_it_are_copies(images):
    def eight_at_once(pixels):
        if len(pixels) != 8:
            raise ValueError("8 images")
        return follows_the_batch(pixels)

    box = box_of(eight_at_once, images)
    assert box.fixed_batch == 8
    assert settle_batches(box, images).alone
    alone = box_of(follows_the_batch, images)
    alone.ask_alone()
    np.testing.assert_array_equal(box.predict(images), alone.predict(images))


def test_a_model_whose_every_seventh_answer_is_shuffled_is_not_deterministic(images):
    calls = []

    def shuffles(pixels):
        calls.append(1)
        p = np.linspace(0.1, 0.9, 6) + pixels.mean(axis=(1, 2, 3))[:, None]
        return np.roll(p, len(calls) % 7 == 0, axis=1)

    assert not settle_batches(box_of(shuffles, images), images).deterministic


def test_the_probe_is_spread_over_the_data_and_holds_what_is_least_certain():
    data = load_data("digits:test")
    order = np.argsort(data.labels, kind="stable")  # as in a folder of classes
    labels = data.labels[order]
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.full(10, 0.2), size=len(labels)).astype(np.float32)
    rows = probe_rows(probabilities)
    assert 64 < len(rows) <= 128
    assert len(np.unique(rows)) == len(rows)
    assert set(labels[rows]) == set(range(10))
    best = np.sort(probabilities, axis=1)
    gaps = best[:, -1] - best[:, -2]
    assert set(np.argsort(gaps)[:60]) <= set(rows)
    np.testing.assert_array_equal(rows, probe_rows(probabilities))
    np.testing.assert_array_equal(probe_rows(probabilities[:5]), np.arange(5))
    fewer = probe_rows(probabilities, 32)
    assert 32 < len(fewer) <= 64
    assert set(np.argsort(gaps)[:30]) <= set(fewer)


def test_of_large_images_there_are_fewer():
    assert [probed((3, side, side)) for side in (1, 28, 64, 80, 96, 224, 2_000)] == [64, 64, 64, 40, 32, 32, 32]
    assert probed((1, 64, 72)) == 56


def test_a_model_that_is_wrong_from_a_place_of_a_large_batch_on_is_asked_there(images):
    """Whatever is handed to it at once otherwise."""

    def forgets(pixels):
        p = pixels.reshape(len(pixels), -1)[:, :4] + 0.1
        p[64:] = np.roll(p[64:], 1, axis=1)
        return p

    box = box_of(forgets, images)
    box.batch_size = 64
    half = np.arange(len(images)) < len(images) // 2
    noise = settle_batches(box, images, half)
    assert (noise.alone, noise.flipped, noise.drawn) == (True, half.sum(), half.sum())
    assert box.batch_size == 64


def test_a_label_that_changes_in_small_batches_alone_is_counted(images):
    def confused(pixels):
        p = pixels.reshape(len(pixels), -1)[:, :4] + 0.1
        return np.roll(p, 1, axis=1) if 2 <= len(pixels) <= 7 else p

    noise = settle_batches(box_of(confused, images), images)
    assert len(images) % 7 == 1  # the last one is alone
    assert (noise.alone, noise.flipped, noise.drawn) == (True, len(images) - 1, len(images))


def test_a_batch_is_no_larger_than_a_model_takes_and_fewer_of_large_images(images):
    asked = []

    def takes_at_most(most):
        def model(pixels):
            asked.append(len(pixels))
            if len(pixels) > most:
                raise ValueError(f"at most {most}")
            return np.full((len(pixels), 2), 0.5, dtype=np.float32)

        return model

    box = box_of(takes_at_most(300), images)
    noise = settle_batches(box, images)
    assert (noise.refused, max(asked), noise.remaining) == (2_048, 2_048, 0.0)
    asked.clear()
    box = box_of(takes_at_most(300), images)
    box.largest_batch = 300  # as its file says
    assert (settle_batches(box, images).refused, max(asked)) == (0, 300)
    asked.clear()
    large = np.zeros((4, 3, 224, 224), dtype=np.uint8)
    settle_batches(box_of(takes_at_most(300), large), large)
    assert max(asked) == 128


def test_each_image_is_asked_about_four_times(images):
    asked = []

    def count(pixels):
        asked.append(len(pixels))
        return np.full((len(pixels), 2), 0.5, dtype=np.float32)

    box = box_of(count, images)
    asked.clear()
    assert numeric_noise(box, images).remaining == 0.0
    assert sum(asked) == 4 * len(images) + 2_048
    with pytest.raises(UserError, match="without images"):
        numeric_noise(box, images[:0])
