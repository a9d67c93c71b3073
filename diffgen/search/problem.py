"""The search problem that pymoo sees: a space of genes, and two objectives from the models' answers."""

from __future__ import annotations

import numpy as np
import torch
from pymoo.core.population import Population
from pymoo.core.problem import Problem

from diffgen.config import SearchConfig
from diffgen.search.archive import Archive
from diffgen.search.columns import Column, column, set_columns
from diffgen.search.diversity import Diversity
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal import NO_PAIR, Answers, Proposal
from diffgen.sources.base import Source
from diffgen.types import Int64Array, UInt8Array

OBJECTIVES = {"both": ("divergence", "diversity"), "divergence": ("divergence",), "diversity": ("diversity",)}

_FOUND_BEFORE = 1e-6  # violation of what looks like an earlier find: less than that of whatever is rejected
MAX_CELLS = 1 << 20  # a niche by behaviour is label pair * MAX_CELLS + cell


class GeneProblem(Problem):  # type: ignore[misc]
    """Maximise divergence (Eq. 1) and diversity (Eq. 2), or one of them; pymoo minimises, so they are negated (Eq. 3).

    The picture of every individual is kept until it leaves the population, since its diversity is scored again when
    the representatives change. Pictures are found by ``uid``, a number that each individual carries.

    pymoo never evaluates it: pictures are drawn by :meth:`draw`, somebody else asks the models about them, and
    :meth:`judge` makes objectives of the answers.

    Args:
        source: genes -> image.
        archive: of the triggers; told the diversity of new ones.
        diversity: the second objective.
        config: prior and bounds, objectives, niches, and how the search is guided by the filters.
        memory: draws in pieces where memory is too small for a whole batch; None: at once until it is.
        has_cells: whether the answers tell triggers apart by cells.
        guided: whether the search keeps away from what the filters reject. They are asked about triggers
            only, since nothing else is kept. ``validity = "constraint"`` follows Deb's rules (2000): a rejected trigger
            comes after everything else, and of those the less rejected first. Objectives of the rest are never above 0,
            so that positive ones say it. Rejected triggers share the niche of what does not trigger. A trigger that
            looks like an earlier find of its labels comes just before the rejected ones, so that it is no parent of
            more of its kind. As an objective, how far a picture is from being accepted is the last; it is 0 for
            whatever is not rejected.

    Attributes:
        space: the part of the source's space that is searched.
    """

    def __init__(
        self,
        source: Source,
        archive: Archive,
        diversity: Diversity,
        config: SearchConfig,
        *,
        memory: BatchHalver | None = None,
        has_cells: bool = False,
        guided: bool = False,
    ) -> None:
        self.space = source.space.searched(config.prior, config.bound)
        super().__init__(
            n_var=self.space.length,
            n_obj=len(OBJECTIVES[config.objectives]) + (guided and config.validity == "objective"),
            xl=self.space.low,
            xu=self.space.high,
        )
        self.diversity = diversity
        self._source = source
        self._archive = archive
        self._memory = memory or BatchHalver()
        self._guided = guided
        self._constrained = guided and config.validity != "objective"
        self._uids = np.empty(0, dtype=np.int64)
        self._images: torch.Tensor | None = None
        self._next_uid = 0
        self._objectives = OBJECTIVES[config.objectives]
        self._has_cells = has_cells
        self._by_cell = config.niches == "behaviour"
        if self._by_cell and not has_cells:
            raise ValueError("Niches by behaviour need answers that tell cells apart.")

    def draw(self, X: Column, generation: int) -> Proposal:
        """The pictures of genes, float64 (N, n_var)."""
        genes = torch.from_numpy(np.asarray(X, dtype=np.float32))
        images = self._memory.call(self._source.draw, genes)
        return Proposal(images, generation=generation, genes=genes, origins=self._source.origins(genes))

    def judge(self, pictures: torch.Tensor, answers: Answers) -> dict[str, Column]:
        """What a generation is worth: its columns F (objectives, pymoo minimises), uid, archive_number, niche, version.

        Args:
            pictures: uint8 (N, C, H, W) of the whole generation; they are kept.
            answers: to these.
        """
        archived = answers.archive_numbers.numpy()
        values = {"divergence": answers.divergence.cpu().numpy()}
        if "diversity" in self._objectives:
            self.diversity.update()
            values["diversity"] = self.diversity.score(pictures, answers.archive_numbers).cpu().numpy()
            self._archive.record_diversity(archived[archived >= 0], values["diversity"][archived >= 0])
        objectives = -np.stack([values[name] for name in self._objectives], axis=1).astype(np.float64)
        niche = self._niches(answers)
        if self._guided:
            violation = answers.violation.numpy()
            if self._constrained:
                if self._has_cells:
                    known = (archived >= 0) & (answers.news.numpy() == 0) & (violation == 0)
                    violation = np.where(known, np.float32(_FOUND_BEFORE), violation)
                objectives = np.minimum(objectives, 0)
                objectives[violation > 0] = violation[violation > 0, None]
                niche[violation > 0] = NO_PAIR
            else:
                objectives = np.column_stack([objectives, violation])
        return {
            "F": objectives,
            "uid": self.keep(pictures),
            "archive_number": archived,
            "niche": niche,
            "version": np.full(len(pictures), self.diversity.version),
        }

    def _niches(self, answers: Answers) -> Int64Array:
        """int64 (N,): the label pair of each trigger, or its behaviour; ``NO_PAIR`` for the rest."""
        pairs = np.array(answers.label_pairs.cpu().numpy())
        if not self._by_cell:
            return pairs
        cells = answers.cells.numpy()
        return np.where(pairs == NO_PAIR, NO_PAIR, pairs * MAX_CELLS + cells)

    def keep(self, pictures: torch.Tensor) -> Int64Array:
        """Remember pictures, uint8 (N, C, H, W); returns their uids, int64 (N,)."""
        uids = np.arange(self._next_uid, self._next_uid + len(pictures))
        self._next_uid += len(pictures)
        self._uids = np.concatenate([self._uids, uids])
        self._images = pictures if self._images is None else torch.cat([self._images, pictures])
        return uids

    def _rows(self, uids: Int64Array) -> Int64Array:
        return np.searchsorted(self._uids, uids)

    def rescore(self, population: Population) -> None:
        """Give those individuals a new second objective whose score stems from older representatives."""
        if "diversity" not in self._objectives:
            return
        second = self._objectives.index("diversity")
        stale_scores = column(population, "version") != self.diversity.version
        if self._constrained:
            # the objectives of rejected pictures are no scores of diversity
            stale_scores &= column(population, "F")[:, second] <= 0
        old = np.flatnonzero(stale_scores)
        if len(old) == 0:
            return
        stale = population[old]
        assert self._images is not None
        pictures = self._images[torch.from_numpy(self._rows(column(stale, "uid"))).to(self._images.device)]
        numbers = torch.from_numpy(column(stale, "archive_number").astype(np.int64))
        objectives = column(stale, "F")
        objectives[:, second] = -self.diversity.score(pictures, numbers).cpu().numpy()
        if self._constrained:
            objectives = np.minimum(objectives, 0)
        set_columns(stale, {"F": objectives, "version": np.full(len(stale), self.diversity.version)})

    def retain(self, population: Population) -> None:
        """Forget the pictures of all but these individuals."""
        assert self._images is not None
        uids = np.sort(column(population, "uid"))
        self._images = self._images[torch.from_numpy(self._rows(uids)).to(self._images.device)]
        self._uids = uids

    def pictures(self, uids: Int64Array) -> UInt8Array:
        """uint8 (len(uids), C, H, W): what a checkpoint keeps of the population besides its genes."""
        assert self._images is not None
        return self._images[torch.from_numpy(self._rows(uids)).to(self._images.device)].cpu().numpy()
