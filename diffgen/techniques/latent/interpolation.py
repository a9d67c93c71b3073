"""Pictures between a seed and images of other classes, without feedback: what Argus and Latte share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.errors import RunError
from diffgen.origins import Origins, Step
from diffgen.search.proposal import Answers, Proposal
from diffgen.tasks.classification import labels_of
from diffgen.techniques.base import Checkpoint, RealImages, TechniqueContext
from diffgen.techniques.latent.encoded import EncodedImages
from diffgen.techniques.latent.rounds import LatentTechnique, Round
from diffgen.types import Float32Array, Int64Array

_STANDSTILL = 200  # rounds without a single picture that passes


class Interpolation(LatentTechnique):
    """Leads seeds one step towards images of every other class.

    Seeds come in an order that is drawn once, again and again; every visit of a seed makes pictures towards one image
    of each other class, another one at its next visit. A round is as many visits as fill a batch.

    Args:
        context: see :class:`diffgen.techniques.Technique`.
        seeds: most seeds that are used at all; None: every one.
        others: most images of each class that seeds are led towards.
        fidelity: whether pictures that the source's scorer takes for less real than their seed, encoded and drawn
            again, are left out; without a scorer none is.

    Attributes:
        shares_count: number of the different lengths of a step that are counted apart; see :meth:`outcomes`.
        once: whether the way from a seed to an image always gives the same pictures: it is gone only once, and the
            search ends when all ways were.
    """

    shares_count: ClassVar[int] = 1
    once: ClassVar[bool] = False

    def __init__(self, context: TechniqueContext, *, seeds: int | None, others: int, fidelity: bool) -> None:
        super().__init__(context)
        real = context.need_real()
        order = np.random.default_rng([context.seed, 1])
        self._classes = self.classes_of(real)
        self._seeds = order.permutation(self.seeds(real))[:seeds]
        known = order.permutation(np.flatnonzero(self._classes >= 0))
        self._towards = {
            int(each): known[self._classes[known] == each][:others] for each in np.unique(self._classes[known])
        }
        used = np.concatenate([self._seeds, *self._towards.values()])
        # those that are asked for first come first
        ranks = np.concatenate([np.arange(len(each)) for each in (self._seeds, *self._towards.values())])
        used = used[np.argsort(ranks, kind="stable")]
        self._encoded = EncodedImages(context, used[np.sort(np.unique(used, return_index=True)[1])])
        self._scorer = context.scorer if fidelity else None
        self._realism = np.full(len(real.images), np.nan, dtype=np.float32)  # of the seeds, once it was asked for
        self._visits = 0
        self._empty_rounds = 0
        self._owner = np.empty(0, dtype=np.int64)  # of the present round: place of the seed of each picture,
        self._kind = np.empty(0, dtype=np.int64)  # and which length of a step it has
        models = real.answers.probabilities.shape[1]
        self._asked = np.zeros(self.shares_count, dtype=np.int64)
        self._errors = np.zeros((self.shares_count, models), dtype=np.int64)
        self._wrong: set[tuple[int, ...]] = set()  # rows of the array of that name in the outcomes

    @classmethod
    @abstractmethod
    def classes_of(cls, real: RealImages) -> Int64Array:
        """int64 (N,): the class of each real image, or -1 where none is led towards it."""

    @abstractmethod
    def shares(self, count: int) -> tuple[NDArray[np.float64], Int64Array]:
        """The lengths of the steps towards each of ``count`` images, (count, n), and which of them each is."""

    def visit(self, number: int) -> tuple[int, Int64Array]:
        """The place of the seed that is visited as the ``number``-th, and the rows that it is led towards then."""
        turn, place = divmod(number, len(self._seeds))
        own = self._classes[self._seeds[place]]
        rows = [
            each[(place + turn) % len(each)]
            for label, each in self._towards.items()
            if label != own and not (self.once and turn >= len(each))
        ]
        return place, np.array(rows, dtype=np.int64)

    @property
    def _all_visited(self) -> bool:
        return self.once and self._visits >= len(self._seeds) * max(map(len, self._towards.values()))

    @property
    def finished(self) -> bool:
        return self._round is None and self._all_visited

    def begin(self) -> Round:
        """The next visits. RunError if the scorer has let nothing pass for many rounds."""
        places: list[int] = []
        others: list[Int64Array] = [np.empty(0, dtype=np.int64)]
        made = 0
        while made < self.context.batch_size and not self._all_visited:
            place, rows = self.visit(self._visits)
            self._visits += 1
            places += [place] * len(rows)
            others.append(rows)
            made += len(rows) * self.shares_count
        return self._made(np.array(places, dtype=np.int64), np.concatenate(others))

    def _made(self, places: Int64Array, others: Int64Array) -> Round:
        """The pictures between the seeds at some places and as many other images."""
        share, kind = self.shares(len(others))
        repeats = share.shape[1]
        owner, share, kind = np.repeat(places, repeats), share.ravel(), kind.ravel()
        others, rows = np.repeat(others, repeats), self._seeds[np.repeat(places, repeats)]
        start, end = (torch.from_numpy(self._encoded.genes(each)) for each in (rows, others))
        space = self.context.need_source().space
        steps = torch.from_numpy(share.astype(np.float32))[:, None]
        genes = np.asarray(space.interpolate(start, end, steps).numpy(), dtype=np.float32)
        recipes = tuple(
            str(Step("towards", (("share", by), ("other", float(other)))))
            for by, other in zip(share.tolist(), others.tolist(), strict=True)
        )
        origins, images = Origins(rows, recipes), None
        if self._scorer is not None and len(genes):
            images = self._drawn(genes)
            passed = np.flatnonzero(self._scores(images) >= self._seed_scores(rows))
            owner, kind, genes, origins = owner[passed], kind[passed], genes[passed], origins[passed]
            images = images[torch.from_numpy(passed).to(images.device)]
        self._empty_rounds = 0 if len(genes) else self._empty_rounds + 1
        if self._empty_rounds >= _STANDSTILL:
            raise RunError(
                f"The discriminator takes no picture for as real as its seed ({_STANDSTILL} rounds); set fidelity = "
                '"none" in the table of the technique in a --config file.'
            )
        self._owner, self._kind = owner, kind
        return Round(genes, origins, images)

    def _drawn(self, genes: Float32Array) -> torch.Tensor:
        return self.context.memory.call(self.context.need_source().draw, torch.from_numpy(genes))

    def _scores(self, images: torch.Tensor) -> Float32Array:
        assert self._scorer is not None
        parts = [self.context.memory.call(self._scorer.score, part).cpu() for part in images.split(256)]
        return np.asarray(torch.cat(parts).numpy(), dtype=np.float32)

    def _seed_scores(self, rows: Int64Array) -> Float32Array:
        """float32 (n,): what the scorer gives the seeds, encoded and drawn again."""
        unknown = np.unique(rows[np.isnan(self._realism[rows])])
        if len(unknown):
            self._realism[unknown] = self._scores(self._drawn(self._encoded.genes(unknown)))
        return self._realism[rows]

    def learn(self, proposal: Proposal, answers: Answers) -> None:
        first = sum(map(len, self._told))
        self._count(slice(first, first + len(answers)), labels_of(answers.probabilities.cpu().numpy()))
        super().learn(proposal, answers)

    def _count(self, part: slice, labels: Int64Array) -> None:
        """Count what the models say of a part of the present round, int64 (n, M)."""
        rows, kind = self._seeds[self._owner[part]], self._kind[part]
        wrong = labels != self._classes[rows][:, None]
        np.add.at(self._asked, kind, 1)
        np.add.at(self._errors, kind, wrong)
        which, model = np.nonzero(wrong)
        found = np.column_stack([rows[which], kind[which], model, labels[which, model]])
        self._wrong.update(map(tuple, found.tolist()))

    def end(self, now: Round, probabilities: Float32Array) -> None:
        """Nothing is learned from the answers."""

    def outcomes(self) -> Mapping[str, Any]:
        """Counts of what every model said.

        ``asked`` int64 (S,): pictures of each length of a step; ``errors`` int64 (S, M): those that each model gave
        another label than the seed's; ``wrong`` int64 (n, 4): row of a seed, length of a step, model, and a label
        other than the seed's that this model gave one of its pictures; ``seed_rows``: seeds visited at least once.
        """
        seen = self._seeds[: min(self._visits, len(self._seeds))]
        return {"asked": self._asked, "errors": self._errors, "wrong": self._wrong_rows(), "seed_rows": seen}

    @classmethod
    def joined_outcomes(cls, parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        counts = {name: np.sum([each[name] for each in parts], axis=0) for name in ("asked", "errors")}
        wrong = np.unique(np.concatenate([each["wrong"] for each in parts]), axis=0)
        return {**counts, "wrong": wrong, "seed_rows": np.unique(np.concatenate([each["seed_rows"] for each in parts]))}

    def _wrong_rows(self) -> Int64Array:
        return np.array(sorted(self._wrong), dtype=np.int64).reshape(-1, 4)

    def checkpoint(self) -> Checkpoint:
        return {
            **super().checkpoint(),
            "visits": self._visits,
            "empty_rounds": self._empty_rounds,
            "realism": self._realism,
            "asked": self._asked,
            "errors": self._errors,
            "wrong": self._wrong_rows(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._visits, self._empty_rounds = int(state["visits"]), int(state["empty_rounds"])
        if state["realism"].shape != self._realism.shape:
            raise ValueError("the realism is of other images")
        self._realism, self._wrong = state["realism"].copy(), set(map(tuple, state["wrong"].tolist()))
        self._asked, self._errors = state["asked"].copy(), state["errors"].copy()
