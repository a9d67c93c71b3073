"""The selector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from diffgen.errors import UserError


@dataclass(frozen=True)
class SelectorConfig:
    """The selector: a random forest that tells from a picture which of two models is right (paper, section 5.4).

    Attributes:
        features: what the forest sees: "vgg16" as published, "domain" (an encoder of this data), "pixels", or "auto":
            VGG16 where its weights are given or were downloaded before, else "domain".
        features_weights: file with torchvision's weights of VGG16, or None: those that torchvision finds or downloads.
        trees: of the forest.
        balanced: weigh the examples of A and of B so that both count the same.
        both_wrong: keep pictures on which both models are wrong as a third kind; the paper leaves them out.
        limit: most triggers to learn from; if more are labelled, a random sample of that size is used.
        folds: parts of the cross-validation.
        source: labels to use: "human", "oracle", "intended", or None: the best there is for each picture.
        seed: of forest, encoder and folds.
    """

    features: Literal["auto", "domain", "vgg16", "pixels"] = "auto"
    features_weights: str | None = None
    trees: int = 300
    balanced: bool = True
    both_wrong: bool = False
    limit: int = 3000
    folds: int = 5
    source: Literal["human", "oracle", "intended"] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("trees", 1), ("limit", 20), ("folds", 2), ("seed", 0)):
            if getattr(self, name) < low:
                raise UserError(f"The selector's {name} {getattr(self, name)} is too small; give {low} or more.")
