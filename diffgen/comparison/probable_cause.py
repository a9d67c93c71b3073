"""The probable cause of a run: looked for where two models should be the same, and kept in the run folder."""

from __future__ import annotations

import numpy as np

from diffgen.causes import Explanation, explain_models
from diffgen.causes.explanation import Shown
from diffgen.causes.finding import SAMPLE
from diffgen.causes.measures import distances
from diffgen.causes.wording import options_of, verdict
from diffgen.comparison.plan import Learned
from diffgen.models.panel import panel_of
from diffgen.runs.folder import RunFolder
from diffgen.sampling import random_rows

_NAME = "cause"
_QUERIES = 1200  # beside those of the search
_FLIPS, _APART = 30.0, 0.06  # of 1,000 real images; mean distance of the answers: what 8 bits move is less
_FEWEST = 60  # real images
_SECONDS = 20.0  # that looking may take, by the time that an image takes


def name_cause(run: Learned, folder: RunFolder) -> None:
    """Look for the fault of a pipeline that makes two models differ, and keep what was found.

    It is looked for where the answers to real images suggest one, and in a check, whose models should be the same,
    where these differ by more than 8 bits make. A model of a server is not asked: that costs who pays for it.
    """
    models, real = run.models, run.real
    tables = any(model.is_table for model in models)
    if folder.has_arrays(_NAME) or len(models) != 2 or tables or panel_of(models) is not None:
        return
    apart = float(distances(real.answers.probabilities[:, 0], real.answers.probabilities[:, 1]).mean())
    same = "check" in folder.manifest and (real.summary.flips_per_1000 >= _FLIPS or apart >= _APART)
    if not (same or real.doubts):
        return
    times = [each for each in real.milliseconds or () if each is not None]
    if len(times) < 2 or len(run.images) < _FEWEST:
        return
    if sum(times) / 2 * _QUERIES > 1000 * _SECONDS:
        run.progress.say(
            f"The models are slow, so why they differ was not looked for; 'diffgen explain {folder.path}' does so."
        )
        return
    rows = random_rows(len(run.images), SAMPLE)
    a, b = models
    explanation = explain_models(a, b, run.images.images[rows], run.progress, queries=_QUERIES)
    if explanation.tried:
        keep_explanation(folder, explanation)
        run.progress.say(cause_of(folder))


def keep_explanation(folder: RunFolder, explanation: Explanation) -> None:
    """Write into a run folder why its two models differ, in place of what was said before."""
    mend, empty = explanation.mend, np.zeros((0, 1, 1, 1), dtype=np.uint8)
    shown = explanation.shown or Shown("A", empty, empty, np.zeros((0, 3), dtype=np.int64))
    folder.write_arrays(
        _NAME,
        {
            "plain": shown.plain,
            "changed": shown.changed,
            "said": shown.said,
            "about": {
                "verdict": verdict(explanation),
                "role": shown.role,
                "named": bool(explanation.found),
                "options": "" if mend is None else options_of(explanation.found[-1].role, mend),
                "advice": [each.advice for each in explanation.found],
            },
        },
    )


def cause_of(folder: RunFolder) -> str:
    """Why the models of a run differ, in a line, or nothing: nobody looked."""
    if not folder.has_arrays(_NAME):
        return ""
    about = folder.read_arrays(_NAME)["about"]
    return f"{about['verdict']} Options: {about['options']}" if about["options"] else str(about["verdict"])
