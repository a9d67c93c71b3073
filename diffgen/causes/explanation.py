"""What an explanation consists of."""

from __future__ import annotations

from dataclasses import dataclass, field

from diffgen.config import Preprocessing
from diffgen.types import Int64Array, UInt8Array


@dataclass(frozen=True)
class Found:
    """A cause, and how sure it is.

    Attributes:
        cause: its name in few words.
        sentence: what is wrong in which model.
        role: "A" or "B", the model whose pipeline has the fault as far as answers can tell.
        low, share, high: of the difference that goes where this and the causes before it are imitated, -1..1, between
            the ends of an interval that holds at 95 % for all that was tested.
        labels: how many pictures of the tested half got different labels before and after.
        tested: pictures that this rests on; they had no part in choosing the cause.
        advice: what to do in that pipeline.
    """

    cause: str
    sentence: str
    role: str
    low: float
    share: float
    high: float
    labels: tuple[int, int]
    tested: int
    advice: str


@dataclass(frozen=True, eq=False)
class Shown:
    """Pictures on which a cause shows.

    Attributes:
        role: "A" or "B", the model in which the fault was imitated.
        plain: uint8 (n, C, H, W), as this model sees them.
        changed: the same pictures with the fault imitated, as the other model sees them.
        said: int64 (n, 3), what this model says, what the other one says, and what this one says of ``changed``.
    """

    role: str
    plain: UInt8Array
    changed: UInt8Array
    said: Int64Array


@dataclass(frozen=True)
class Explanation:
    """What was found out about two models.

    Attributes:
        images: that both were asked about.
        differing: on how many of them they say different labels.
        distance: mean distance of their answers, 0..1 (total variation).
        found: the causes, the one that explains most first; none: no pipeline fault was found.
        most: where none is found, upper bound of what the best of those that were tried explains.
        tried: changes.
        queries: images that the models were asked about, together.
        cut_short: the queries that were allowed did not suffice.
        shown: pictures on which the causes show, or None.
        furthest: int64, rows of the images that both were asked about, those first on which they are furthest apart.
        mend: what to change in the pre-processing of the model that is named so that diffgen feeds it rightly (None in
            it: as it is), or None: it happens in its own pipeline.
    """

    images: int
    differing: int
    distance: float
    found: tuple[Found, ...] = ()
    most: float = 0.0
    tried: int = 0
    queries: int = 0
    cut_short: bool = False
    shown: Shown | None = field(default=None, compare=False)
    furthest: Int64Array | None = field(default=None, compare=False, repr=False)
    mend: Preprocessing | None = None
