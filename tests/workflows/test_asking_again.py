"""Which triggers the models are asked about alone after the search, and what that costs."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.comparison.verdicts import PICTURES_A_BEHAVIOUR, choose_shown, in_rounds, judge_triggers
from diffgen.data import load as load_data
from diffgen.events import Progress
from diffgen.features.cells import Cells
from diffgen.features.encoder import DomainEncoder
from diffgen.filters import FilterPipeline, SsimFilter
from diffgen.metrics.counting import ACCEPTED, CONFIRMED_BATCH, CONFIRMED_SINGLE
from diffgen.models import load
from diffgen.runs.images import ImageColumn
from diffgen.runs.triggers import HASH_BYTES, TriggerTable


class Linear:
    """A classifier of digits with random weights that notes how many images it was asked about at once."""

    def __init__(self, seed: int) -> None:
        self._weights = np.random.default_rng(seed).normal(size=(784, 10)).astype(np.float32)
        self.batches: list[int] = []

    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        self.batches.append(len(pixels))
        return pixels.reshape(len(pixels), -1) @ self._weights


@given(
    behaviours=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    seed=st.integers(0, 2**16),
)
def test_every_behaviour_has_its_turn_before_any_has_a_second_one(behaviours, seed):
    keys = np.asarray(behaviours, dtype=np.int64)[:, None]
    probabilities = np.random.default_rng(seed).dirichlet(np.ones(3), (len(keys), 2)).astype(np.float32)
    order = in_rounds(keys, probabilities)
    assert sorted(order.tolist()) == list(range(len(keys)))
    met: dict[int, int] = {}
    turns = []
    for row in order.tolist():
        turns.append(met.get(behaviours[row], 0))
        met[behaviours[row]] = turns[-1] + 1
    assert turns == sorted(turns)
    counts = [behaviours.count(behaviours[row]) for row in order.tolist()]
    for turn in set(turns):
        own = [count for count, its in zip(counts, turns, strict=True) if its == turn]
        assert own == sorted(own, reverse=True), "of one round the most frequent behaviour comes first"
    # the first of each is the one on which the models are the furthest apart
    gaps = np.linalg.norm(probabilities[:, 0] - probabilities[:, 1], axis=1)
    for kind in set(behaviours):
        first = next(row for row in order.tolist() if behaviours[row] == kind)
        assert gaps[first] == max(gaps[row] for row in range(len(keys)) if behaviours[row] == kind)


def judged(verify_limit: int, repeated: int = 1):
    data = load_data("digits:train")
    asked = Linear(0), Linear(1)
    models = [load(each) for each in asked]
    for model in models:
        model.prepare(data.images[:64])
    answers = np.stack([model.predict(data.images) for model in models], axis=1)
    rows = np.flatnonzero(answers[:, 0].argmax(axis=1) != answers[:, 1].argmax(axis=1))
    rows = np.tile(rows, repeated)
    images, answers = data.images[rows], answers[rows]
    pipeline = FilterPipeline([SsimFilter()])
    tensor = torch.from_numpy(data.images)
    pipeline.fit(tensor[:300], tensor[300:500])
    for each in asked:
        each.batches.clear()
    torch.manual_seed(0)
    encoder = DomainEncoder(data.image_shape).eval().requires_grad_(False)
    cells = Cells(encoder, encoder.encode(tensor[:5]))
    rows = np.arange(len(images), dtype=np.int64)
    nothing = np.full(len(images), np.nan, dtype=np.float32)
    table = TriggerTable(
        image_column=ImageColumn.of(images),
        hashes=np.zeros((len(images), HASH_BYTES), dtype=np.uint8),
        probabilities=answers,
        divergence=nothing,
        diversity=nothing,
        generation=rows,
        query=rows + 1,
        numbers=rows,
    )
    judged = judge_triggers(
        models, table, pipeline, cells, near_duplicate=0.95, verify_limit=verify_limit, progress=Progress()
    )
    return asked, judged


def test_a_few_are_asked_about_alone_and_the_rest_in_batches():
    asked, table = judged(verify_limit=40)
    validity = table.known
    assert len(table) > 500
    alone = validity.confirmed == CONFIRMED_SINGLE
    assert alone.sum() == 40
    assert (validity.confirmed[~alone] == CONFIRMED_BATCH).all()
    assert (validity.rejected_by == ACCEPTED)[alone].all()
    for model in asked:
        assert model.batches.count(1) <= 41
        assert sum(model.batches) == len(table)  # about each of them once more, and no more


def test_what_the_report_shows_is_asked_about_alone_first():
    """Of a behaviour the report shows those alone that were: of many pictures one could be left."""
    _, everything = judged(verify_limit=0)
    shown = choose_shown(everything)
    behaviours, counts = np.unique(everything.behaviours[everything.distinct], axis=0, return_counts=True)
    assert len(behaviours) > 10 and len(shown) > len(behaviours[:60])
    for limit in (40, len(shown)):
        _, table = judged(verify_limit=limit)
        assert set(np.flatnonzero(table.known.confirmed == CONFIRMED_SINGLE)) == set(shown[:limit])
    frequent = behaviours[counts.argmax()]
    assert counts.max() >= PICTURES_A_BEHAVIOUR
    assert (table.behaviours[choose_shown(table)] == frequent).all(axis=1).sum() == PICTURES_A_BEHAVIOUR


def test_what_repeats_another_is_asked_about_alone_after_all_that_counts():
    _, everything = judged(verify_limit=10_000, repeated=3)
    distinct = everything.distinct
    assert 0 < distinct.sum() < everything.valid.sum() / 2
    _, some = judged(verify_limit=int(distinct.sum()), repeated=3)
    assert ((some.known.confirmed == CONFIRMED_SINGLE) == distinct).all()


def test_few_triggers_are_all_asked_about_alone():
    asked, table = judged(verify_limit=10_000)
    assert (table.known.confirmed == CONFIRMED_SINGLE).all()
    assert set(asked[0].batches) == {1}
