"""What the page says of the selector: figures as text, and behaviours with a sentence each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.config import roles
from diffgen.report.cards import PictureBudget
from diffgen.report.data import SelectionView, TrustView
from diffgen.report.tables import named_sides
from diffgen.report.wording import number, percent, with_minus
from diffgen.tasks.classification import those
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
    budget = PictureBudget(TRUST_BYTES)
    behaviours = [_behaviour(each, names, budget) for each in view.behaviours]
    models = sum(name.startswith("model_") for name in view.cost)
    return Selection(
        lead=(
            f"A random forest that looks at the picture alone ({view.features}), trained on "
            f"{count_of(view.examples, 'labelled trigger')} ({labelled_by(view.sources)}). "
            f"{'Both' if models == 2 else 'All'} models are wrong on {number(view.both_wrong)} labelled ones."
        ),
        rows=tuple(_row(_DIVISIONS.get(each["name"], each["name"]), each) for each in view.on_triggers)
        + tuple(
            _row(f"{each['source']}, where they differ", each["selector"]) for each in view.real if each["selector"]
        ),
        real=tuple(_real(each) for each in view.real),
        trusted=tuple((role, tuple(each for each in behaviours if each.trust == role)) for role in roles(models)),
        cost=_cost(view.cost),
    )


def _row(name: str, figures: dict[str, Any]) -> EvaluationRow:
    balanced = figures["balanced_accuracy"]
    return EvaluationRow(
        name=name,
        decisive=number(figures["decisive"]),
        accuracy=percent(figures["accuracy"]),
        balanced="" if balanced is None else percent(balanced),
        majority=percent(figures["majority"]),
        regret=_points(figures["regret"], signed=False),
        gain=_points(figures["gain"]),
        confusion=tuple(tuple(map(number, row)) for row in figures["confusion"]),
    )


def _points(share: float, *, signed: bool = True) -> str:
    return with_minus(f"{100 * share:+.1f}") if signed else f"{100 * share:.1f}"


def _behaviour(view: TrustView, names: tuple[str, ...], budget: PictureBudget) -> TrustedBehaviour:
    if len(view.labels) == 2:
        said = f"A says {names[view.labels[0]]} and B says {names[view.labels[1]]}"
    else:
        told = "; ".join(f"{', '.join(letters)} {label}" for letters, label in named_sides(view.labels, names))
        said = f"they say {told}"
    sentence = f"Where {said}, trust {view.trust}: {_right(view)}."
    return TrustedBehaviour(
        trust=view.trust,
        sentence=sentence,
        cell=view.cell,
        sources=tuple(source for image in view.images if (source := budget.take(image)) is not None),
    )


def _right(view: TrustView) -> str:
    """How often the trusted model is right where its behaviour was met, and how often the other of two."""
    trusted = roles(view.right).index(view.trust)
    right = view.right[trusted]
    other = f", {roles(view.right)[1 - trusted]} on {number(view.right[1 - trusted])}" if len(view.right) == 2 else ""
    return f"right on {number(right)} of {count_of(view.labelled, 'labelled picture')}{other}"


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
