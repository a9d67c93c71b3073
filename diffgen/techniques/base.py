"""The base class of techniques, what each is given, and what it says it needs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from diffgen.config import CompareConfig, FilterConfig, SearchConfig, replace
from diffgen.features.encoder import DomainEncoder
from diffgen.parts import NOTHING, Needs, Part
from diffgen.search.archive import Archive
from diffgen.search.memory import BatchHalver
from diffgen.search.proposal import Answers, Proposal
from diffgen.search.screen import Accepts
from diffgen.sources.base import EncodingSource, Source
from diffgen.tasks.classification import differ
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import Float32Array, Int64Array, Scorer, UInt8Array

Checkpoint = dict[str, Any]


@dataclass(frozen=True)
class Preset:
    """Settings of a technique under a name.

    Attributes:
        search: the settings of the search.
        source: name of the family of sources that it draws from, unless another one is named; see ``--source``.
        gan: settings of the GAN that is trained where it draws from one, other than the usual ones.
        filters: the validity filters, unless others are named.
        select: whether a selector is trained on what the search found.
    """

    search: SearchConfig = field(default_factory=SearchConfig)
    source: str = "seeds"
    gan: Mapping[str, Any] = field(default_factory=dict)
    filters: FilterConfig = field(default_factory=FilterConfig)
    select: bool = False

    def under(self, config: CompareConfig, said: Mapping[str, Any]) -> CompareConfig:
        """Settings with what this preset brings, to put others over.

        Args:
            config: its filters go before those of the preset where it has any of its own.
            said: what will be put over, as tables; filters that these name leave no threshold of the preset behind.
        """
        named = config.filters != FilterConfig() or "names" in said.get("filters", {})
        return replace(
            config,
            search=self.search,
            gan=replace(config.gan, **self.gan),
            filters=config.filters if named else self.filters,
            select=config.select or self.select,
        )


@dataclass(frozen=True)
class RealImages:
    """The given images and what the models said of them before the search.

    Attributes:
        images: uint8 (N, C, H, W).
        labels: int64 (N,), or None.
        answers: of the M models.
    """

    images: UInt8Array
    labels: Int64Array | None
    answers: KeptAnswers

    @property
    def probabilities(self) -> Float32Array:
        """float32 (N, M, K): the answers, of all classes; see :meth:`diffgen.tasks.kept_answers.KeptAnswers.dense`."""
        return self.answers.dense()

    def all_right(self) -> Int64Array:
        """int64 (n,), ascending: rows that every model gives their label; none where there are no labels."""
        if self.labels is None:
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero((self.answers.labels == self.labels[:, None]).all(axis=1))

    def all_alike(self) -> Int64Array:
        """int64 (n,), ascending: rows to which every model gives the same label."""
        return np.flatnonzero(~differ(self.answers.labels))


@dataclass(frozen=True)
class TechniqueContext:
    """What a technique works with. The models are not among it: only the search's loop asks them.

    Attributes:
        archive: the triggers found so far, numbered; the loop fills it before the technique is told.
        source: genes -> image; None where the technique needs none.
        config: the settings of the search.
        seed: seed of everything random in the technique.
        device: where tensors live.
        batch_size: images that are asked about at once, while the budget lasts.
        memory: calls a network on a batch, in pieces where memory is too small for all of it.
        has_cells: whether answers tell triggers apart by cells.
        guided: whether the search keeps away from pictures that the validity filters reject; answers say by how much.
        encoder: of the domain, for techniques that compare images by features; None where there is none.
        real: the given images, for techniques that begin with them; None where the technique draws all of its own.
        scorer: the discriminator; None where there is none.
        accepts: which pictures filters and jury would count, for techniques that ask before the models are asked; None:
            they are not asked in the search.
        near_duplicate: correlation of thumbnails from which on two pictures count as one; None: no two do.
    """

    archive: Archive
    source: Source | None
    config: SearchConfig
    seed: int
    device: torch.device
    batch_size: int
    memory: BatchHalver = field(default_factory=BatchHalver)
    has_cells: bool = False
    guided: bool = False
    encoder: DomainEncoder | None = None
    real: RealImages | None = None
    scorer: Scorer | None = None
    accepts: Accepts | None = None
    near_duplicate: float | None = None

    @property
    def side_by_side(self) -> int:
        """How many seeds a technique that goes step by step mutates at once: a quarter of what is asked at once.

        With more of them a budget has fewer steps for each.
        """
        return max(1, self.batch_size // 4)

    def need_source(self) -> Source:
        """The source of images.

        Raises:
            ValueError: there is none.
        """
        if self.source is None:
            raise ValueError("This technique draws its pictures from a source.")
        return self.source

    def need_encoding_source(self) -> EncodingSource:
        """The source of images, which also turns images into genes.

        Raises:
            ValueError: there is none, or it does not.
        """
        source = self.need_source()
        if not isinstance(source, EncodingSource):
            raise ValueError("This technique turns real images into genes of its source.")
        return source

    def need_real(self) -> RealImages:
        """The given images.

        Raises:
            ValueError: there are none.
        """
        if self.real is None:
            raise ValueError("This technique makes its pictures from real images.")
        return self.real


class Technique(Part, ABC):
    """A way to make test inputs. One file each, named after its paper.

    It owns no loop: :class:`diffgen.search.loop.SearchLoop` calls :meth:`propose` and :meth:`learn` in turn. A proposal
    that is never told (the budget ended, the process was killed) is dropped; a search that is resumed restores the
    state that :meth:`checkpoint` gave and proposes it again, drawing the same random numbers.

    Attributes:
        seed_requirement: which of the real images :meth:`seeds` gives, as a part of a sentence.
        settings: an object of its class ``Settings``, or None where it has none.
        presets: by name, "default" among them. A technique that says nothing has this one alone, and draws
            from real images with operators if it draws from a source.
        models: how many models it compares; None: any number.
        asks_filters: it can ask the validity filters about its triggers in the search, where the settings say so.
        asks_known_images: it asks about the given images as they are and about no others.
    """

    kind = "technique"
    seed_requirement: ClassVar[str] = "any real image"
    presets: ClassVar[Mapping[str, Preset]] = {"default": Preset()}
    models: ClassVar[int | None] = None
    asks_filters: ClassVar[bool] = False
    asks_known_images: ClassVar[bool] = False

    def __init__(self, context: TechniqueContext) -> None:
        self.context = context
        self.settings: Any = self.settings_in(context.config)

    @classmethod
    def settings_in(cls, config: SearchConfig) -> Any:
        """Its own settings among all settings of a search.

        Raises:
            UserError: they are not its own.
        """
        return cls.settings_among(config.techniques)

    @classmethod
    def needs(cls, config: SearchConfig) -> Needs:
        """What must be there before it can begin; what nothing needs is not trained.

        "source": it draws its pictures from the genes of a source, which "encoder": turns real images into genes, too;
        "between": draws what lies between the genes of two real images; "operators": changes the real images
        themselves. "discriminator": it asks how real a picture is, in the search. "labels": of the real images.
        """
        return NOTHING

    @classmethod
    def seeds(cls, real: RealImages) -> Int64Array:
        """int64 (n,), ascending: rows of the real images that pictures are made from, where they are."""
        return np.arange(len(real.images))

    def warm_up(self) -> None:
        """Import and compile what the first proposals need, before the clock of the search starts.

        Called once of each object, before its first proposal and before :meth:`restore`; one of a technique of one's
        own is made to be tried out before there is a run. It must not change what is proposed, so it draws no numbers
        from the technique's own generators.
        """

    @abstractmethod
    def propose(self, room: int) -> Proposal:
        """The next images to ask about.

        Args:
            room: most images that the proposal may hold, 1 at least.

        Raises:
            RunError: there is nothing left to propose.
        """

    @abstractmethod
    def learn(self, proposal: Proposal, answers: Answers) -> None:
        """Take in what the models said of the latest proposal, row by row."""

    @property
    def between_generations(self) -> bool:
        """Whether the state can be kept now; False while a generation was proposed and told in part only."""
        return True

    def welcome(self, proposal: Proposal, answers: Answers) -> None:
        """Take in triggers that another worker's search found, between two generations; nobody asks about them again.

        Args:
            proposal: their images and, of a source, their genes.
            answers: what the models said of them.
        """

    @property
    def finished(self) -> bool:
        """Whether everything that there is was asked about: the search then ends before its budget."""
        return False

    def outcomes(self) -> Mapping[str, Any]:
        """Arrays of what the technique itself counts, which a run keeps as outcomes.npz; empty: nothing is kept."""
        return {}

    @classmethod
    def joined_outcomes(cls, parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """The outcomes of a run whose workers counted ``parts``, one at least: all rows, unless a technique sums."""
        return {name: np.concatenate([each[name] for each in parts]) for name in parts[0]}

    @classmethod
    def remark(cls, outcomes: Mapping[str, Any]) -> str:
        """A sentence for the user that the outcomes of a run give reason for; empty: none."""
        return ""

    @abstractmethod
    def checkpoint(self) -> Checkpoint:
        """The state between two generations, as arrays and JSON values."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`checkpoint` gave."""
