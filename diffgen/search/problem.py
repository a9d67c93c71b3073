"""The search problem that pymoo sees: a space of genes, and two objectives from the models' answers."""

from __future__ import annotations

import torch
from pymoo.core.problem import Problem

from diffgen.config import SearchConfig
from diffgen.search.archive import Archive
from diffgen.search.diversity import Diversity
from diffgen.search.individuals import Individuals
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal import NO_PAIR, Answers, Proposal
from diffgen.sources.base import Source

OBJECTIVES = {"both": ("divergence", "diversity"), "divergence": ("divergence",), "diversity": ("diversity",)}

_FOUND_BEFORE = 1e-6  # violation of what looks like an earlier find: less than that of whatever is rejected
MAX_CELLS = 1 << 20  # a niche by behaviour is label pair * MAX_CELLS + cell


class GeneProblem(Problem):  # type: ignore[misc]
    """Maximise divergence (Eq. 1) and diversity (Eq. 2), or one of them; pymoo minimises, so they are negated (Eq. 3).

    Every individual carries its picture, since its diversity is scored again when the representatives change.

    pymoo never evaluates it: pictures are drawn by :meth:`pictures`, somebody else asks the models about them, and
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
        batch_size: pictures drawn at once at most; None: a whole generation.

    Attributes:
        place: where individuals lie but for their pictures, which stay on the device of ``diversity``; the search says
            where.
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
        batch_size: int | None = None,
    ) -> None:
        self._batch_size = batch_size
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
        self.place = torch.device("cpu")
        self._objectives = OBJECTIVES[config.objectives]
        self._has_cells = has_cells
        self._by_cell = config.niches == "behaviour"
        if self._by_cell and not has_cells:
            raise ValueError("Niches by behaviour need answers that tell cells apart.")

    def pictures(self, X: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) of genes, float64 (N, n_var)."""
        parts = X.to(torch.float32).split(self._batch_size or max(1, len(X)))
        return torch.cat([self._memory.call(self._source.draw, part) for part in parts])

    def draw(self, individuals: Individuals, generation: int) -> Proposal:
        """The pictures of some of a generation: those that they have, or drawn now."""
        X = individuals.column("X")
        images = individuals.column("images") if individuals.knows("images") else self.pictures(X)
        genes = X.to(torch.float32)
        return Proposal(images, generation=generation, genes=genes, source=self._source)

    def judge(self, pictures: torch.Tensor, answers: Answers) -> dict[str, torch.Tensor]:
        """What a generation is worth: F (objectives, pymoo minimises), images, archive_number, niche, version.

        Args:
            pictures: uint8 (N, C, H, W) of the whole generation.
            answers: to these.
        """
        pictures = pictures.to(self.diversity.device)
        archived = answers.archive_numbers
        values = {"divergence": answers.divergence}
        if "diversity" in self._objectives:
            self.diversity.update()
            values["diversity"] = self.diversity.score(pictures, archived)
            found = archived >= 0
            self._archive.record_diversity(archived[found].numpy(), values["diversity"].cpu()[found].numpy())
        objectives = -torch.stack([values[name].to(self.place) for name in self._objectives], dim=1).to(torch.float64)
        niche = self._niches(answers)
        if self._guided:
            violation = answers.violation
            if self._constrained:
                if self._has_cells:
                    known = (archived >= 0) & (answers.news == 0) & (violation == 0)
                    violation = violation.masked_fill(known, _FOUND_BEFORE)
                violation = violation.to(self.place)
                rejected = violation > 0
                objectives = torch.where(rejected[:, None], violation[:, None], objectives.clamp(max=0))
                niche = niche.masked_fill(rejected, NO_PAIR)
            else:
                objectives = torch.cat([objectives, violation.to(objectives)[:, None]], dim=1)
        return {
            "F": objectives,
            "images": pictures,
            "archive_number": archived.to(self.place),
            "niche": niche,
            "version": torch.full((len(pictures),), self.diversity.version, device=self.place),
        }

    def _niches(self, answers: Answers) -> torch.Tensor:
        """int64 (N,): the label pair of each trigger, or its behaviour; ``NO_PAIR`` for the rest."""
        pairs = answers.label_pairs.to(self.place)
        if not self._by_cell:
            return pairs
        return torch.where(pairs == NO_PAIR, NO_PAIR, pairs * MAX_CELLS + answers.cells.to(self.place))

    def rescore(self, population: Individuals) -> None:
        """Give those individuals a new second objective whose score stems from older representatives."""
        if "diversity" not in self._objectives:
            return
        second = self._objectives.index("diversity")
        objectives, version = population.column("F"), population.column("version")
        stale = version != self.diversity.version
        if self._constrained:
            # the objectives of rejected pictures are no scores of diversity
            stale &= objectives[:, second] <= 0
        rows = stale.nonzero().squeeze(1)
        if len(rows) == 0:
            return
        old = population[rows]
        scores = -self.diversity.score(old.column("images"), old.column("archive_number")).to(objectives)
        objectives[rows, second] = scores.clamp(max=0) if self._constrained else scores
        version[rows] = self.diversity.version
