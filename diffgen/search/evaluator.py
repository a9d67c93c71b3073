"""The one place where models are asked during a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from diffgen.models import BlackBox
from diffgen.origins import NO_SEED, Origins
from diffgen.runs.triggers import TriggerTable
from diffgen.search.archive import Archive
from diffgen.search.asking import Asking
from diffgen.search.behaviours import Behaviours
from diffgen.search.divergence import Divergence, euclidean_plus_one
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal import NO_PAIR, NOT_ARCHIVED, Answers, Proposal
from diffgen.search.proposal_check import check_origins
from diffgen.search.staging import Stages
from diffgen.tasks.classification import disagree, label_numbers
from diffgen.tasks.kept_answers import keep
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array


@dataclass(frozen=True)
class Examined:
    """What is said of N triggers in the search.

    Attributes:
        violation: float32 (N,), by how much the filters reject them; 0 for those that they accept.
        recognised: bool (N,), which the jury recognises; None: there is no jury.
    """

    violation: Float32Array
    recognised: BoolArray | None = None


class Examine(Protocol):
    """Looks at triggers in the search."""

    def __call__(self, images: torch.Tensor, seeds: Int64Array | None) -> Examined:
        """What is said of uint8 (N, C, H, W), made from the real images ``seeds``, int64 (N,), where they were."""
        ...


def by_filters(violation: Callable[[torch.Tensor], Float32Array]) -> Examine:
    """Filters alone, without a jury, from by how much they reject pictures, uint8 (N, C, H, W) -> float32 (N,)."""
    return lambda images, seeds: Examined(violation(images))


class Evaluator:
    """Asks the black boxes about proposals, counts, and archives what triggers. It knows no budget.

    One query is one image that every model is asked about once.

    Args:
        black_boxes: two models or more, prepared.
        margin: a disagreement counts when every model's two highest probabilities are further apart than this.
        memory: hands a batch over in pieces where memory is too small for all of it; None: at once until it is.
        behaviours: counts what is met; None when behaviours are not to be counted.
        examine: filters and jury, who are asked about every trigger; None: they are not asked in the search.
        stages: of four models or more, which two are asked first; the others are then asked about triggers of these two
            and about a sample. An answer that nobody asked for is that of the first model asked. None: all are asked
            about everything.
        real_images: uint8 (n, C, H, W), what origins of pictures name; None: not known. A picture that is, value for
            value, the one that it was made from is no trigger: what the models say of it is known.
        unchanged_count: such a picture is one all the same.

    Attributes:
        queries: images asked about so far.
        spared: how many times a model was not asked about one of these.
    """

    def __init__(
        self,
        black_boxes: Sequence[BlackBox],
        *,
        archive: Archive,
        margin: float,
        memory: BatchHalver | None = None,
        divergence: Divergence = euclidean_plus_one,
        behaviours: Behaviours | None = None,
        examine: Examine | None = None,
        stages: Stages | None = None,
        real_images: UInt8Array | None = None,
        unchanged_count: bool = False,
    ) -> None:
        self.black_boxes = tuple(black_boxes)
        self.archive = archive
        self.margin = margin
        self.queries = self.spared = 0
        self.stages = stages
        self.real_images = None if real_images is None else len(real_images)
        self._unchanged_are = None if unchanged_count else real_images
        self.behaviours = behaviours
        self._divergence = divergence
        self._examine = examine
        self._memory = memory or BatchHalver()
        self._models = Asking(self.black_boxes, self._memory)

    @property
    def asks_filters(self) -> bool:
        """Whether the validity filters are asked about every trigger."""
        return self._examine is not None

    def ask(self, proposal: Proposal) -> Answers:
        """Ask every model about a proposal, and the filters where they are to be; archive the triggers.

        Raises:
            RunError: a model raised or gave something that is not a probability.
            UserError: the source of the pictures tells origins that cannot be.
        """
        images = proposal.images
        if len(images) == 0:
            return Answers.none(len(self.black_boxes), self.black_boxes[0].num_classes)
        first = self.queries
        probabilities, divergence = self._asked(images)
        self.queries += len(images)
        triggers = disagree(probabilities, self.margin)
        numbers = torch.full((len(images),), NOT_ARCHIVED, dtype=torch.int64)
        cells = torch.zeros(len(images), dtype=torch.int64)
        violation = torch.zeros(len(images), dtype=torch.float32)
        news, named_news = torch.zeros(2, len(images), dtype=torch.int64)
        rows, origins = self._changed(proposal, triggers)
        if len(rows) > 0:
            on_cpu = rows.cpu()
            # somebody else's source may leave pictures on the processor, where rows of the device are no index
            pictures = images[on_cpu]
            found = _table(proposal, pictures, origins, rows, probabilities, divergence, first_query=first + 1)
            known = len(self.archive)
            archived = self.archive.add(found)
            numbers[on_cpu] = torch.from_numpy(archived)
            recognised = None
            if self._examine is not None:
                violation[on_cpu], recognised = self._examined(pictures, found.seeds)
            if self.behaviours is not None:
                cells[on_cpu] = self._memory.call(_on_arrays(self.behaviours.cells), pictures)
                # an image that the archive holds already is no new find
                new, first_rows = np.unique(archived, return_index=True)
                fresh = first_rows[new >= known]
                fresh = fresh[violation[on_cpu].numpy()[fresh] == 0]
                told = self.behaviours.add(
                    found.images[fresh],
                    found.labels[fresh],
                    cells[on_cpu].numpy()[fresh],
                    archived[fresh],
                    query=self.queries,
                    recognised=None if recognised is None else recognised[fresh],
                )
                into = on_cpu[torch.from_numpy(fresh)]
                news[into], named_news[into] = map(torch.from_numpy, told)
        pairs = label_numbers(probabilities.argmax(dim=2), probabilities.shape[2]).masked_fill(~triggers, NO_PAIR)
        return Answers(
            probabilities,
            divergence,
            archive_numbers=numbers,
            label_pairs=pairs,
            cells=cells,
            violation=violation,
            news=news,
            named_news=named_news,
        )

    def _changed(self, proposal: Proposal, triggers: torch.Tensor) -> tuple[torch.Tensor, Origins | None]:
        """The rows of triggers, int64 (n,), and their origins; real images as they are no longer count among them."""
        rows = triggers.nonzero().squeeze(1)
        origins = proposal.origins_of(rows.cpu().numpy()) if len(rows) else None
        if origins is None:
            return rows, None
        whose = f"The source {type(proposal.source).__name__}"
        check_origins(origins, whose, count=len(rows), real_images=self.real_images)
        if self._unchanged_are is None:
            return rows, origins
        changed = np.ones(len(rows), dtype=np.bool_)
        made = np.flatnonzero(origins.seeds != NO_SEED)
        pictures = proposal.images[rows.cpu()[torch.from_numpy(made)]].cpu().numpy()
        changed[made] = (pictures != self._unchanged_are[origins.seeds[made]]).any(axis=(1, 2, 3))
        kept = torch.from_numpy(changed).to(rows.device)
        triggers[rows[~kept]] = False
        return rows[kept], origins[np.flatnonzero(changed)]

    def _examined(self, images: torch.Tensor, seeds: Int64Array | None) -> tuple[torch.Tensor, BoolArray | None]:
        """Violation and recognition of triggers, in pieces where memory is too small for all of them."""
        parts: list[Examined] = []

        def examine(rows: torch.Tensor) -> torch.Tensor:
            assert self._examine is not None
            own = None if seeds is None else seeds[rows.numpy()]
            said = self._examine(images[rows.to(images.device)], own)
            parts.append(said)
            return torch.from_numpy(said.violation)

        violation = self._memory.call(examine, torch.arange(len(images)))
        known = [each.recognised for each in parts if each.recognised is not None]
        return violation, np.concatenate(known) if known else None

    def _asked(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the models say of images, float32 (N, M, K), and how far that lies apart, float32 (N,)."""
        if self.stages is None:
            answers = torch.stack(self._models.about(images), dim=1)
            return answers, self._divergence(answers)
        one, other = self.stages.first
        pair = torch.stack(self._models.about(images, (one, other)), dim=1)
        wanted = disagree(pair, self.margin).cpu()
        wanted |= torch.from_numpy(self.stages.sampled(self.queries + 1, len(images)))
        rows = wanted.nonzero().squeeze(1).to(pair.device)
        answers = pair[:, :1].repeat(1, len(self.black_boxes), 1)
        answers[:, other] = pair[:, 1]
        others = [number for number in range(len(self.black_boxes)) if number not in (one, other)]
        divergence = self._divergence(pair)
        if len(rows) > 0:
            some = images[wanted.to(images.device)]
            for number, said in zip(others, self._models.about(some, others), strict=True):
                answers[rows, number] = said
            divergence[rows] = self._divergence(answers[rows])
        self.spared += len(others) * (len(images) - len(rows))
        return answers, divergence


def _table(
    proposal: Proposal,
    pictures: torch.Tensor,
    origins: Origins | None,
    rows: torch.Tensor,
    probabilities: torch.Tensor,
    divergence: torch.Tensor,
    *,
    first_query: int,
) -> TriggerTable:
    """The rows of a proposal that trigger; only they ever leave the device."""
    genes, on_cpu = proposal.genes, rows.cpu().numpy()
    kept, classes = keep(probabilities[rows])
    return TriggerTable.of(
        pictures.cpu().numpy(),
        kept,
        classes=classes,
        divergence=divergence[rows].cpu().numpy(),
        generation=np.full(len(rows), proposal.generation, dtype=np.int64),
        query=first_query + on_cpu.astype(np.int64),
        genes=None if genes is None else genes[rows.to(genes.device)].cpu().numpy(),
        seeds=None if origins is None else origins.seeds,
        recipes=None if origins is None else np.array(origins.recipes, dtype=np.bytes_),
    )


def _on_arrays(function: Callable[[torch.Tensor], NDArray[Any]]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function that gives an array, as one that gives a tensor."""
    return lambda images: torch.from_numpy(function(images))
