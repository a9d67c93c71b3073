"""What figures of the first look would be explained by wrong pre-processing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from diffgen.comparison.smells import doubts


def test_a_difference_of_accuracies_is_in_points() -> None:
    models: Any = [
        SimpleNamespace(name=name, class_names=("0", "1"), class_order=None, preprocessing=name, digest=name)
        for name in ("a.pt", "b.pt")
    ]
    (sentence,) = doubts(models, np.zeros((10, 2), dtype=np.int64), (0.9, 0.5), ())
    assert sentence.startswith("Model B is 40 points less accurate than the other; ")
