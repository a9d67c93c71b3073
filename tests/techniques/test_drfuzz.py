"""DRfuzz's rules: seeds, decay, fidelity, rewards, growth of the corpus, retirement."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from diffgen.config import SearchConfig
from diffgen.errors import RunError
from diffgen.models import BlackBox
from diffgen.origins import Origins
from diffgen.search.archive import Archive
from diffgen.search.loop import SearchLoop
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.techniques import RealImages, TechniqueContext, drfuzz
from diffgen.techniques.drfuzz import MUTATORS, DrFuzz, DrFuzzSettings, mutator_scores
from diffgen.techniques.mutation.corpus import MAX_SELECTIONS, Corpus, drift

NO_FIDELITY = SearchConfig().with_technique(DrFuzzSettings(fidelity="none"))


def corpus(count: int) -> Corpus:
    zeros = np.zeros(count, dtype=np.float32)
    images = np.arange(count, dtype=np.uint8)[:, None, None, None] + np.zeros((1, 1, 2, 2), dtype=np.uint8)
    return Corpus(images, drift=np.arange(count) % 3, right_a=zeros, right_b=zeros)


def grow(entries: Corpus, parents: list[int], drifts: list[int]) -> None:
    zeros = np.zeros(len(parents), dtype=np.float32)
    images = np.zeros((len(parents), 1, 2, 2), dtype=np.uint8)
    entries.add(images, np.array(parents), ["a()"] * len(images), drift=np.array(drifts), right_a=zeros, right_b=zeros)


def test_weights_decay_with_generation_and_selections() -> None:
    entries = corpus(4)
    for _ in range(20):
        grow(entries, [len(entries) - 1], [0])
    entries.columns["selected"][:3] = 2, MAX_SELECTIONS, MAX_SELECTIONS + 1
    weights = entries.weights()
    a = np.log(20) / 20
    np.testing.assert_allclose(weights[:4], [np.exp(-a), np.exp(-a * 5), 0, 1])
    np.testing.assert_allclose(weights[-1], 1 / 20)  # generation 20
    np.testing.assert_allclose(weights[4], np.exp(-a))
    entries.columns["retired"][4] = True
    entries.banned[3] = True  # and with it all that was made of it
    assert entries.weights()[3:].sum() == 0


def test_entries_are_drawn_by_weight_and_all_are_taken_up_again_at_the_end() -> None:
    entries, rng = corpus(6), np.random.default_rng(0)
    entries.columns["generation"][0] = 60
    assert len(set(entries.select(5, rng).tolist())) == 5
    assert entries.columns["selected"].sum() == 5
    first = [0 in entries.select(1, rng) for _ in range(40)]
    assert sum(first) <= 2
    entries.columns["retired"][:] = True
    entries.banned[2] = True
    assert len(entries.select(4, rng)) == 4
    assert entries.columns["selected"].sum() == 4
    assert not entries.columns["retired"].any()
    assert not entries.banned.any()


def test_ancestors_that_leaned_towards_the_fault_are_retired() -> None:
    entries = corpus(2)  # drifts 0, 1
    grow(entries, [1], [2])
    grow(entries, [2], [1])
    grow(entries, [0], [1])
    entries.retire(3, fault=1)
    assert np.flatnonzero(entries.columns["retired"]).tolist() == [1, 3]


def test_scores_of_mutators() -> None:
    scores = mutator_scores(np.array([0, 3, 4, 4]), np.array([0, 6, 8, 2]), np.array([0, 6, 8, 8]))
    np.testing.assert_allclose(scores, [0, 0.5, 0.5, 0.125])


def test_drift_leaves_out_the_right_class() -> None:
    said = np.array([[[0.7, 0.2, 0.1], [0.5, 0.2, 0.3]]], dtype=np.float32)
    np.testing.assert_allclose(drift(said, np.array([0])), [[-np.inf, 0, 0.2]], atol=1e-6)


def test_what_is_learned_from_an_answer(start: Callable[..., SearchLoop], real: RealImages) -> None:
    technique = start("drfuzz", config=NO_FIDELITY).technique
    assert isinstance(technique, DrFuzz)
    seeds = np.array([0, 1, 2, 3, 4])
    labels = technique._labels[seeds]
    technique._corpus.columns["right_a"][seeds] = 0.9
    technique._corpus.columns["right_b"][seeds] = 0.8
    technique._furthest[seeds] = 0.05
    technique._furthest[seeds, labels] = -np.inf
    wrong = (labels + 1) % 10
    technique._corpus.columns["drift"][seeds] = wrong

    def said(a: float, b: float, label: int, other: int) -> np.ndarray:
        answer = np.zeros((2, 10), dtype=np.float32)
        answer[:, label] = a, b
        answer[:, other] = 1 - a, 1 - b
        return answer

    # B falls: a fault; B moves on: grows; B moves back by more than 0.15: neither; nothing new; both fall
    probabilities = [(0.9, 0.2), (0.9, 0.7), (0.7, 0.9), (0.82, 0.8), (0.3, 0.2)]
    answers = np.stack(
        [said(a, b, label, other) for (a, b), label, other in zip(probabilities, labels, wrong, strict=True)]
    )
    mutants = np.full((5, *real.images.shape[1:]), 3, dtype=np.uint8)
    which = np.array([0, 1, 2, 3, 4])
    size = len(technique._corpus)
    technique._reward(drfuzz._Round(seeds, which, np.arange(5), mutants, Origins.drawn(5)), answers)

    assert np.argwhere(technique._types).tolist() == [[0, wrong[0]]]
    assert np.flatnonzero(technique._corpus.columns["retired"]).tolist() == [0]
    assert len(technique._corpus) == size + 1
    new = {name: column[-1] for name, column in technique._corpus.columns.items()}
    assert (new["root"], new["parent"], new["generation"], new["drift"]) == (1, 1, 1, wrong[1])
    np.testing.assert_allclose(technique._furthest[[0, 1], wrong[:2]], [0.7, 0.2], atol=1e-6)
    np.testing.assert_allclose(technique._furthest[[2, 3, 4], wrong[2:]], 0.05)
    # 2/3 (0.8 - B) + 1/3 (A - B) is above 0 for the fault, for the one that moves on and, by the gap, for the fourth
    assert technique._difference_hits[:5].tolist() == [1, 1, 0, 1, 0]


@pytest.mark.parametrize(("classes", "enough"), [(10, 9), (3, 2), (12, 9)])
def test_types_of_fault_that_are_enough_for_one_image(classes: int, enough: int) -> None:
    images = np.zeros((1, 1, 12, 12), dtype=np.uint8)
    answers = KeptAnswers.of(np.tile(np.eye(classes, dtype=np.float32)[0], (1, 2, 1)))
    real = RealImages(images, np.zeros(1, dtype=np.int64), answers)
    context = TechniqueContext(
        archive=Archive((1, 12, 12)),
        source=None,
        config=NO_FIDELITY,
        seed=0,
        device=torch.device("cpu"),
        batch_size=64,
        real=real,
    )
    technique = DrFuzz(context)
    for other in range(1, enough + 1):
        assert not technique._corpus.banned[0]
        answer = np.full((1, 2, classes), 0.01, dtype=np.float32)
        answer[0, 0, 0] = answer[0, 1, other] = 0.9
        mutant = np.full((1, 1, 12, 12), other, dtype=np.uint8)
        technique._reward(drfuzz._Round(np.array([0]), np.array([0]), np.array([0]), mutant, Origins.drawn(1)), answer)
    assert technique._corpus.banned[0]
    assert technique._corpus.weights()[0] == 0


def test_a_run_keeps_the_books(
    start: Callable[..., SearchLoop],
    found: Callable[..., dict[str, np.ndarray]],
    real: RealImages,
    black_boxes: tuple[BlackBox, BlackBox],
) -> None:
    parts: list[dict[str, np.ndarray]] = []
    loop = start("drfuzz", "2500q", config=NO_FIDELITY, parts=parts)
    columns = found(loop, parts)
    assert loop.evaluator.queries == 2500
    technique = loop.technique
    assert isinstance(technique, DrFuzz)
    right = (real.probabilities.argmax(axis=2) == real.labels[:, None]).all(axis=1)
    assert right[columns.seeds].all()
    # what was added to the corpus, both models get right
    entries, of = technique._corpus, technique._corpus.columns
    added = np.arange(entries.roots, len(entries))
    assert len(added) > 50
    labels = technique._labels[of["root"][added]]
    for model, name in zip(black_boxes, ("right_a", "right_b"), strict=True):
        answers = model.predict(entries.images(added))
        np.testing.assert_array_equal(answers.argmax(axis=1), labels)
        np.testing.assert_allclose(answers[np.arange(len(added)), labels], of[name][added], atol=1e-5)
    np.testing.assert_array_equal(of["generation"][added], of["generation"][of["parent"][added]] + 1)
    np.testing.assert_array_equal(of["root"][added], of["root"][of["parent"][added]])
    assert of["generation"].max() >= 2
    assert of["selected"].sum() == technique._used.sum()
    assert (technique._fidelity_hits <= technique._used).all()
    assert (technique._difference_hits <= technique._fidelity_hits).all()
    assert (technique._used > 0).sum() == len(MUTATORS)
    # faults are among the triggers, and so are disagreements where A is wrong
    said = columns.labels
    fault = said[:, 0] == real.labels[columns.seeds]
    assert 0 < fault.sum() < len(fault)
    kinds = {(s, b) for s, b in zip(columns.seeds[fault], said[fault, 1], strict=True)}
    assert technique._types.sum() <= len(kinds)


class Dark:
    """The darker the realer; counts what it is asked about."""

    def score(self, images: torch.Tensor) -> torch.Tensor:
        return -images.float().mean(dim=(1, 2, 3))


def test_only_mutants_as_real_as_their_seed_are_asked_about(
    start: Callable[..., SearchLoop], found: Callable[..., dict[str, np.ndarray]], real: RealImages
) -> None:
    parts: list[dict[str, np.ndarray]] = []
    loop = start("drfuzz", "1500q", scorer=Dark(), parts=parts)
    columns = found(loop, parts)
    technique = loop.technique
    assert len(columns.images) > 5
    assert (columns.images.mean(axis=(1, 2, 3)) <= real.images[columns.seeds].mean(axis=(1, 2, 3)) + 1e-3).all()
    assert isinstance(technique, DrFuzz)
    added = np.arange(technique._corpus.roots, len(technique._corpus))
    roots = technique._corpus.columns["root"][added]
    mine, theirs = (technique._corpus.images(each).mean(axis=(1, 2, 3)) for each in (added, roots))
    assert (mine <= theirs + 1e-3).all()
    assert (technique._fidelity_hits < technique._used).any()


def test_a_discriminator_that_lets_nothing_pass_is_told(
    start: Callable[..., SearchLoop], real: RealImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {image.tobytes() for image in real.images}

    class Strict:
        def score(self, images: torch.Tensor) -> torch.Tensor:
            return torch.tensor([float(image.tobytes() in known) for image in images.numpy()])

    monkeypatch.setattr(drfuzz, "_STANDSTILL", 3)
    loop = start("drfuzz", scorer=Strict())
    rounds = []
    with pytest.raises(RunError, match="--gan-schedule thorough"):
        loop.run(on_generation=lambda: rounds.append(loop.evaluator.queries))
    assert rounds == [0, 0]


def test_a_round_that_is_asked_about_in_parts_is_told_as_one(start: Callable[..., SearchLoop]) -> None:
    """The corpus and the mutators after it are those of a round that was asked about at once."""
    whole, parts = (start("drfuzz", "10000q", config=NO_FIDELITY, batch_size=60) for _ in range(2))
    parts.batch_size = 25
    answered: list[int] = []
    for _ in range(5):
        assert whole.generation()
        assert parts.generation(lambda: answered.append(parts.evaluator.queries))
        assert parts.technique.between_generations
    assert len(answered) > 10
    first, second = (loop.technique.checkpoint() for loop in (whole, parts))
    assert whole.evaluator.queries == parts.evaluator.queries
    assert first["random_state"] == second["random_state"]
    for name in ("corpus_root", "corpus_selected", "added", "mutators", "types"):
        np.testing.assert_array_equal(first[name], second[name])


def test_without_labels_or_discriminator_it_cannot_begin(start: Callable[..., SearchLoop]) -> None:
    with pytest.raises(ValueError, match="discriminator"):
        start("drfuzz")
