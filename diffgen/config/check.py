"""The gate: one check and its limits."""

from __future__ import annotations

from dataclasses import dataclass, field

from diffgen.config.budget import Budget
from diffgen.config.compare import CompareConfig
from diffgen.errors import UserError

# What no sane candidate meets, whatever it was made for; a check fails when the 95 % interval lies above it as a whole.
# Chosen from benchmarks/results/alarms.md.
GROSS_ACCURACY_DROP = 0.01
GROSS_CLASS_ACCURACY_DROP = 0.1  # of the worst class
GROSS_REGRESSION_FAULTS = 0.1  # share of the labelled real images
GROSS_UNDECIDED = 0.02  # share of the real images that the candidate ties on, and the base does not


@dataclass(frozen=True)
class Limits:
    """What ``diffgen check`` allows.

    None: the value is measured and reported, and nothing depends on it, but for the accuracy drop, that of the worst
    class and the regression faults, which fail then where they are shown to be gross: with the lower end of the 95 %
    interval above ``GROSS_ACCURACY_DROP``, ``GROSS_CLASS_ACCURACY_DROP`` or ``GROSS_REGRESSION_FAULTS``. A limit of
    one's own takes the place of the default.

    Attributes:
        max_disagreement: largest share of images with different labels, 0..1, on the real images and on random valid
            generated ones.
        max_accuracy_drop: by how much the accuracy on the labelled real images may fall, 0..1.
        max_new_behaviours: most behaviours that the search finds and the store does not know.
        max_regression_faults: most labelled real images on which the base is right and the candidate wrong.
        max_shift: largest change of any class's probability, 0..1, on any real or random valid generated image.
        max_class_accuracy_drop: by how much the accuracy on the labelled real images of any one class may fall, 0..1.
            Of many classes with few images each, some always look worse, so that also a limit of one's own fails only
            with the whole interval above it, which is corrected for the number of classes.

    Raises:
        UserError: a value that cannot be.
    """

    max_disagreement: float | None = None
    max_accuracy_drop: float | None = None
    max_new_behaviours: int | None = None
    max_regression_faults: int | None = None
    max_shift: float | None = None
    max_class_accuracy_drop: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_disagreement", "max_accuracy_drop", "max_shift", "max_class_accuracy_drop"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise UserError(f"The limit {name} is {value}; give a share from 0 to 1, such as 0.005.")
        for name in ("max_new_behaviours", "max_regression_faults"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UserError(f"The limit {name} is {value}; give a number from 0.")


@dataclass(frozen=True)
class CheckConfig:
    """Everything that ``diffgen check`` needs besides the models and the data.

    Attributes:
        limits: what is allowed.
        random_images: random valid generated images that both models are asked about, besides the search's budget.
        pictures: most pictures of one behaviour that the store keeps.
        reach: a picture is known when the store has one with the same two labels that is no further away in the
            domain encoder's feature space than ``reach`` times the median distance of a real image to its cell.
        compare: the search and everything else; the budget is in queries, so that a check is repeatable.

    Raises:
        UserError: a value that cannot be.
    """

    limits: Limits = field(default_factory=Limits)
    random_images: int = 2000
    pictures: int = 4
    reach: float = 1.25
    compare: CompareConfig = field(default_factory=lambda: CompareConfig(budget=Budget(queries=20_000)))

    def __post_init__(self) -> None:
        for name in ("random_images", "pictures"):
            if getattr(self, name) < 1:
                raise UserError(f"The setting {name} is {getattr(self, name)}; give a number from 1.")
        if not self.reach > 0:
            raise UserError(f"The setting reach is {self.reach}; give a number above 0, such as 1.25.")
