"""What the page says of the selector: figures as text, and behaviours with a sentence each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.config import roles
from diffgen.report.cards import PictureBudget
from diffgen.report.data import SelectionView
from diffgen.report.tables import named_sides
from diffgen.report.wording import number, percent, with_minus
from diffgen.tasks.classification import those
from diffgen.types import UInt8Array
from diffgen.wording import count_of, labelled_by

#: Bytes of data URIs of the pictures in this part.
TRUST_BYTES = 200_000

_DIVISIONS = {
    "random": "triggers, divided at random",
    "by behaviour": "triggers, of behaviours that it was not trained on, nor on near-duplicates",
    "by real image": "triggers, of real images that it was not trained on, nor on near-duplicates",
}
_RULES = {
    "selector": "selector, asks one model",
    "soft-vote": "soft vote, asks {all}",
    "stacking": "stacking, asks {all}",
    "confidence": "the surer one, asks {all}",
    "oracle": "the right one, if it were known",
}


@dataclass(frozen=True)
class EvaluationRow:
    """One line of the table of evaluations, as text."""

    name: str
    decisive: str
    accuracy: str
    balanced: str
    majority: str
    regret: str
    gain: str
    confusion: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class TrustedBehaviour:
    """One behaviour with its sentence and pictures."""

    trust: str
    sentence: str
    cell: int
    sources: tuple[str, ...]


@dataclass(frozen=True)
class RealTable:
    """What the rules are worth on one set of real images: (rule, right of all, right where A and B differ)."""

    lead: str
    rows: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Selection:
    """Everything that the part of the page shows."""

    lead: str
    rows: tuple[EvaluationRow, ...]
    real: tuple[RealTable, ...]
    trusted: tuple[tuple[str, tuple[TrustedBehaviour, ...]], ...]
    cost: str


def make_selection(view: SelectionView, names: tuple[str, ...]) -> Selection:
    """The part of the page for a run with a selector; ``names`` are the K class names."""
    about, budget = view.about, PictureBudget(TRUST_BYTES)
    pairs = zip(about["behaviours"], view.images, strict=True)
    behaviours = [_behaviour(each, images, names, budget) for each, images in pairs]
    models = sum(name.startswith("model_") for name in about["cost"])
    rows = [_row(_DIVISIONS.get(each["name"], each["name"]), each) for each in about["on_triggers"]]
    rows += [
        _row(f"{each['source']}, where they differ", each["selector"]) for each in about["real"] if each["selector"]
    ]
    return Selection(
        lead=(
            f"A random forest that looks at the picture alone ({about['features']}), trained on "
            f"{count_of(about['examples'], 'labelled trigger')} ({labelled_by(about['sources'])}). "
            f"{'Both' if models == 2 else 'All'} models are wrong on {number(about['both_wrong'])} labelled ones."
        ),
        rows=tuple(rows),
        real=tuple(map(_real, about["real"])),
        trusted=tuple((role, tuple(each for each in behaviours if each.trust == role)) for role in roles(models)),
        cost=_cost(about["cost"]),
    )


def _row(name: str, figures: dict[str, Any]) -> EvaluationRow:
    balanced, ends = figures["balanced_accuracy"], ", ".join(map(percent, figures["balanced_interval"] or ()))
    return EvaluationRow(
        name=name,
        decisive=number(figures["decisive"]),
        accuracy=percent(figures["accuracy"]),
        balanced="" if balanced is None else f"{percent(balanced)} [{ends}]",
        majority=percent(figures["majority"]),
        regret=_points(figures["regret"], signed=False),
        gain=_points(figures["gain"]),
        confusion=tuple(tuple(map(number, row)) for row in figures["confusion"]),
    )


def _points(share: float, *, signed: bool = True) -> str:
    return with_minus(f"{100 * share:+.1f}") if signed else f"{100 * share:.1f}"


def _behaviour(
    entry: dict[str, Any], images: UInt8Array, names: tuple[str, ...], budget: PictureBudget
) -> TrustedBehaviour:
    """How often the trusted model is right where its behaviour was met, and how often the other of two."""
    right, trusted = entry["right"], roles(entry["right"]).index(entry["trust"])
    sides = named_sides(entry["labels"], names)
    told = f"right on {number(right[trusted])} of {count_of(entry['labelled'], 'labelled picture')}"
    if len(right) == 2:
        said = " and ".join(f"{role} says {name}" for (role,), name in sides)
        told += f", {roles(right)[1 - trusted]} on {number(right[1 - trusted])}"
    else:
        said = "they say " + "; ".join(f"{', '.join(letters)} {name}" for letters, name in sides)
    return TrustedBehaviour(
        trust=entry["trust"],
        sentence=f"Where {said}, trust {entry['trust']}: {told}.",
        cell=entry["cell"],
        sources=tuple(source for image in images if (source := budget.take(image)) is not None),
    )


def _real(entry: dict[str, Any]) -> RealTable:
    differ = entry["on_disagreements"]
    alone = [rule for rule in entry["on_all"] if len(rule) == 1]
    every, who = "both" if len(alone) == 2 else "all", those(len(alone))
    rules = {
        **{role: f"{role} alone" for role in alone},
        **{rule: text.format(all=every) for rule, text in _RULES.items()},
    }
    return RealTable(
        lead=(
            f"{entry['source']}: {count_of(entry['images'], 'real image')} that the selector has not seen"
            f"{_without(entry)}; {who} differ on {number(entry['disagreements'])}."
        ),
        rows=tuple(
            (text, percent(entry["on_all"][rule], 2), percent(differ[rule]) if differ else "")
            for rule, text in rules.items()
            if rule in entry["on_all"]
        ),
    )


def _without(entry: dict[str, Any]) -> str:
    """What the selector of a table did not learn from, in words."""
    made = entry["left_out"]
    return f" (for this table it learned without {count_of(made, 'find')} made from them or like those)" if made else ""


def _cost(cost: dict[str, float]) -> str:
    letters = [name.removeprefix("model_") for name in cost if name.startswith("model_")]
    cheapest = min(letters, key=lambda role: cost[f"model_{role}"]).upper()
    images = "real images" if cost["of_real"] else "finds (the real images are gone)"
    saved = cost["saved"]
    verdict = f"saves {percent(saved, 0)}" if saved > 0 else f"costs {percent(-saved, 0)} more"
    together = (
        f"The selector and the model that it chooses take {cost['ensemble']:.3f} ms, which {verdict} against asking"
    )
    if len(letters) == 2:
        return (
            f"One image takes A {cost['model_a']:.3f} ms, B {cost['model_b']:.3f} ms and the selector "
            f"{cost['selector']:.3f} ms on the machine that trained it; it chooses A for {percent(cost['share_a'], 0)} "
            f"of the {images}. {together} both. {cheapest} is the cheaper model."
        )
    times = ", ".join(f"{role.upper()} {cost[f'model_{role}']:.3f} ms" for role in letters)
    chosen = ", ".join(f"{role.upper()} {percent(cost[f'share_{role}'], 0)}" for role in letters)
    return (
        f"One image takes {times} and the selector {cost['selector']:.3f} ms on the machine that trained it. Of the "
        f"{images} it chooses {chosen}. {together} all. {cheapest} is the cheapest model."
    )
