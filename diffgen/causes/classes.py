"""Classes: the same classes in another order, or one place further for a background."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from diffgen.causes.base import Cause, Change, Seen, Stage
from diffgen.types import Int64Array

_IMAGES_OF_EACH = 2
_COUNTS, _ORDERED = "counts every class one place", "has its classes in the order"


class Classes(Cause):
    name = "classes"

    def changes(self, seen: Seen) -> Iterator[Change]:
        classes = seen.own.shape[1]
        plain = np.arange(classes)
        # the opposite order first: of two classes all of these are the same
        orders: list[tuple[str, str, Int64Array]] = [
            ("reversed", "has its classes in the opposite order", plain[::-1]),
            ("one place further", f"{_COUNTS} further, as with a background in front", np.roll(plain, 1)),
            ("one place less", f"{_COUNTS} less, as without the background in front", np.roll(plain, -1)),
            (
                "sorted as text",
                f"{_ORDERED} of their numbers as text (0, 1, 10, 11, ...)",
                np.array(sorted(plain, key=str)),
            ),
        ]
        if seen.class_names:
            named = np.argsort(np.array(seen.class_names), kind="stable")
            orders.append(("sorted by name", "has its classes sorted by name", named))
        if classes * _IMAGES_OF_EACH <= len(seen.own):  # with fewer images than that, noise fits better than any order
            # of all orders the one in which the two models' answers fit best; it is judged on other images
            seen_together = seen.own.astype(np.float64).T @ seen.other.astype(np.float64)
            _, place = linear_sum_assignment(-seen_together - 1e-9 * np.eye(classes))
            orders.append(("another order", "has its classes in another order", np.argsort(place)))
        for name, says, order in orders:
            # column i of the changed answers is what the faulty side calls its class i
            rows = torch.as_tensor(np.ascontiguousarray(order))
            yield Change(
                f"order of classes: {name}",
                says,
                Stage.ANSWERS,
                lambda answers, rows=rows: answers[:, rows],  # type: ignore[misc]
                "put the classes into the order of the other model (--label-map maps one onto the other)",
                share=0.3,
            )
