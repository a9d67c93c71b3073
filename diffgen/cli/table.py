"""The small table at the end of a comparison."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffgen.config import roles
from diffgen.wording import percent, verdicts_rest_on

if TYPE_CHECKING:
    from diffgen.comparison.stages import CompareResult
    from diffgen.runs.figures import ManyFigures

_PAIRS = 3


def _of_agreement(result: CompareResult) -> list[tuple[str, str]]:
    """How many behaviours begin only where the models are known to differ, where there are such images."""
    if result.behaviours_of_agreement is None or not result.behaviours or not result.flips_per_1000:
        return []
    known = result.behaviours - result.behaviours_of_agreement
    return [("  known before", f"{known:,} begin only with real images on which {_who(result)} disagree already")]


def _verdicts(result: CompareResult) -> list[tuple[str, str]]:
    """Who is wrong, as the jury sees it; nothing where there is none."""
    from diffgen.tasks.classification import who_is_wrong

    if result.faults is None:
        return [("who is wrong", result.no_jury)] if result.no_jury else []
    models = sum(len(verdict) == 1 for verdict in result.faults)
    rows = []
    for verdict, counts in result.faults.items():
        name = who_is_wrong(verdict, models)
        pictures, ways = counts["pictures"], counts["behaviours"]
        rows.append((name, f"{pictures:,}{f', in {ways:,} ways' if ways > 1 else ''}"))
    if result.verdicts_rest_on is not None:
        rows.append(("verdicts rest on", verdicts_rest_on(result.verdicts_rest_on)))
    unnamed = result.distinct_valid_triggers - (result.recognised_distinct_triggers or 0)
    if unnamed:
        who = "nobody says" if result.no_jury else "the jury cannot name"
        rows.append((who, f"{unnamed:,} of {result.distinct_valid_triggers:,} valid triggers"))
    return rows


def _who(result: CompareResult) -> str:
    from diffgen.tasks.classification import listed

    return listed(roles(2 if result.many is None else len(result.many.alone)))


def _of_many(found: ManyFigures | None) -> list[tuple[str, str]]:
    """Who stands alone, what the majority is worth, and which two differ most; nothing of two models."""
    if found is None:
        return []
    alone = ", ".join(f"{role} {each.pictures:,}" for role, each in found.alone.items())
    right = [f"{role} {each.right:,}" for role, each in found.alone.items() if each.right]
    rows = [("stands alone on", alone)]
    if right:
        rows.append(("alone, and right", ", ".join(right)))
    if found.majority_recognised:
        share = percent(found.majority_right / found.majority_recognised)
        rows.append(("the majority is right", f"{share} of {found.majority_recognised:,} that the jury recognises"))
    pairs = sorted(
        ((count, one, other) for one, row in enumerate(found.found) for other, count in enumerate(row) if one < other),
        key=lambda pair: (-pair[0], pair[1:]),
    )
    letters = roles(found.found)
    most = ", ".join(f"{letters[one]} and {letters[other]} on {count:,}" for count, one, other in pairs[:_PAIRS])
    return [*rows, ("differ most", most)]


def on_real_images(
    flips: float,
    errors: Sequence[float] | None,
    milliseconds: Sequence[float | None] | None,
    names: Sequence[str] | None = None,
) -> list[tuple[str, str]]:
    """How the models do on real images: how often they differ, how well calibrated and how fast they are.

    Args:
        flips: of 1,000 real images.
        errors: expected calibration error of each model, 0..1, or None.
        milliseconds: that an image takes each model, None where nobody knows; or None.
        names: what the models are called, or None: A, B, ...
    """
    rows = [("flips", f"{flips:.1f} of 1,000 real images")]
    if errors is not None:
        told = ", ".join(
            f"{role} {percent(error, 2)}" for role, error in zip(names or roles(errors), errors, strict=True)
        )
        rows.append(("calibration error (ECE)", told))
    if milliseconds is not None:
        times = [
            f"{role} {'-' if each is None else f'{each:.3g}'}"
            for role, each in zip(names or roles(milliseconds), milliseconds, strict=True)
        ]
        rows.append(("ms an image", ", ".join(times)))
    return rows


def _selector(about: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What the selector of the run is worth, where it has one."""
    rows = []
    for each in () if about is None else about["on_triggers"]:
        if each["balanced_accuracy"] is not None:
            low, high = (percent(end) for end in each["balanced_interval"])
            right = f"balanced accuracy {percent(each['balanced_accuracy'])} [{low}, {high}]"
            plain = f"accuracy {percent(each['accuracy'])}, of always the better model {percent(each['majority'])}"
            rows.append((f"selector, {each['name']}", f"{right}; {plain}"))
    return rows


def print_result(result: CompareResult) -> None:
    """The figures and the path of the report, on stdout."""
    valid = percent(result.valid_triggers / result.triggers, 0) if result.triggers else ""
    share = f" ({valid} of them)" if valid else ""
    repeated = result.valid_triggers - result.distinct_valid_triggers
    if repeated:
        share = f" and {repeated:,} near-duplicates of them (together {valid})"
    spared, bound, discovery = "", "", result.discovery
    if result.many is not None and result.many.spared:
        whole = result.queries * len(result.many.alone)
        spared = f"; {result.many.spared:,} of {whole:,} answers were spared by asking in stages"
    if result.behaviours_at_least > result.behaviours:  # Chao1
        bound = f" (lower bound of all that there are: {result.behaviours_at_least:,})"
    speed = f"{discovery['per_1000_queries']:.1f} for every 1,000 of the last {discovery['queries']:,} queries"
    of_search = (
        *_verdicts(result),
        ("images asked about", f"{result.queries:,} in {result.seconds:.0f} s{spared}"),
        (f"triggers ({_who(result)} disagree)", f"{result.triggers:,}"),
        ("valid triggers", f"{result.distinct_valid_triggers:,}{share}"),
        ("behaviours", f"{result.behaviours:,}{bound}"),
        *_of_agreement(result),
        ("new behaviours", speed),
        ("label pairs" if result.many is None else "label tuples", f"{result.label_pairs:,}"),
        *_of_many(result.many),
        *_selector(result.selector),
    )
    rows = on_real_images(result.flips_per_1000, result.calibration_error, result.milliseconds)
    rows += of_search if result.queries or result.triggers else []
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        print(f"{name:<{width}}  {value}")
    for index, (*labels, count) in enumerate(result.most_frequent[:_PAIRS]):
        said = ", ".join(f"{role} says {label}" for role, label in zip(roles(labels), labels, strict=True))
        print(f"{'most frequent' if index == 0 else '':<{width}}  {said}: {count:,}")
    if result.cause:
        print(f"probable cause: {result.cause}")
    if result.go_on:
        print(f"go on: {result.go_on}")
    print(f"report: {Path(result.run) / 'report.html'}")
    for doubt in result.doubts:  # said before the search, too: the figures above hang on it
        print(f"warning: {doubt}")
    sys.stdout.flush()
