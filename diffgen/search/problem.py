"""What a generation is worth: two objectives from the models' answers, and the pictures that genes draw."""

from __future__ import annotations

import torch

from diffgen.config import SearchConfig
from diffgen.features.shrinking import shrunk
from diffgen.search.archive import Archive
from diffgen.search.diversity import Diversity
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal import NO_PAIR, Answers
from diffgen.search.survival import Population, rows_of
from diffgen.sources.base import PreviewingSource, Source
from diffgen.sources.tensor_space import gene_operators

OBJECTIVES = {"both": ("divergence", "diversity"), "divergence": ("divergence",), "diversity": ("diversity",)}

_FOUND_BEFORE = 1e-6  # violation of what looks like an earlier find: less than that of whatever is rejected


class GeneProblem:
    """Maximise divergence (Eq. 1) and diversity (Eq. 2), or one of them; they are negated, to be minimised (Eq. 3).

    Every individual carries its picture, a large one as small as it is compared with others, since its diversity is
    scored again when the representatives change.

    Args:
        source: genes -> image.
        archive: of the triggers; told the diversity of new ones.
        diversity: the second objective.
        config: prior and bounds, and which objectives.
        memory: draws in pieces where memory is too small for a whole batch; None: at once until it is.
        has_cells: whether the answers tell triggers apart by cells.
        guided: whether the search keeps away from what the filters reject, by Deb's rules (2000): a rejected trigger
            comes after everything else, and of those the less rejected first. Objectives of the rest are never above 0,
            so that positive ones say it. Rejected triggers share the niche of what does not trigger. A trigger that
            looks like an earlier find of its labels comes just before the rejected ones, so that it is no parent of
            more of its kind. The filters are asked about triggers only, since nothing else is kept.
        batch_size: pictures drawn at once at most; None: a whole generation.

    Attributes:
        space: the part of the source's space that is searched.
        operators: what is done to its genes; individuals lie where they do, but for their pictures, which stay on the
            device of ``diversity``.
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
        self.source, self.diversity = source, diversity
        self.space = source.space.searched(config.prior, config.bound)
        self.operators = gene_operators(self.space, diversity.device)
        self._archive, self._memory, self._batch_size = archive, memory or BatchHalver(), batch_size
        self._guided, self._has_cells = guided, has_cells
        self._objectives = OBJECTIVES[config.objectives]

    def pictures(self, X: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) of genes, float64 (N, length)."""
        parts = X.to(torch.float32).split(self._batch_size or max(1, len(X)))
        return torch.cat([self._memory.call(self.source.draw, part) for part in parts])

    def previews(self, X: torch.Tensor) -> torch.Tensor | None:
        """uint8 (N, C, h, w): the same drawn small, or None: they are small, or nothing draws them so."""
        return self.source.previews(X.to(torch.float32)) if isinstance(self.source, PreviewingSource) else None

    def judge(self, pictures: torch.Tensor, answers: Answers) -> dict[str, torch.Tensor]:
        """Columns of a generation: F, images, archive_number, niche (int64, the label pair of a trigger), version.

        Args:
            pictures: uint8 (N, C, H, W) of the whole generation.
        """
        pictures, place = shrunk(pictures.to(self.diversity.device)), self.operators.device
        archived, niche = answers.archive_numbers, answers.label_pairs.to(place)
        values = {"divergence": answers.divergence}
        if "diversity" in self._objectives:
            self.diversity.update()
            values["diversity"] = self.diversity.score(pictures, archived)
            found = archived >= 0
            self._archive.record_diversity(archived[found].numpy(), values["diversity"].cpu()[found].numpy())
        objectives = -torch.stack([values[name].to(place) for name in self._objectives], dim=1).to(torch.float64)
        if self._guided:
            violation = answers.violation
            if self._has_cells:
                known = (archived >= 0) & (answers.news == 0) & (violation == 0)
                violation = violation.masked_fill(known, _FOUND_BEFORE)
            violation = violation.to(place)
            rejected = violation > 0
            objectives = torch.where(rejected[:, None], violation[:, None], objectives.clamp(max=0))
            niche = niche.masked_fill(rejected, NO_PAIR)
        return {
            "F": objectives,
            "images": pictures,
            "archive_number": archived.to(place),
            "niche": niche,
            "version": torch.full((len(pictures),), self.diversity.version, device=place),
        }

    def rescore(self, population: Population) -> None:
        """Give those individuals a new second objective whose score stems from older representatives.

        Parents and offspring compete, so both must be measured with one measure (pymoo's own advice for objectives that
        move: evaluate the survivors again).
        """
        if "diversity" not in self._objectives:
            return
        second = self._objectives.index("diversity")
        objectives, version = population["F"], population["version"]
        stale = version != self.diversity.version
        if self._guided:
            # the objectives of rejected pictures are no scores of diversity
            stale &= objectives[:, second] <= 0
        rows = stale.nonzero().squeeze(1)
        if len(rows) == 0:
            return
        old = rows_of({name: population[name] for name in ("images", "archive_number")}, rows)
        scores = -self.diversity.score(old["images"], old["archive_number"]).to(objectives)
        objectives[rows, second] = scores.clamp(max=0) if self._guided else scores
        version[rows] = self.diversity.version
