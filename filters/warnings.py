"""Warns of filters that reject almost nothing or almost everything on the data at hand."""

from __future__ import annotations

import numpy as np

from diffgen.filters.calibration import Calibration
from diffgen.filters.pipeline import FilterVerdicts
from diffgen.wording import percent

_MAX_REAL = 0.2  # share of real images whose rejection makes a given threshold unfit
_NEARLY_ALL = 0.98
_MIN_TRIGGERS = 50  # triggers from which on a share says something


def filter_warnings(
    verdicts: FilterVerdicts, calibration: Calibration, *, asked_in_search: bool = False
) -> tuple[str, ...]:
    """One sentence for each filter that gives NaN, or rejects nothing or nearly everything, of triggers or real images.

    Args:
        asked_in_search: the search avoided what the filters reject, so that rejecting nothing is no fault.
    """
    found = []
    for index, name in enumerate(verdicts.names):
        strange = int((np.isnan(verdicts.scores[:, index]) & (verdicts.rejected_by == index)).sum())
        if strange:
            found.append(
                f"The filter {name} gave NaN for {strange:,} of the {len(verdicts.scores):,} triggers, which count as "
                "rejected; its score() must give a number for each image."
            )
        real = float(calibration.alone[index])
        asked = int((~np.isnan(verdicts.scores[:, index])).sum())
        rejected = int((verdicts.rejected_by == index).sum())
        if calibration.given[index] and real > _MAX_REAL:
            found.append(
                f"The filter {name} rejects {percent(real, 0)} of held-out real images with the threshold "
                f"{calibration.thresholds[index]:.4g}; it does not fit this data. Leave the threshold out to have it "
                "calibrated."
            )
        if asked >= _MIN_TRIGGERS and rejected == 0 and not asked_in_search:
            found.append(
                f"The filter {name} rejected none of the {asked:,} triggers that it was asked about; it may be blind "
                "to what is wrong with them."
            )
        elif asked >= _MIN_TRIGGERS and rejected >= _NEARLY_ALL * asked:
            found.append(
                f"The filter {name} rejected {rejected:,} of the {asked:,} triggers that it was asked about, nearly "
                "everything; look at the rejected pictures before you trust it."
            )
    return tuple(found)
