"""The jury on real digits: what it names, what it is unsure of, and that it is the same again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.features import jury as juries
from diffgen.features.jury import Jury, best_names, certainty
from diffgen.numerics import seeded
from tests.own_threads import own_threads


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor]:
    """uint8 (1797, 1, H, W) in random order, and labels."""
    data = load("digits")
    assert data.labels is not None
    rows = np.random.default_rng(0).permutation(len(data))
    return torch.from_numpy(data.images[rows]), torch.from_numpy(data.labels[rows])


@pytest.fixture(scope="module")
def jury(digits: tuple[torch.Tensor, torch.Tensor]) -> Jury:
    images, labels = digits
    return juries.train(images[:1400], labels[:1400], shown=8_000)


def test_it_names_images_that_it_has_never_seen(jury: Jury, digits: tuple[torch.Tensor, torch.Tensor]) -> None:
    images, labels = digits
    right = best_names(jury, jury.answers(images[1400:])) == labels[1400:].numpy()
    assert right.mean() > 0.93


def test_it_is_less_sure_of_noise_and_of_blends(jury: Jury, digits: tuple[torch.Tensor, torch.Tensor]) -> None:
    images, labels = digits
    held, of_what = images[1400:], labels[1400:]
    threshold = np.quantile(certainty(jury.answers(held)), 0.05)
    other = torch.roll(torch.arange(len(held)), 1)
    mixed = ((held.float() + held[other].float()) / 2).to(torch.uint8)[of_what != of_what[other]]
    noise = torch.randint(0, 256, held.shape, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    for wrong in (mixed, noise):
        assert (certainty(jury.answers(wrong)) >= threshold).mean() < 0.5


def test_an_answer_depends_on_no_other_image(jury: Jury, digits: tuple[torch.Tensor, torch.Tensor]) -> None:
    images = digits[0][1400:1440]
    together = jury.answers(images)
    alone = torch.cat([jury.answers(image[None]) for image in images])
    torch.testing.assert_close(together, alone, atol=1e-5, rtol=0)
    assert jury.answers(images[:0]).shape == (0, 10)


def test_certainty_is_minus_the_entropy() -> None:
    answers = torch.tensor([[1.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    np.testing.assert_allclose(certainty(answers), [0.0, -np.log(3)], atol=1e-6)


def test_labels_with_gaps_are_named_by_themselves(digits: tuple[torch.Tensor, torch.Tensor]) -> None:
    images, labels = digits
    some = (labels == 3) | (labels == 7)
    jury = juries.train(images[some], labels[some], shown=2_000, seed=1)
    named = best_names(jury, jury.answers(images[some]))
    assert set(named.tolist()) == {3, 7}
    assert (named == labels[some].numpy()).mean() > 0.95


def test_one_label_is_nothing_to_tell_apart(digits: tuple[torch.Tensor, torch.Tensor]) -> None:
    images, labels = digits
    with pytest.raises(ValueError, match="two labels"):
        juries.train(images[labels == 4], labels[labels == 4])


def test_a_kept_jury_answers_as_before(jury: Jury, digits: tuple[torch.Tensor, torch.Tensor], tmp_path: Path) -> None:
    file = tmp_path / "jury.safetensors"
    juries.save(jury, file)
    images = digits[0][1400:1464]
    again = juries.load(file, jury.image_shape)
    assert torch.equal(again.answers(images), jury.answers(images))
    assert again.labels.tolist() == jury.labels.tolist()
    with pytest.raises(UserError, match="cannot be read"):
        juries.load(file, (3, 32, 32))
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(UserError, match="delete the file"):
        juries.load(file, jury.image_shape)


def slowly_trained(images: torch.Tensor, labels: torch.Tensor, *, steps: int, seed: int) -> Jury:
    """All members in one sum, one step after the other, and nothing drawn before it is needed."""
    rng = torch.Generator().manual_seed(seed)
    with seeded(seed):
        jury = Jury((1, 28, 28), np.arange(10)).train().to(memory_format=torch.channels_last)
    dropouts = [layer for layer in jury.modules() if isinstance(layer, juries._Dropout)]
    optimiser = torch.optim.Adam(jury.parameters(), lr=6e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 6e-3, total_steps=steps)
    mirror = False
    for step in range(steps):
        if step == int(0.4 * steps):
            mirror = juries._may_be_mirrored(jury, images, labels, rng)
        rows = torch.randint(len(images), (32,), generator=rng)
        values, answers = juries._shown(jury.prepared(images[rows]), labels[rows], 10, rng, mirror=mirror)
        for layer in dropouts:
            layer.kept = torch.rand(32, layer.length, generator=rng) >= layer.share
        values = values.contiguous(memory_format=torch.channels_last)
        loss = torch.stack([F.cross_entropy(each(values), answers) for each in jury.members]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
    return jury.ready()


@pytest.mark.parametrize("threads", [1, 3])
def test_members_are_asked_about_mirrored_images_when_all_have_learned_the_lessons_before(
    digits: tuple[torch.Tensor, torch.Tensor], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned: Counter[int] = Counter()
    at_the_question = []
    learn, ask = juries._Pupil.learn, juries._may_be_mirrored

    def learning(self: Any, *given: Any) -> None:
        learn(self, *given)
        learned[id(self)] += 1

    def asking(*given: Any) -> bool:
        at_the_question.extend(learned.values())
        return ask(*given)

    monkeypatch.setattr(juries._Pupil, "learn", learning)
    monkeypatch.setattr(juries, "_may_be_mirrored", asking)
    with own_threads(threads):
        juries.train(*digits, shown=32 * 20, seed=5)
    assert at_the_question == [8, 8, 8]  # two fifths of 20 steps


@pytest.mark.parametrize(
    ("steps", "threads"),
    [
        *((steps, threads) for steps in (1, 2) for threads in (1, 2, 4)),
        (40, 2),
        *(pytest.param(40, threads, marks=pytest.mark.slow) for threads in (1, 4)),
    ],
)
def test_members_learn_at_the_same_time_what_they_learn_in_one_sum(
    digits: tuple[torch.Tensor, torch.Tensor], steps: int, threads: int
) -> None:
    images, labels = digits
    with own_threads(threads):
        found = juries.train(images, labels, shown=32 * steps, seed=5)
    with own_threads(1):
        wanted = slowly_trained(images, labels, steps=steps, seed=5)
    for (name, mine), yours in zip(found.state_dict().items(), wanted.state_dict().values(), strict=True):
        assert torch.equal(mine, yours), name
