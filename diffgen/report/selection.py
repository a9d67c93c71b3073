"""What the page says of the selector: figures as text, and behaviours with a sentence each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.report.data import SelectionView, TrustView
from diffgen.report.pictures import PictureBudget
from diffgen.report.wording import number, percent
from diffgen.wording import count_of

#: Bytes of data URIs of the pictures in this part.
TRUST_BYTES = 200_000

_DIVISIONS = {
    "random": "triggers, divided at random",
    "by behaviour": "triggers, of behaviours that it was not trained on",
}
_RULES = {
    "A": "A alone",
    "B": "B alone",
    "selector": "selector, asks one model",
    "soft-vote": "soft vote, asks both",
    "confidence": "the surer one, asks both",
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
    confusion: tuple[tuple[str, str], tuple[str, str]]


@dataclass(frozen=True)
class TrustedBehaviour:
    """One behaviour with its sentence and pictures."""

    trust: str
    sentence: str
    name_a: str
    name_b: str
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
    trusted_a: tuple[TrustedBehaviour, ...]
    trusted_b: tuple[TrustedBehaviour, ...]
    cost: str


def make_selection(view: SelectionView, names: tuple[str, ...]) -> Selection:
    """The part of the page for a run with a selector; ``names`` are the K class names."""
    told = ", ".join(f"{number(count)} by {source}" for source, count in view.sources.items() if count)
    budget = PictureBudget(TRUST_BYTES)
    behaviours = [_behaviour(each, names, budget) for each in view.behaviours]
    return Selection(
        lead=(
            f"A random forest that looks at the picture alone ({view.features}), trained on "
            f"{count_of(view.examples, 'labelled trigger')} ({told}). Both models are wrong "
            f"on {number(view.both_wrong)} labelled ones."
        ),
        rows=tuple(_row(_DIVISIONS.get(each["name"], each["name"]), each) for each in view.on_triggers)
        + tuple(
            _row(f"{each['source']}, where they differ", each["selector"]) for each in view.real if each["selector"]
        ),
        real=tuple(_real(each) for each in view.real),
        trusted_a=tuple(each for each in behaviours if each.trust == "A"),
        trusted_b=tuple(each for each in behaviours if each.trust == "B"),
        cost=_cost(view.cost),
    )


def _row(name: str, figures: dict[str, Any]) -> EvaluationRow:
    balanced = figures["balanced_accuracy"]
    (aa, ab), (ba, bb) = figures["confusion"]
    return EvaluationRow(
        name=name,
        decisive=number(figures["decisive"]),
        accuracy=percent(figures["accuracy"]),
        balanced="" if balanced is None else percent(balanced),
        majority=percent(figures["majority"]),
        regret=_points(figures["regret"], signed=False),
        gain=_points(figures["gain"]),
        confusion=((number(aa), number(ab)), (number(ba), number(bb))),
    )


def _points(share: float, *, signed: bool = True) -> str:
    return f"{100 * share:+.1f}" if signed else f"{100 * share:.1f}"


def _behaviour(view: TrustView, names: tuple[str, ...], budget: PictureBudget) -> TrustedBehaviour:
    right = view.a_right if view.trust == "A" else view.b_right
    total = view.a_right + view.b_right
    return TrustedBehaviour(
        trust=view.trust,
        sentence=(
            f"Where A says {names[view.label_a]} and B says {names[view.label_b]}, trust {view.trust}: right on "
            f"{number(right)} of {number(total)}."
        ),
        name_a=names[view.label_a],
        name_b=names[view.label_b],
        cell=view.cell,
        sources=tuple(source for image in view.images if (source := budget.take(image)) is not None),
    )


def _real(entry: dict[str, Any]) -> RealTable:
    differ = entry["on_disagreements"]
    return RealTable(
        lead=(
            f"{entry['source']}: {count_of(entry['images'], 'real image')} that the selector has not seen; A and B "
            f"differ on {number(entry['disagreements'])}."
        ),
        rows=tuple(
            (text, percent(entry["on_all"][rule], 2), percent(differ[rule]) if differ else "")
            for rule, text in _RULES.items()
            if rule in entry["on_all"]
        ),
    )


def _cost(cost: dict[str, float]) -> str:
    cheaper = min("ab", key=lambda role: cost[f"model_{role}"])
    saved = cost["saved"]
    verdict = f"saves {percent(saved, 0)}" if saved > 0 else f"costs {percent(-saved, 0)} more"
    return (
        f"One image takes A {cost['model_a']:.3f} ms, B {cost['model_b']:.3f} ms and the selector "
        f"{cost['selector']:.3f} ms on the machine that trained it; it chooses A for {percent(cost['share_a'], 0)} of "
        f"the real images. The selector and the model that it chooses take {cost['ensemble']:.3f} ms, which {verdict} "
        f"against asking both. {cheaper.upper()} is the cheaper model."
    )
