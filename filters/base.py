"""What a validity filter is, what it is made with, and all of them by name."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch

from diffgen.config.schema import setting
from diffgen.errors import UserError
from diffgen.features.jury import Recogniser
from diffgen.features.vae import Vae
from diffgen.parts import NOTHING, Needs, Part, Registry
from diffgen.types import BoolArray, Scorer

F = TypeVar("F", bound="Filter")


@dataclass(frozen=True)
class FilterContext:
    """What filters are made with.

    Attributes:
        tables: their settings; see :meth:`diffgen.parts.Part.settings_among`.
        batch_size: images scored at once.
        device: where to compute.
        auto_encoder: gives that of the real images, trained where it is not there yet.
        scorer: the discriminator, or None: there is none.
        recogniser: the jury, or None: there is none.
        answers: uint8 (N, C, H, W) and bool (N,), pictures and whether people took them for valid; None: nobody was
            asked.
        others: makes diffgen's own filters whose needs are met, but for those that need answers.
    """

    tables: Mapping[str, Mapping[str, Any]]
    batch_size: int
    device: torch.device
    auto_encoder: Callable[[torch.Tensor], Vae]
    scorer: Scorer | None = None
    recogniser: Recogniser | None = None
    answers: tuple[torch.Tensor, BoolArray] | None = None
    others: Callable[[], list[Filter]] = list

    def threshold(self, kind: type[Filter]) -> float:
        """The threshold that the settings give a filter, or NaN: it is to be found."""
        given = kind.settings_among(self.tables).threshold
        return math.nan if given is None else float(given)

    def has(self) -> Needs:
        """What is there of what filters may need."""
        there: dict[Any, object] = {
            "discriminator": self.scorer,
            "jury": self.recogniser,
            "answers": self.answers,
            "auto_encoder": self.auto_encoder,
        }
        return frozenset(need for need, thing in there.items() if thing is not None)


class Filter(Part, ABC):
    """Tells real pictures from others by a score.

    Attributes:
        name: one word, as in settings, reports and files.
        description: one sentence that says what is scored and against which real images; complete after ``fit``.
        threshold: lowest score that passes. NaN until the pipeline has found it on held-out real images
            (:mod:`diffgen.filters.calibration`); a filter that is made with a number keeps that.
        needs: what must be there for it: "discriminator", "jury", "auto_encoder" of the real images, or "answers" of
            people.
        any_size: it can be asked about pictures that were drawn smaller than the real images, and says about the same.
    """

    kind = "filter"
    needs: ClassVar[Needs] = NOTHING
    any_size: bool = False
    description: str
    threshold: float = math.nan

    @classmethod
    def make(cls: type[F], context: FilterContext) -> F:
        """One with the settings and what else the context has; what it needs is there."""
        return cls()

    @abstractmethod
    def fit(self, real: torch.Tensor) -> None:
        """Take in the real images to compare with, uint8 (N, C, H, W); never those that thresholds are found on."""

    @abstractmethod
    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        """float32 (N,), on the CPU, for uint8 (N, C, H, W), N at least 1; higher is more real.

        The score of an image depends on no other image that is scored with it. Where it is at least ``enough``, any
        number from ``enough`` up to the score may be given instead, if that is found sooner.
        """


def threshold_setting(what: str, **bounds: Any) -> Any:
    """The setting ``threshold`` of a filter, named by what it is the lowest of."""
    return setting(None, f"Lowest {what} that passes (default: found).", **bounds)


FILTERS: Registry[Filter] = Registry(Filter)  # type: ignore[type-abstract]


def filters_named(names: Sequence[str]) -> dict[str, Filter | type[Filter]]:
    """The filters of these names: classes that make one, and objects that are one.

    Raises:
        UserError: there is none of that name, it was not given or cannot be imported, or it has the name of another.
    """
    parts: dict[str, Filter | type[Filter]] = {}
    for name in names:
        part = FILTERS.find(name)
        if not (isinstance(part, Filter) or (inspect.isclass(part) and issubclass(part, Filter))):
            raise UserError(
                f"The filter {name} is neither a class derived from diffgen.Filter nor an object of one; derive it "
                "from that class."
            )
        parts[name] = part
    called = [each.name for each in parts.values()]
    for name, part in parts.items():
        # scores and counts are kept by these names
        own = part.name in FILTERS.own() and name != part.name
        if own or called.count(part.name) > 1:
            whose = "one of diffgen's own" if own else "another one"
            raise UserError(f"The filter {name} is called {part.name!r}, and so is {whose}; call it otherwise.")
    return parts
