"""What must not lie on both sides where a selector is judged, against loops over real digits."""

from __future__ import annotations

import numpy as np
import pytest

from diffgen.data import load
from diffgen.metrics.near_duplicates import directions_of
from diffgen.origins import NO_SEED
from diffgen.runs.triggers import TriggerTable
from diffgen.selector.examples import Examples, divisions, made_from

N, THRESHOLD = 120, 0.95


@pytest.fixture(scope="module")
def some() -> tuple[TriggerTable, Examples]:
    """Real digits, most of them twice with grain upon them; some are drawn, and some are no examples."""
    rng = np.random.default_rng(2)
    images = load("digits:test").images[rng.integers(0, 90, N)].astype(float)
    images = (images + rng.normal(0, 15, images.shape)).clip(0, 255).astype(np.uint8)
    seeds = np.where(rng.random(N) < 0.3, NO_SEED, rng.integers(0, 60, N))
    finds = TriggerTable.of(images, np.zeros((N, 2, 10), np.float32), seeds=seeds, recipes=np.zeros(N, "S1"))
    rows = np.flatnonzero(rng.random(N) < 0.8)
    right = np.eye(2, dtype=bool)[rng.integers(0, 2, len(rows))]
    return finds, Examples(rows, right.argmax(axis=1), right, rng.integers(0, 70, len(rows)), both_wrong=0)


def pairs_alike(finds: TriggerTable, rows: np.ndarray) -> np.ndarray:
    """bool (n, n)."""
    looks = directions_of(finds.images[rows])
    return np.asarray(looks @ looks.T >= THRESHOLD)


def test_neither_kin_nor_near_duplicates_lie_on_both_sides(some: tuple[TriggerTable, Examples]) -> None:
    finds, examples = some
    alike, seeds = pairs_alike(finds, examples.rows), finds.seeds[examples.rows]
    found = divisions(finds, examples, threshold=THRESHOLD)
    assert list(found) == ["random", "by behaviour", "by real image"] and found["random"] is None
    kin = {
        "by behaviour": examples.groups[:, None] == examples.groups,
        "by real image": (seeds[:, None] == seeds) & (seeds != NO_SEED),
    }
    for name, related in kin.items():
        together = found[name][:, None] == found[name]
        assert together[related | alike].all()
        assert (alike & ~related).sum() > len(alike) + 10  # there is something to hold together
        assert len(np.unique(found[name])) > 10
    drawn = np.flatnonzero((seeds == NO_SEED) & (alike.sum(axis=1) == 1))
    assert len(drawn) > 3
    assert (np.bincount(found["by real image"])[found["by real image"][drawn]] == 1).all()


def test_what_is_drawn_is_divided_by_no_real_image(some: tuple[TriggerTable, Examples]) -> None:
    finds, examples = some
    for table in (
        TriggerTable.of(finds.images, finds.probabilities),
        TriggerTable.of(finds.images, finds.probabilities, seeds=np.full(N, NO_SEED), recipes=finds.recipes),
    ):
        assert list(divisions(table, examples, threshold=THRESHOLD)) == ["random", "by behaviour"]
        assert not made_from(table, examples, np.arange(60), threshold=THRESHOLD).any()


def test_made_from_and_what_looks_like_that(some: tuple[TriggerTable, Examples]) -> None:
    finds, examples = some
    alike, held_out = pairs_alike(finds, examples.rows), np.arange(0, 60, 10)
    own = np.isin(finds.seeds[examples.rows], held_out)
    wanted = [own[row] or bool(alike[row, own].any()) for row in range(len(own))]
    assert 0 < own.sum() < sum(wanted) < len(own) / 2
    assert made_from(finds, examples, held_out, threshold=THRESHOLD).tolist() == wanted
