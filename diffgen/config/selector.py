"""The selector."""

from __future__ import annotations

from typing import Literal

from diffgen.config.schema import FileName, Maybe, setting, settings


@settings("selector")
class SelectorConfig:
    """The selector: a random forest that tells from a picture which of two models is right (paper, section 5.4)."""

    features: Literal["auto", "domain", "vgg16", "pixels"] = setting(
        "auto",
        "What the forest looks at: VGG16 as published, an encoder of this data (domain), or pixels; auto: VGG16 where "
        "its weights are, else domain.",
        option="--features",
    )
    features_weights: FileName = setting(
        None,
        "File with torchvision's weights of VGG16 (default: those that torchvision finds or downloads).",
        option="--features-weights",
        metavar="FILE",
    )
    trees: int = setting(300, "Trees of the forest.", option="--trees", metavar="N", ge=1)
    balanced: bool = setting(True, "Weigh the examples of A and of B so that both count the same.")
    both_wrong: bool = setting(
        False,
        "Keep pictures on which both models are wrong, as a third kind; the paper leaves them out.",
        option="--both-wrong",
    )
    limit: int = setting(
        3000,
        "Maximum number of triggers to learn from; if more are labelled, a random sample of that size is used.",
        option="--limit",
        metavar="N",
        ge=20,
    )
    folds: int = setting(5, "Parts of the cross-validation.", ge=2)
    source: Maybe[Literal["human", "oracle", "intended", "jury"]] = setting(
        None,
        "Labels to use: those of people, of reference models, the classes that a generator was asked for, or what the "
        "jury says of the pictures that it recognises (default: the best there is for each picture, without the jury).",
        option="--labels",
    )
    seed: int = setting(0, "Seed of forest, encoder and folds.", option="--seed", metavar="N", ge=0)
