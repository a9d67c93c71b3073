"""The report of one GAN: how its training went, what it draws, how good that is, and how its settings were found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from diffgen.gan_training.scores import objective
from diffgen.report.cards import PictureBudget, display_size
from diffgen.report.charts import Curve, curves_chart, trials_chart
from diffgen.report.html import asset, make_environment, settings_sections
from diffgen.report.wording import clean_text, figure, percent
from diffgen.types import Float32Array, UInt8Array

_THUMBNAIL = 64
_SHEET_BYTES = 900_000
_PAIR_BYTES = 400_000
_PARTS = (
    ("pictures", "Pictures"),
    ("scores", "Scores"),
    ("training", "Training"),
    ("tuning", "Tuning"),
    ("settings", "Settings"),
)
_STATE_WORDS = {"complete": "complete", "pruned": "pruned", "failed": "failed"}


@dataclass(frozen=True)
class SheetRow:
    """Random pictures of one class.

    Attributes:
        name: of the class; empty for a GAN that is not conditional.
        images: uint8 (N, C, H, W).
    """

    name: str
    images: UInt8Array


@dataclass(frozen=True)
class Pair:
    """A generated image, uint8 (C, H, W), and the real one that is nearest to it."""

    generated: UInt8Array
    real: UInt8Array


@dataclass(frozen=True)
class GanReportData:
    """Everything that the page shows.

    Attributes:
        name: file name of the checkpoint.
        wrong: what is wrong with the GAN, one sentence with what to do, or None.
        facts: name -> text.
        losses: float32 (steps, 2), discriminator and generator.
        readings: what the collapse guard saw, as JSON values.
        kept_step: step of the kept weights.
        labelled: whether the images have labels.
        class_names: in label order; empty where only numbers are known.
        sheet: random pictures.
        pairs: generated images beside the nearest real ones.
        scores: as :class:`diffgen.gan_training.scores.GeneratorScores` gives them as JSON values, or None.
        tuning: as in the checkpoint's header, or None.
        settings: of the GAN, name -> value.
    """

    name: str
    version: str
    data_name: str
    wrong: str | None
    facts: dict[str, str]
    losses: Float32Array
    readings: tuple[dict[str, float], ...]
    kept_step: int
    labelled: bool
    class_names: tuple[str, ...]
    sheet: tuple[SheetRow, ...]
    pairs: tuple[Pair, ...]
    scores: dict[str, Any] | None
    tuning: dict[str, Any] | None
    settings: dict[str, Any]


def render_gan_page(data: GanReportData) -> str:
    """The page as a whole HTML document that loads nothing; equal data gives equal text."""
    environment = make_environment()
    kept = next((reading for reading in data.readings if reading["step"] == data.kept_step), None)
    shape = next((row.images[0] for row in data.sheet if len(row.images)), None)
    page = environment.get_template("gan.html.j2").render(
        data=data,
        style=asset(environment, "style.css"),
        gan_style=asset(environment, "gan.css"),
        picture_size=(_THUMBNAIL, _THUMBNAIL) if shape is None else display_size(shape, _THUMBNAIL),
        long_names=False,
        parts=tuple(part for part in _PARTS if part[0] != "tuning" or data.tuning),
        sentence=_sentence(data, kept),
        kept=kept,
        sheet=_sheet(data.sheet),
        pairs=_pairs(data.pairs),
        losses=Markup(_losses(data)),
        guard=Markup(_guard(data)) if data.readings else None,
        score_rows=_score_rows(data.scores),
        classes=_classes(data),
        tuning=_tuning(data.tuning),
        settings=tuple(settings_sections({"gan": data.settings})),
    )
    return clean_text(page)


def _sentence(data: GanReportData, kept: dict[str, float] | None) -> str:
    if kept is None:
        return f"A GAN of {data.data_name}, trained without a collapse guard."
    return (
        f"{percent(kept['recognised'], 0)} of what this GAN draws is recognised, and it covers "
        f"{percent(kept['covered'], 0)} of the real images."
    )


def _sheet(rows: tuple[SheetRow, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    budget = PictureBudget(_SHEET_BYTES)
    shown = []
    for row in rows:
        uris = [uri for image in row.images if (uri := budget.take(image)) is not None]
        if uris:
            shown.append((row.name, tuple(uris)))
    return tuple(shown)


def _pairs(pairs: tuple[Pair, ...]) -> tuple[tuple[str, str], ...]:
    budget = PictureBudget(_PAIR_BYTES)
    shown = ((budget.take(pair.generated), budget.take(pair.real)) for pair in pairs)
    return tuple((generated, real) for generated, real in shown if generated is not None and real is not None)


# -- charts ----------------------------------------------------------------------------------------------------------


def _losses(data: GanReportData) -> str:
    steps = [float(step) for step in range(1, len(data.losses) + 1)]
    return curves_chart(
        [
            Curve("discriminator", steps, data.losses[:, 0].tolist(), "real"),
            Curve("generator", steps, data.losses[:, 1].tolist(), "generated"),
        ],
        x_label="updates",
        title=f"loss of discriminator and generator over {len(steps):,} updates, kept after {data.kept_step:,}",
        name="losses",
        mark=data.kept_step,
    )


_GUARD_CURVES = (
    ("recognised", "recognised", "generated", False),
    ("covered", "covered", "real", False),
    ("least_covered", "least covered class", "real", True),
    ("distance", "distance", "muted", True),
)


def _guard(data: GanReportData) -> str:
    steps = [reading["step"] for reading in data.readings]
    curves = [
        Curve(name, steps, [reading[key] for reading in data.readings], colour, dashed)
        for key, name, colour, dashed in _GUARD_CURVES
    ]
    last = data.readings[-1]
    told = ", ".join(f"{name} {percent(last[key], 0)}" for key, name, _, _ in _GUARD_CURVES)
    title = f"readings of the collapse guard over the updates; at the end: {told}"
    return curves_chart(curves, x_label="updates", title=title, name="guard", percent=True, mark=data.kept_step)


# -- scores ----------------------------------------------------------------------------------------------------------

_SCORES = (
    ("fid", "FID", "lower is better", False),
    ("kid", "KID", "lower is better, about 0 for real images", False),
    ("precision", "precision", "generated images that lie among real ones", True),
    ("recall", "recall", "real images that lie among generated ones", True),
    ("density", "density", "about 1 for real images", False),
    ("coverage", "coverage", "real images with a generated one nearby", True),
)


@dataclass(frozen=True)
class _ScoreRow:
    name: str
    value: str
    spread: str
    meaning: str
    share: float | None


def _score_rows(scores: dict[str, Any] | None) -> tuple[_ScoreRow, ...]:
    if scores is None:
        return ()
    rows = []
    for key, name, meaning, share in _SCORES:
        mean, std = scores[key]["mean"], scores[key]["std"]
        text = percent if share else figure
        spread = f"± {text(std)}" if scores["draws"] > 1 else ""
        rows.append(_ScoreRow(name, text(mean), spread, meaning, mean if share else None))
    return tuple(rows)


def _classes(data: GanReportData) -> tuple[tuple[str, float], ...]:
    """Class name and coverage."""
    if data.scores is None:
        return ()
    found = []
    for number, covered in enumerate(data.scores["coverage_by_class"]):
        if covered is not None:
            name = data.class_names[number] if number < len(data.class_names) else str(number)
            found.append((name, float(covered)))
    return tuple(found)


# -- tuning ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _TrialRow:
    number: int
    outcome: str
    kid: str
    fid: str
    seconds: float
    settings: tuple[str, ...]
    best: bool
    error: str


@dataclass(frozen=True)
class _TuningView:
    chart: Markup | None
    counts: tuple[tuple[str, int], ...]
    importance: tuple[tuple[str, float], ...]
    names: tuple[str, ...]
    rows: tuple[_TrialRow, ...]
    against: str
    changed: tuple[tuple[str, str], ...]


def _tuning(tuning: dict[str, Any] | None) -> _TuningView | None:
    if tuning is None:
        return None
    trials = tuning["trials"]
    complete = [trial for trial in trials if trial["state"] == "complete"]
    numbers = [trial["number"] + 1 for trial in complete]
    values = [math.exp(objective(trial["scores"])) for trial in complete]
    best = tuning["best"]
    chart = trials_chart(
        numbers,
        values,
        title=f"FID times KID of {len(complete)} complete trials; the lowest, {figure(min(values))}, is that of trial "
        f"{best + 1}",
    )
    names = sorted({name for trial in trials for name in trial["settings"]})
    states = [trial["state"] for trial in trials]
    kind = "held-out real images" if tuning["held_out"] else "real images it was trained on (too few are held out)"
    return _TuningView(
        chart=Markup(chart),
        counts=tuple((word, states.count(state)) for state, word in _STATE_WORDS.items()),
        importance=tuple(sorted(tuning["importance"].items(), key=lambda entry: -entry[1])),
        names=tuple(names),
        rows=tuple(_trial_row(trial, names, best) for trial in trials),
        against=f"{tuning['against']:,} {kind}",
        changed=tuple((name, _setting(value)) for name, value in tuning["settings"].items()),
    )


def _trial_row(trial: dict[str, Any], names: list[str], best: int) -> _TrialRow:
    scores = trial["scores"]
    return _TrialRow(
        number=trial["number"] + 1,
        outcome=_STATE_WORDS[trial["state"]],
        kid=figure(scores["kid"]) if scores else "",
        fid=figure(scores["fid"]) if scores else "",
        seconds=trial["seconds"],
        settings=tuple(_setting(trial["settings"].get(name)) for name in names),
        best=trial["number"] == best,
        error=trial["error"] or "",
    )


def _setting(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return figure(value)
    return "" if value is None else str(value)
