"""The figures of a run that only three models or more have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from diffgen.runs.triggers import TriggerTable
from diffgen.tasks.classification import role_name
from diffgen.tasks.many import NO_MAJORITY, majority, pairwise, stands_alone
from diffgen.types import Int64Array


@dataclass(frozen=True)
class Alone:
    """The distinct valid triggers on which one model says something else than all others, who agree.

    Attributes:
        pictures: how many.
        behaviours: of these.
        wrong: of those that the jury recognises, where it says what the others say.
        right: where it says what this model says.
    """

    pictures: int
    behaviours: int
    wrong: int
    right: int


@dataclass(frozen=True, kw_only=True)
class ManyFigures:
    """Who stands alone, what the majority is worth as a second opinion, and which two models differ most.

    Attributes:
        alone: of each model, by its letter.
        majority: distinct valid triggers of which more than half of the models say the same.
        majority_recognised: those of them that the jury recognises.
        majority_right: those of these where the jury says what the majority says.
        found: (M, M), on how many distinct valid triggers each two models differ.
        recognised: the same among those that the jury recognises, or None: there is no jury.
        real: the same among the real images on which any two models disagree by more than the margin.
        spared: how many times a model was not asked about a picture that two others were asked about.
    """

    alone: Mapping[str, Alone]
    majority: int
    majority_recognised: int
    majority_right: int
    found: tuple[tuple[int, ...], ...]
    recognised: tuple[tuple[int, ...], ...] | None
    real: tuple[tuple[int, ...], ...]
    spared: int = 0

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> ManyFigures:
        """What results.json says under "many".

        Raises:
            KeyError, TypeError, ValueError: it cannot be.
        """
        values = {each.name: entry[each.name] for each in fields(cls) if each.name != "spared"}
        values["spared"] = entry.get("spared", 0)
        values["alone"] = {role: Alone(**of) for role, of in values["alone"].items()}
        for name in ("found", "recognised", "real"):
            values[name] = None if values[name] is None else tuple(map(tuple, values[name]))
        return cls(**values)

    def as_json(self) -> dict[str, Any]:
        """JSON values, as :meth:`read` takes them."""
        return asdict(self)


def many_figures(triggers: TriggerTable, real_labels: Int64Array, spared: int = 0) -> ManyFigures:
    """Count among the judged triggers of three models or more.

    Args:
        triggers: of a run, with verdicts.
        real_labels: int64 (N, M), what the models say of the real images on which they disagree.
        spared: see :class:`ManyFigures`.
    """
    found, sure = triggers[triggers.distinct], triggers[triggers.recognised_distinct]
    named = sure.labels[:, 0] if sure.known.named is None else sure.known.named
    alone, alone_sure, most = stands_alone(found.labels), stands_alone(sure.labels), majority(sure.labels)
    return ManyFigures(
        alone={
            role_name(index): Alone(
                pictures=int(alone[:, index].sum()),
                behaviours=len(np.unique(found.behaviours[alone[:, index]], axis=0)),
                wrong=int((alone_sure[:, index] & (most == named)).sum()),
                right=int((alone_sure[:, index] & (sure.labels[:, index] == named)).sum()),
            )
            for index in range(found.labels.shape[1])
        },
        majority=int((majority(found.labels) != NO_MAJORITY).sum()),
        majority_recognised=int((most != NO_MAJORITY).sum()),
        majority_right=int(((most != NO_MAJORITY) & (most == named)).sum()),
        found=_table(found.labels),
        recognised=_table(sure.labels) if triggers.has_jury else None,
        real=_table(real_labels),
        spared=spared,
    )


def _table(labels: Int64Array) -> tuple[tuple[int, ...], ...]:
    return tuple(map(tuple, pairwise(labels).tolist()))
