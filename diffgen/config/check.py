"""The gate: one check and its limits."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated, Any

from pydantic import BeforeValidator

from diffgen.config.budget import Budget
from diffgen.config.compare import CompareConfig
from diffgen.config.schema import Maybe, setting, settings

# What no sane candidate meets, whatever it was made for; a check fails when the 95 % interval lies above it as a whole.
# Chosen from benchmarks/results/alarms.md; those that no limit can be set on stand in diffgen/gate/conditions.py.
GROSS_ACCURACY_DROP = 0.01
GROSS_CLASS_ACCURACY_DROP = 0.1  # of the worst class
GROSS_DISAGREEMENT = 0.01  # share of the real images without labels that the base is sure of
GROSS_REGRESSION_FAULTS = 0.1  # share of the labelled real images
GROSS_BOXES = 0.01  # share of the boxes that a detector reports where nobody knows what is there
GROSS_MAPS = 0.05  # share of the pixels of maps, or of the classes of pictures
GROSS_BOX_SHIFT = 0.01  # of a box's side: where all boxes lie beside those of the base
GROSS_VARIATION_FAULTS = 0.15  # share of the random variations that the base gets right and the candidate wrong


_BARE_ONE = "is 1, which may stand for 1% or for everything; write 1% or 100%."


def _share_of_text(value: object) -> object:
    """``0.5%`` or ``0.005`` as a number; what is no text is left alone.

    A bare 1 is refused, as text and as a whole number: everything is what it would allow, and who writes it beside
    percentages means one of a hundred.
    """
    if type(value) is int and value == 1:
        raise ValueError(_BARE_ONE)
    if not isinstance(value, str) or value in ("none", "auto"):
        return value
    number, percent, rest = value.strip().partition("%")
    try:
        # of decimal digits: 0.7 / 100 of floats is less than 0.007, so that 7 of 1,000 would break a limit of 0.7 %
        share = float(Decimal(number) / (100 if percent else 1))
    except InvalidOperation:
        share = -1.0
    if share == 1 and not percent:
        raise ValueError(_BARE_ONE)
    if rest or not 0 <= share <= 1:
        raise ValueError(f"is {value!r}, not a fraction between 0 and 1; write 0.5% or 0.005.")
    return share


Share = Annotated[Maybe[float], BeforeValidator(_share_of_text)]
_SHARE: dict[str, Any] = {"ge": 0, "le": 1}


@settings("limits")
class Limits:
    """What ``diffgen check`` allows.

    None: the value is measured and reported, and nothing depends on it, but for the accuracy drop, that of the worst
    class, the regression faults and the faults on variations, which fail then where they are shown to be gross: with
    the lower end of the 95 % interval above ``GROSS_ACCURACY_DROP``, ``GROSS_CLASS_ACCURACY_DROP``,
    ``GROSS_REGRESSION_FAULTS`` or ``GROSS_VARIATION_FAULTS``. Without labels so do other labels on the images that the
    base is sure of: above ``GROSS_DISAGREEMENT`` of them, or above ``GROSS_CLASS_ACCURACY_DROP`` of those of one class.
    A limit of one's own takes the place of the default. Of many classes with few images each, some always look worse,
    so that also a limit of one's own on the worst class fails only with the whole interval above it, which is corrected
    for the number of classes.

    Raises:
        SettingError: a value that cannot be.
    """

    max_disagreement: Share = setting(
        None,
        "Largest share of images with different labels, on the real images and on random valid pictures (default "
        f"without labels: fails if it is shown to be above {GROSS_DISAGREEMENT:.0%} of the real images that the base "
        "is sure of).",
        option="--max-disagreement",
        metavar="0.5%|0.005",
        common=True,
        brief="Largest share of images with different labels.",
        **_SHARE,
    )
    max_accuracy_drop: Share = setting(
        None,
        "By how much the accuracy on the labelled real images may fall (default: fails if it is shown to be above "
        f"{GROSS_ACCURACY_DROP:.0%}).",
        option="--max-accuracy-drop",
        metavar="0.2%",
        common=True,
        brief="By how much the accuracy on real images may fall.",
        **_SHARE,
    )
    max_new_behaviours: Maybe[int] = setting(
        None,
        "Maximum number of behaviours that the search finds and the store does not know.",
        option="--max-new-behaviours",
        metavar="N|none",
        common=True,
        brief="Largest number of behaviours that the store does not know.",
        ge=0,
    )
    max_regression_faults: Maybe[int] = setting(
        None,
        "Maximum number of labelled real images on which the base is right and the candidate wrong (default: fails "
        f"if they are shown to be above {GROSS_REGRESSION_FAULTS:.0%} of them).",
        option="--max-regression-faults",
        metavar="N",
        common=True,
        brief="Largest number of real images that the base alone gets right.",
        ge=0,
    )
    max_new_faults: Maybe[int] = setting(
        None,
        "Maximum number of behaviours that the store does not know in which, as the jury says, the candidate is wrong "
        "and the base right.",
        option="--max-new-faults",
        metavar="N|none",
        common=True,
        brief="Largest number of new behaviours that the base alone gets right.",
        ge=0,
    )
    max_variation_faults: Share = setting(
        None,
        "Largest share of random variations of the real images (turned, moved, ...) that the base gets right and the "
        f"candidate wrong (default: fails if it is shown to be above {GROSS_VARIATION_FAULTS:.0%}).",
        option="--max-variation-faults",
        metavar="1%",
        **_SHARE,
    )
    max_shift: Share = setting(
        None,
        "Largest change of any class's probability, on any real image or random valid picture.",
        option="--max-shift",
        metavar="X",
        **_SHARE,
    )
    max_class_accuracy_drop: Share = setting(
        None,
        "By how much the accuracy of the worst class may fall; fails if it is shown to be above the limit, corrected "
        f"for the number of classes (default: {GROSS_CLASS_ACCURACY_DROP:.0%}).",
        option="--max-class-accuracy-drop",
        metavar="5%",
        **_SHARE,
    )
    max_lost: Share = setting(
        None,
        "Detection: largest share of the base's boxes on real images that the candidate loses (default: fails if it is "
        f"shown to be above {GROSS_BOXES:.0%}, or {GROSS_REGRESSION_FAULTS:.0%} where boxes are known).",
        option="--max-lost",
        metavar="1%",
        **_SHARE,
    )
    max_renamed: Share = setting(
        None,
        "Detection: largest share of them to which the candidate gives another class (default as of lost ones).",
        option="--max-renamed",
        metavar="1%",
        **_SHARE,
    )
    max_map_drop: Share = setting(
        None,
        "Detection: by how much the mean average precision (IoU 0.5 to 0.95) on real images with known boxes may fall "
        f"(default: fails if it is shown to be above {GROSS_ACCURACY_DROP:.0%}).",
        option="--max-map-drop",
        metavar="1%",
        **_SHARE,
    )
    max_pixels_changed: Share = setting(
        None,
        "Segmentation: largest share of the pixels of real images to which the candidate gives another class (default: "
        f"fails if it is shown to be above {GROSS_MAPS:.0%}).",
        option="--max-pixels-changed",
        metavar="1%",
        **_SHARE,
    )
    max_classes_lost: Share = setting(
        None,
        "Segmentation: largest share of the classes in real images that the candidate loses (default as of pixels).",
        option="--max-classes-lost",
        metavar="1%",
        **_SHARE,
    )
    max_iou_drop: Share = setting(
        None,
        "Segmentation: by how much the mean IoU with known masks on real images may fall (default: fails if it "
        f"is shown to be above {GROSS_ACCURACY_DROP:.0%}).",
        option="--max-miou-drop",
        metavar="1%",
        **_SHARE,
    )


@settings()
class CheckConfig:
    """Everything that ``diffgen check`` needs besides the models and the data.

    A picture is known when the store has one with the same two labels that is near enough (``reach``). The search's
    budget is in queries, so that a check is repeatable; fewer where images are larger than 64 pixels a side.

    Raises:
        SettingError: a value that cannot be.
    """

    limits: Limits = setting(factory=Limits)
    random_images: int = setting(
        2000,
        "Random valid pictures that both models are asked about, besides the search's budget.",
        option="--random-images",
        metavar="N",
        ge=1,
    )
    variations: int = setting(
        2000,
        "Random variations of real images that both models are asked about, one of each image at most; 0 for none.",
        option="--variations",
        metavar="N",
        ge=0,
    )
    pictures: int = setting(4, "Maximum number of pictures of one behaviour that the store keeps.", ge=1)
    reach: float = setting(
        1.25,
        "A picture is known when one in the store is no further away, in the domain encoder's feature space, than this "
        "many times the median distance of a real image to its cell.",
        gt=0,
    )
    compare: CompareConfig = setting(factory=lambda: CompareConfig(budget=Budget(queries=20_000, large=2_000)))
