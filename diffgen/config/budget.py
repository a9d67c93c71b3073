"""When a search ends."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from decimal import Decimal

from diffgen.errors import UserError

SMALL = 3 * 64 * 64  # values of an image; each of 224 pixels can take a model a tenth of a second
_BUDGET_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """How long a search may go on. The first limit that is reached ends it.

    Attributes:
        seconds: wall-clock seconds of searching, or None. What the search itself asks the filters is counted; the
            training of the GAN, and the filtering and asking again after the search, are not.
        queries: images shown to the models; one query asks every model once. Or None.
        large: queries where images are large, of a budget that nobody has said; None: as many.
    """

    seconds: float | None = None
    queries: int | None = None
    large: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.queries is None:
            raise UserError("The budget is empty; give seconds (60s) or queries (20000q).")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise UserError(
                f"The budget of {self.seconds} seconds is not a positive time; write for example 60s or 5m."
            )
        if self.queries is not None and self.queries < 1:
            raise UserError(f"The budget of {self.queries} queries is not positive; write for example 20000q.")

    @classmethod
    def parse(cls, text: str | Budget) -> Budget:
        """Read ``60s``, ``5m``, ``1h``, ``20000q``, or two of them joined by a comma.

        Raises:
            UserError: the text is not such a budget.
        """
        if isinstance(text, Budget):
            return text
        seconds: float | None = None
        queries: int | None = None
        for part in str(text).replace("_", "").split(","):
            match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhq])\s*", part)
            if match is None:
                raise UserError(
                    f"The budget {text!r} is not understood; write seconds, minutes or hours (60s, 5m, 1h), "
                    "queries (20000q), or both (60s,20000q)."
                )
            number, unit = Decimal(match[1]), match[2]
            if (queries if unit == "q" else seconds) is not None:
                raise UserError(f"The budget {text!r} gives two limits of one kind; leave one of them out.")
            if unit == "q":
                if number != number.to_integral_value():
                    raise UserError(
                        f"The budget {text!r} has a fraction of a query; write a whole number such as 20000q."
                    )
                queries = int(number)
            else:
                seconds = float(number) * _BUDGET_UNITS[unit]
        return cls(seconds=seconds, queries=queries)

    def of(self, image_shape: tuple[int, int, int]) -> Budget:
        """For images of (C, H, W), of which models answer fewer in a second the larger they are."""
        if self.large is None:
            return self
        return replace(self, queries=self.large if math.prod(image_shape) > SMALL else self.queries, large=None)

    def __str__(self) -> str:
        parts = []
        if self.seconds is not None:
            # every digit, and no exponent, which parse() does not read
            parts.append(f"{Decimal(repr(self.seconds)).normalize():f}s")
        if self.queries is not None:
            parts.append(f"{self.queries}q")
        return ",".join(parts)
