"""The published line of a run, by the paper's sections: GAN, search, both filters, figures and selector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.config.parts import FILTER_PRESETS
from diffgen.report.data import FilterView, ReportData
from diffgen.report.wording import capitalised, duration, number, percent, with_minus
from diffgen.wording import count_of, labelled_by

#: Sections of the paper, and what it does there, by stage of a run.
STAGES = {
    "gan": ("3.1, 3.2", "GAN"),
    "search": ("3.3 to 3.5", "NSGA-II over its latent space"),
    "filters": ("3.6", "Filtering invalid inputs"),
    "selector": ("5.4", "Model selection"),
}
_PUBLISHED_SSIM = FILTER_PRESETS["paper"].filters["ssim"]["threshold"]
_SECTIONS = {"discriminator": "3.6.1", "ssim": "3.6.2"}


@dataclass(frozen=True)
class LineRow:
    """One stage."""

    section: str
    title: str
    text: str
    part: str


def is_published(technique: str, preset: str, family: str | None) -> bool:
    """Whether a run goes the published line: a preset of its technique other than the default, over a latent space."""
    return technique == "diffgan" and preset != "default" and family != "seeds"


def make_line(data: ReportData) -> tuple[LineRow, ...]:
    """The stages of a run that was made with a preset of the published technique; none for any other run."""
    if not is_published(data.technique, data.preset, data.settings.get("source", {}).get("family")):
        return ()
    filters = [
        LineRow(_SECTIONS.get(view.name, STAGES["filters"][0]), f"Filter {view.name}", _filter(view), "validity")
        for view in data.filters
    ]
    return (
        LineRow(*STAGES["gan"], _gan(data.results.gan), "generator"),
        LineRow(*STAGES["search"], _search(data), "search"),
        *filters,
        LineRow("5.1", "Triggering inputs", _triggers(data), "real"),
        LineRow("5.2", "Validity rate", _validity(data), "validity"),
        LineRow("5.3", "Diversity", _diversity(data), "validity"),
        LineRow(*STAGES["selector"], _selector(data), "settings" if data.selection is None else "selector"),
    )


def is_sketch(data: ReportData) -> bool:
    """Whether the GAN was trained so briefly that the run shows how the line works and not what it is worth."""
    return bool(make_line(data)) and data.settings.get("gan", {}).get("schedule") == "quick"


def _gan(facts: Any) -> str:
    told = [facts[name] for name in ("kind", "latent vector") if name in facts]
    for name in ("updates", "recognised", "covered", "tuned"):
        if name in facts:
            told.append(f"{name}: {facts[name]}")
    if "tuned" not in facts and facts:
        told.append("not tuned (--tune N)")
    return capitalised("; ".join(told)) + "." if told else "Nothing is recorded about the generator."


def _search(data: ReportData) -> str:
    search, found = data.settings["search"], data.results
    objectives = {
        "divergence": "divergence (Eq. 1)",
        "diversity": f"diversity (Eq. 2: HDBSCAN after {search['reducer'].upper()})",
    }
    chosen = " and ".join(objectives.values()) if search["objectives"] == "both" else objectives[search["objectives"]]
    drawn = "from a box" if search["prior"] == "box" else "as the GAN was trained"
    return (
        f"{number(found.queries)} queries to every model in {duration(found.seconds)}, in batches; population "
        f"{number(search['population'])}, drawn {drawn}; it maximizes {chosen}."
    )


def _filter(view: FilterView) -> str:
    asked = len(view.trigger_scores)
    told = f"Threshold {with_minus(f'{view.threshold:.3g}')}, rejects {number(view.rejected)} of {number(asked)}"
    if view.name == "discriminator":
        return f"{told}. The paper names no threshold for it."
    if view.name != "ssim":
        return f"{told}. The paper has no such filter."
    if view.threshold == _PUBLISHED_SSIM:
        return f"{told}. This is the published threshold."
    published = int((view.trigger_scores < _PUBLISHED_SSIM).sum())
    return f"{told}; the published {_PUBLISHED_SSIM} would reject {number(published)} of these."


def _triggers(data: ReportData) -> str:
    found, known = data.results, data.real_disagreement_count
    times = f", {found.triggers / known:,.0f} for each" if known else ""
    return (
        f"{count_of(found.triggers, 'trigger')}{times} of the {count_of(known, 'real image')} on which the models "
        f"differ; {number(found.distinct_valid_triggers)} are valid and no near-duplicates."
    )


def _validity(data: ReportData) -> str:
    found = data.results
    if found.validity is None:
        return "There is no trigger to judge."
    told = f"{percent(found.validity)} of the triggers pass the filters"
    if found.recognised_triggers is None or not found.valid_triggers:
        return f"{told}; no jury says what they show."
    share = found.recognised_triggers / found.valid_triggers
    return f"{told}; of these, the jury can name {percent(share)}. In the paper, people judged."


def _diversity(data: ReportData) -> str:
    geometric, shannon = data.results.geometric_diversity, data.results.shannon_diversity
    if geometric is None or shannon is None:
        return "There are too few distinct valid triggers to measure it."
    told = []
    for name, each in (("geometric diversity", geometric), ("Shannon diversity", shannon)):
        found, real = (with_minus(f"{each[of]['mean']:.2f}") for of in ("found", "real"))
        told.append(f"{name} {found}, of real images {real}")
    draws = f"{geometric['draws']} draws of {geometric['size']} pictures"
    return (
        f"{capitalised('; '.join(told))}: means of {draws}. Published values are of 1,000 pictures and other features, "
        "and not to be compared with."
    )


def _selector(data: ReportData) -> str:
    if data.selection is None:
        return f"No selector was trained: {data.no_selector}" if data.no_selector else "No selector was trained."
    about = data.selection.about
    judged = {each["name"]: each for each in about["on_triggers"]}
    found = judged.get("by behaviour", judged.get("random"))
    learnt = f"labelled triggers ({labelled_by(about['sources'])})"
    if found is None or found["balanced_accuracy"] is None:
        return f"Random forest, learnt from {learnt}; they are too few to say what it is worth."
    low, high = (percent(end) for end in found["balanced_interval"])
    on = "random parts" if found["name"] == "random" else "behaviours"
    balanced = f"balanced accuracy {percent(found['balanced_accuracy'])} [{low}, {high}]"
    return (
        f"Random forest, learnt from {learnt}: {balanced} on {on} that it was not trained on; always the better model: "
        f"50%. Accuracy {percent(found['accuracy'])}; always the better model: {percent(found['majority'])}."
    )
