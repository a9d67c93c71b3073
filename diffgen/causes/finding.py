"""Finds the fault by answers: each is imitated in one model, and the right one makes it answer as the other does.

A fault is looked for in this way. The models are asked about a random sample. On a few pictures on which they differ
most, every change is made to model A; those after which it is nearer to B are tried on more pictures, and the best at
last on the half of the sample that had no part in choosing it: only this half says what is explained, with an interval
that holds for all tests of this kind together. With what was found the search goes on for a second fault. Where
nothing is found, the roles are exchanged. docs/decisions/061-causes-by-answers.md says why.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from operator import itemgetter

import numpy as np
import torch

from diffgen.causes.asking import Asked, Purse, SpentError
from diffgen.causes.base import Change, Seen, Stage, all_changes
from diffgen.causes.explanation import Explanation, Found, Shown
from diffgen.causes.measures import PICTURES, Unseen, correlation_lost, differing, distances
from diffgen.config import Preprocessing
from diffgen.errors import RunError, ServiceError, UserError
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.types import Float32Array, Int64Array, UInt8Array

QUERIES, _FEWEST = 2000, 200  # at most; with fewer nothing can be told
_FIRST = 192  # images that both models are asked about
SAMPLE = 512  # ... and where nothing is found, which more of them make surer
_ROUNDS = ((3, 10), (9, 3), (20, 1))  # more images of each round, and how many changes go on
_FAULTS = 3  # at once, at most
_TESTS = 2 * _FAULTS  # on the second half of the sample; both sides
_PROMISING = 0.85  # of the difference that may be left after screening
_ALIKE = 1e-3  # distance of answers: rounding, also that of 16 bits
_LITTLE_LEFT = 0.1  # of the difference: no further fault is looked for
_AGAIN, _TOGETHER = 16, 2  # images that are asked about again, and how many at once
_SILENT = 0.02  # of the tested pictures that have no answer
_UNSTEADY = 0.1  # of the difference that answers move by then
_SHOWN = 6  # pictures
_MENDS = 8  # ways to feed the faulty model that are tried
_REFINED = 3  # changes that are left where other strengths of them are tried


def explain_models(
    a: BlackBox, b: BlackBox, images: UInt8Array, progress: Progress, *, queries: int = QUERIES
) -> Explanation:
    """Say why two models differ; both are prepared, and their classes are in one order.

    Args:
        images: uint8 (N, C, H, W), N >= 2, in random order; of more than 512 the first ones.
        queries: that it may take; of a model with a budget of its own no more than are left of it.

    Raises:
        UserError, RunError: a model cannot be asked, or may be asked too little.
    """
    allowed = min([queries, *(left for box in (a, b) if (left := box.answers.images_left) is not None)])
    if allowed < _FEWEST:
        raise UserError(
            f"The queries (--queries, or what is left of a --query-budget) are {allowed:,}; give {_FEWEST:,} or more, "
            "with which some causes can be told."
        )
    images, purse = images[:SAMPLE], Purse(queries)
    one, other = Asked(a, images, purse), Asked(b, images, purse)
    every = np.arange(min(_FIRST, len(images), allowed // 4))
    said = one.as_is(every), other.as_is(every)
    apart = distances(*said)
    search = _Search(one, other, every[::2], Unseen.among(every[1::2], apart[1::2]), progress)
    cut_short = False
    if float(apart.max()) > _ALIKE:
        try:
            search.run()
        except SpentError:
            cut_short = True
    return Explanation(
        images=len(every),
        differing=differing(*said),
        distance=float(apart.mean()),
        found=tuple(search.found),
        most=search.most,
        tried=search.tried,
        queries=purse.spent,
        cut_short=cut_short,
        shown=search.shown,
        furthest=every[np.argsort(-apart, kind="stable")],
        mend=search.mend,
    )


@dataclass
class _Search:
    a: Asked
    b: Asked
    chosen_on: Int64Array
    tested: Unseen
    progress: Progress
    found: list[Found] = field(default_factory=list)
    taken: tuple[Change, ...] = ()
    best: tuple[float, Asked, Asked, Change] | None = None
    most: float = 0.0
    tried: int = 0
    shown: Shown | None = None
    mend: Preprocessing | None = None

    def run(self) -> None:
        for role, faulty in (("B", self.b), ("A", self.a)):
            if self._silent(role, faulty) or self._unsteady(role, faulty):
                return
        for role, asked, faulty in (("B", self.a, self.b), ("A", self.b, self.a)):
            with self.progress.stage(f"Looking for a fault in the pipeline of {role}"):
                self._look(role, asked, faulty)
            if self.taken:
                self._show(asked, faulty)
                self._mend(asked, faulty)
                return
        if self.best is not None and self.best[0] < 1:
            self._bound(*self.best[1:])

    def _bound(self, asked: Asked, faulty: Asked, change: Change) -> None:
        """How much the best of the changes may explain at most, on as many pictures as may be asked about."""
        left = max(0, self.a.purse.most - self.a.purse.spent - 2 * PICTURES) // 2
        rows = np.setdiff1d(np.arange(min(len(self.a.images), 2 * len(self.chosen_on) + left)), self.chosen_on)
        tested = Unseen.among(rows, distances(asked.as_is(rows), faulty.as_is(rows)))
        known, wanted = asked.as_is(tested.rows), faulty.as_is(tested.rows)
        with_it = self._imitated(asked, (change,), tested.rows)
        self.most = max(0.0, tested.interval(distances(known, wanted), distances(with_it, wanted), _TESTS)[2])

    def _show(self, asked: Asked, faulty: Asked) -> None:
        rows = self.tested.rows
        own, said, imitated = asked.as_is(rows), faulty.as_is(rows), asked.changed(self.taken, rows)
        labels = np.stack([own.argmax(1), said.argmax(1), imitated.argmax(1)], axis=1)
        # those on which the labels differ and the cause explains it, the furthest apart first
        order = np.lexsort((-distances(own, said), labels[:, 1] != labels[:, 2], labels[:, 0] == labels[:, 1]))[:_SHOWN]
        chosen = rows[order]
        self.shown = Shown(
            "AB"[asked is self.b], asked.pictures((), chosen), asked.pictures(self.taken, chosen), labels[order]
        )

    # -- the model itself ----------------------------------------------------------------------------------------------

    def _silent(self, role: str, faulty: Asked) -> bool:
        """Whether a model has no finite answer to some pictures (all classes are alike then), and the other one has."""
        rows = self.tested.rows
        said, other = faulty.as_is(rows), (self.a if faulty is self.b else self.b).as_is(rows)
        silent = (said.max(axis=1) == said.min(axis=1)) & (other.max(axis=1) > other.min(axis=1))
        if silent.mean() < _SILENT:
            return False
        apart = distances(said, other)
        explained = self.tested.interval(apart, np.where(silent, np.float32(0), apart), 1)
        says = f"model {role} gives NaN or infinity, as where numbers of 16 bits overflow"
        labels = differing(said, other), differing(said[~silent], other[~silent])
        advice = "compute in 32 bits where numbers get large"
        self.found.append(Found("overflow", says, role, *explained, labels, len(rows), advice))
        return True

    def _unsteady(self, role: str, faulty: Asked) -> bool:
        """Whether a model that does not answer alike twice, or follows its batch, explains the difference."""
        rows = self.tested.rows[::2][:_AGAIN]
        before, other = faulty.as_is(rows), (self.a if faulty is self.b else self.b).as_is(rows)
        again = self._in_small_batches(faulty, rows)
        moved, apart = distances(before, again), distances(before, other)
        if moved.max() <= _ALIKE or moved.sum() < _UNSTEADY * apart.sum():
            return False
        random = distances(again, self._in_small_batches(faulty, rows)).sum() > 0.5 * moved.sum()
        explained = Unseen(rows, np.ones(len(rows))).interval(apart, np.maximum(apart - moved, 0), 1)
        name, does = "non-determinism", "does not answer alike twice, as with dropout that is left on"
        if not random:
            name = "batch dependence"
            does = "answers otherwise when other images are in the batch, as with batch statistics left on"
        labels = (differing(before, other),) * 2
        advice = "put the network into evaluation mode before it is exported"
        self.found.append(Found(name, f"model {role} {does}", role, *explained, labels, len(rows), advice))
        return True

    def _in_small_batches(self, faulty: Asked, rows: Int64Array) -> Float32Array:
        return np.concatenate([faulty.again(some) for some in np.array_split(rows, max(1, len(rows) // _TOGETHER))])

    # -- how it is fed -------------------------------------------------------------------------------------------------

    def _look(self, role: str, asked: Asked, faulty: Asked) -> None:
        """Look for faults of the ``faulty`` model, imitated in the ``asked`` one, one after the other.

        Of two at once neither may explain much alone: one that is promising is kept until it is tested with another.
        """
        pending: tuple[Change, ...] = ()
        while len(self.taken) + len(pending) < _FAULTS:
            best = self._best_change(asked, faulty, (*self.taken, *pending))
            if best is None:
                return
            pending = (*pending, best)
            if self._tested(role, asked, faulty, pending):
                pending = ()
                if self._little_left():
                    return
            elif len(pending) > 1:
                return

    def _best_change(self, asked: Asked, faulty: Asked, taken: tuple[Change, ...]) -> Change | None:
        """The change that brings the answers nearest, beside those that are taken, or None: none does so clearly."""
        rows = self.chosen_on
        known, wanted = asked.changed(taken, rows), faulty.as_is(rows)
        order = rows[np.argsort(-distances(known, wanted), kind="stable")]
        changes = self._candidates(asked, taken, asked.seen(known, wanted), order[:2])
        self.tried = max(self.tried, len(changes))
        left = [(0.0, (*taken, each)) for each in changes]  # what is left of the difference, with which changes
        first = _ROUNDS[0][0]
        queue = np.concatenate([order[:first], rows[~np.isin(rows, order[:first])]])
        upto = 0
        for more, kept in _ROUNDS:
            upto = min(len(queue), upto + more)
            tried = [(self._ratio(asked, faulty, each, taken, queue[:upto]), each) for _, each in left]
            left = sorted(tried, key=itemgetter(0))[:kept]
            if kept <= _REFINED:  # each in the best of the strengths near by
                for place, (ratio, each) in enumerate(left):
                    near = [(*taken, one) for one in each[-1].nearby()] if ratio <= _PROMISING else []
                    others = [(self._ratio(asked, faulty, one, taken, queue[:upto]), one) for one in near]
                    left[place] = min((left[place], *others), key=itemgetter(0))
                left.sort(key=itemgetter(0))
        if not left:
            return None
        ratio, best = left[0]
        if not taken and (self.best is None or ratio < self.best[0]):
            self.best = ratio, asked, faulty, best[0]
        return best[-1] if ratio <= _PROMISING else None

    def _ratio(
        self, asked: Asked, faulty: Asked, changes: tuple[Change, ...], taken: tuple[Change, ...], rows: Int64Array
    ) -> float:
        """What is left of the difference with changes; more than 1 where it grows. By the measure that falls more."""
        self.progress.stop.check()
        wanted = faulty.as_is(rows)
        before, after = asked.changed(taken, rows), self._imitated(asked, changes, rows)
        return min(
            float(measure(after, wanted).sum() / max(float(measure(before, wanted).sum()), 1e-9))
            for measure in (distances, correlation_lost)
        )

    def _candidates(self, asked: Asked, taken: tuple[Change, ...], seen: Seen, rows: Int64Array) -> list[Change]:
        """The changes that change what the model is handed, each once."""
        plain = asked.inputs(taken, rows)
        kept: list[Change] = []
        inputs: list[torch.Tensor] = []
        span = float((plain.max() - plain.min()).clamp(min=1e-6))
        for change in all_changes(seen):
            if any(change.cause == each.cause for each in taken):
                continue
            if change.stage is not Stage.ANSWERS:
                made = asked.inputs((*taken, change), rows)
                if any(
                    made.shape == each.shape and float((made - each).abs().max()) < 1e-4 * span
                    for each in (plain, *inputs)
                ):
                    continue
                inputs.append(made)
            kept.append(change)
        return kept

    def _imitated(self, asked: Asked, changes: tuple[Change, ...], rows: Int64Array) -> Float32Array:
        try:
            return asked.changed(changes, rows)
        except ServiceError:
            raise
        except (UserError, RunError):  # the model does not take such an input
            return 1 - asked.as_is(rows)

    def _tested(self, role: str, asked: Asked, faulty: Asked, pending: tuple[Change, ...]) -> bool:
        """Whether changes explain the difference on the half that did not choose them; then they are taken."""
        rows, tested = self.tested.rows, self.tested
        wanted, plain = faulty.as_is(rows), asked.changed(self.taken, rows)
        with_it = self._imitated(asked, (*self.taken, *pending), rows)
        low, _, _ = tested.interval(distances(plain, wanted), distances(with_it, wanted), _TESTS)
        before, after = (tested.weights @ (each.argmax(1) != wanted.argmax(1)) for each in (plain, with_it))
        if low < max(each.share for each in pending) or after > before:
            return False
        if len(pending) > 1:  # the first may have been but a step toward the second
            some = self.chosen_on[: sum(more for more, _ in _ROUNDS)]
            alone = self._ratio(asked, faulty, (*self.taken, pending[-1]), self.taken, some)
            if alone <= 1.05 * self._ratio(asked, faulty, (*self.taken, *pending), self.taken, some):
                pending = pending[-1:]
        plain = asked.as_is(rows)
        own = distances(plain, wanted)
        for change in pending:
            self.taken = (*self.taken, change)
            answers = asked.changed(self.taken, rows)
            explained = tested.interval(own, distances(answers, wanted), _TESTS)
            says, labels = f"model {role} {change.says}", (differing(plain, wanted), differing(answers, wanted))
            self.found.append(Found(change.cause, says, role, *explained, labels, len(rows), change.advice))
        return True

    def _little_left(self) -> bool:
        """Whether hardly any difference is left that a further fault could explain."""
        last = self.found[-1]
        before, after = last.labels
        return 1 - last.share < _LITTLE_LEFT and after <= max(1, _LITTLE_LEFT * before)

    def _mend(self, asked: Asked, faulty: Asked) -> None:
        """Find pre-processing with which model B is fed rightly, or A where only its own pipeline has the faults."""
        own = faulty.box.preprocessing
        if asked is self.b:
            # who is wrong nobody knows; A is the one that B is held against, and so fed B answers as A does
            direct: Preprocessing | None = asked.box.preprocessing
            for change in self.taken:
                direct = None if direct is None else change.direct(direct)
            if direct is not None:
                self.mend = _changed(asked.box.preprocessing, direct)
                says = [each.says for each in self.taken]
                self.found = [
                    replace(each, role="B", sentence=f"model B answers as model A does where it {words}")
                    for each, words in zip(self.found, says, strict=True)
                ]
                return
        candidates = [own]
        for change in self.taken:
            # a fault that only the pipeline itself can mend leaves the others to be mended
            more = [each for before in candidates for each in change.mends(before, asked.box.preprocessing)]
            candidates = list(dict.fromkeys((*more, *candidates)))
        rows = self.tested.rows[: PICTURES // 2]
        best: tuple[float, Preprocessing | None] = (0.5 * float(self._left(asked, faulty, own, rows)), None)
        for each in candidates[:_MENDS]:
            with suppress(UserError, RunError, SpentError):  # it does not take that, or nobody may ask
                left = self._left(asked, faulty, each, rows)
                if left < 0.95 * best[0]:
                    best = left, each
        if best[1] is not None:
            self.mend = _changed(own, best[1])

    def _left(self, asked: Asked, faulty: Asked, preprocessing: Preprocessing, rows: Int64Array) -> float:
        """The difference where the faulty model is fed otherwise; how it is then to be read asks nothing."""
        read = tuple(each for each in self.taken if each.stage is Stage.ANSWERS)
        fed = replace(preprocessing, outputs=faulty.box.preprocessing.outputs)
        answers = faulty.fed_with(fed, rows)
        return float(distances(asked.changed(read, rows), answers).sum())


def _changed(own: Preprocessing, other: Preprocessing) -> Preprocessing:
    """What ``other`` says otherwise; None for the rest."""
    values = {each.name: getattr(other, each.name) for each in fields(own)}
    return Preprocessing(**{name: value for name, value in values.items() if value != getattr(own, name)})
