"""Numbers and sentences of the report, shared by the HTML page and the Markdown summary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from diffgen.metrics.richness import Discovery
from diffgen.report.data import ReportData
from diffgen.tasks.classification import ALL, SEVERAL, listed, who_is_wrong
from diffgen.wording import count_of, why_no_jury_of
from diffgen.wording import percent as percent  # with the other numbers of a report

Faults: TypeAlias = Mapping[str, Mapping[str, int]]
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float) -> str:
    """A whole number with thousands separators."""
    return f"{round(value):,}"


def duration(seconds: float) -> str:
    """A time span in the one or two units that a reader would use."""
    if not math.isfinite(seconds):
        return "unknown time"
    if seconds < 10 and not float(seconds).is_integer():
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min" + (f" {rest} s" if rest else "")
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h" + (f" {minutes} min" if minutes else "")


def figure(value: float) -> str:
    """A score, a margin or a small quantity with three significant digits."""
    if not math.isfinite(value):
        return "not finite"
    text = "0" if value == 0 else f"{value:.3g}"
    mantissa, _, exponent = text.partition("e")
    if exponent:
        text = f"{mantissa} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"  # noqa: RUF001
    return with_minus(text)


def with_minus(text: str) -> str:
    """A number in figures with a minus sign in place of a hyphen."""
    return text.replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True)
class Headline:
    """What a reader sees first.

    Attributes:
        sentence: the result in one sentence.
        also: who else is wrong, and what the jury cannot name, one sentence each.
        meaning: what a result without triggers means and does not mean; empty otherwise.
        notes: facts without which the numbers could be misread, one sentence each.
        alerts: what needs attention before the numbers are used, one sentence each.
    """

    sentence: str
    also: tuple[str, ...]
    meaning: tuple[str, ...]
    notes: tuple[str, ...]
    alerts: tuple[str, ...]


def headline(data: ReportData) -> Headline:
    """The sentences at the top of the report. They speak of the models as A and B and hold no names."""
    wrong, wide = verdict_sentences(data.results.faults, len(data.model_names)), _sentence(data)
    if len(data.model_names) > 2:
        # with many models a sentence for each would bury the one that says what was found
        wrong = _wrong_of_many(data.results.faults or {})
        first, *others = [wide, *wrong]
    else:
        first, *others = [*wrong, wide] if wrong else [wide]
    varied = data.results.answers.get("variations", "") if data.results.queries else ""
    told = filter(None, [near_duplicates(data), _of_agreement(data), varied])
    notes = (*told, *_asked_again(data), *_what_is_left(data))
    return Headline(first, (*others, *_unnamed(data)), _meaning(data), notes, _alerts(data))


def verdict_sentences(faults: Faults | None, models: int) -> tuple[str, ...]:
    """Who is wrong on how many pictures, one sentence for each verdict that has some, the largest first.

    Args:
        faults: see :class:`diffgen.runs.results.RunResults`.
    """
    sentences = []
    for verdict, counts in larger_first(faults or {}).items():
        pictures, ways = counts["pictures"], counts["behaviours"]
        if pictures:
            on = f"on {count_of(pictures, 'picture')}{f', in {number(ways)} ways' if ways > 1 else ''}."
            sentences.append(f"{capitalised(who_is_wrong(verdict, models))} {on}")
    return tuple(sentences)


def larger_first(faults: Faults) -> dict[str, Mapping[str, int]]:
    """The verdicts as they are told: the model that alone is wrong on most pictures first, then several and all."""
    return dict(sorted(faults.items(), key=lambda each: (each[0] in (SEVERAL, ALL), -each[1]["pictures"])))


def _wrong_of_many(faults: Faults) -> tuple[str, ...]:
    """Which model alone is wrong, the worst first, and how often several are, in one sentence each."""
    alone = sorted(
        ((counts["pictures"], verdict) for verdict, counts in faults.items() if verdict not in (ALL, SEVERAL)),
        key=lambda each: (-each[0], each[1]),
    )
    told = [f"{role} on {count_of(pictures, 'picture')}" for pictures, role in alone if pictures]
    rest = [verdict_sentences({verdict: faults[verdict]}, 3) for verdict in (SEVERAL, ALL) if verdict in faults]
    first = (f"Wrong where all others are right: {listed(told)}.",) if told else ()
    return (*first, *(sentence for each in rest for sentence in each))


def capitalised(text: str) -> str:
    """The same with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def nobody_named(no_jury: str) -> str:
    """Why there is no jury, as a sentence about its verdict; nothing for nothing."""
    why = why_no_jury_of(no_jury)
    return f"Nobody could be named wrong: {why}." if why else ""


def _unnamed(data: ReportData) -> tuple[str, ...]:
    """What the jury cannot name, or why there is none."""
    found = data.results
    if found.valid_triggers == 0:
        return ()
    if found.recognised_distinct_triggers is None:
        return tuple(filter(None, [nobody_named(found.no_jury)]))
    left = found.distinct_valid_triggers - found.recognised_distinct_triggers
    if found.jury is None:
        them = "these" if found.recognised_distinct_triggers == 0 else f"{number(left)} of these"
        return (f"Nobody knows what {them} show, and nobody is said to be wrong there.",) if left > 0 else ()
    if found.recognised_distinct_triggers == 0:
        return ("The jury can name none of these pictures, so that nobody is said to be wrong.",)
    return (f"The jury cannot name {number(left)} of these; nobody is said to be wrong there.",) if left > 0 else ()


def _sentence(data: ReportData) -> str:
    effort = f"{count_of(data.results.queries, 'query', 'queries')} in {duration(data.results.seconds)}"
    if data.results.queries == 0 and data.results.triggers == 0:
        if data.results.answers:
            return tuple(data.results.answers.values())[-1]
        return f"No {data.noun} was asked about, so nothing can be said about {data.models}."
    if data.results.triggers == 0:
        return f"No disagreement found between {data.models}, with {effort}."
    if data.results.valid_triggers == 0:
        return f"No valid disagreement found between {data.models}, with {effort}."
    pictures = count_of(data.headline_count, f"{'valid ' if data.filters else ''}{data.noun}")
    if data.headline_count == 1:
        ways = ""
    elif data.results.behaviours == 1:
        ways = ", all in the same way"
    else:
        ways = f", in {count_of(data.results.behaviours, 'different way')}"
    return f"{data.models} disagree on {pictures}{ways}, found with {effort}."


def _meaning(data: ReportData) -> tuple[str, ...]:
    if data.results.valid_triggers > 0 or (data.results.queries == 0 and data.results.triggers == 0):
        return ()
    two = len(data.model_names) == 2
    if data.results.triggers == 0:
        means = (
            f"What it means: on every {data.noun} that the search asked about, {'both' if two else 'all'} models "
            "gave the same label, or one of them was too undecided to count."
        )
    else:
        means = (
            f"What it means: {'both' if two else 'the'} models disagree on "
            f"{count_of(data.results.triggers, data.noun)}, but the validity filters rejected every one as "
            "too unlike the real images."
        )
    seen, other = (
        ("what these changes make of the real images", "technique")
        if data.results.mutated
        else ("what this generator can draw", "generator")
    )
    limits = (
        f"What it does not mean: that {data.models} agree everywhere. The search sees only {seen} and what this budget "
        f"reached; a longer search, another seed or another {other} may find more."
    )
    real = data.real_disagreement_count
    if real == 0:
        return means, limits
    return means, limits, f"On the real images {data.models} do disagree: {count_of(real, 'image')}, shown below."


def _of_agreement(data: ReportData) -> str:
    """How many behaviours are met elsewhere than where the models are known to differ."""
    met, found = data.results.behaviours_of_agreement, data.results.behaviours
    if met is None or found == 0 or data.real_disagreement_count == 0:
        return ""
    return (
        f"{number(met)} of the {count_of(found, 'behaviour')} {'was' if met == 1 else 'were'} met on pictures that do "
        f"not begin with a real image on which {data.models} disagree already."
    )


def _what_is_left(data: ReportData) -> tuple[str, ...]:
    ended = "The search ended because it found no new behaviour for long." if data.results.saturated else ""
    more = (
        f"An estimated lower bound of all behaviours is {number(data.results.behaviours_at_least)} (Chao1, from how "
        "many were met on one distinct picture and on two); a longer search may meet far more."
        if data.results.behaviours_at_least > data.results.behaviours
        else ""
    )
    return tuple(filter(None, (ended, _discovery(data), more)))


def _discovery(data: ReportData) -> str:
    """How fast new behaviours were still met when the search ended."""
    found = data.results.discovery
    if found.queries == 0 or data.results.behaviours == 0:
        return ""
    last = count_of(found.queries, "query", "queries")
    if found.new_behaviours == 0:
        return f"In its last {last} the search met no new behaviour."
    return f"In its last {last} the search met {count_of(found.new_behaviours, 'new behaviour')}: {rate(found)}."


def rate(found: Discovery) -> str:
    """The rate of discovery."""
    return f"{figure(found.per_1000_queries)} for every 1,000 queries"


def _asked_again(data: ReportData) -> tuple[str, ...]:
    if data.results.valid_triggers == 0 and data.results.unconfirmed == 0:
        return ()
    parts = []
    if data.results.verified_single:
        parts.append(f"{number(data.results.verified_single)} one at a time")
    if data.results.verified_batch:
        parts.append(f"{number(data.results.verified_batch)} in batches")
    again = f"Asked again after the search: {' and '.join(parts)}." if parts else ""
    if data.results.unconfirmed:
        lost = f"{count_of(data.results.unconfirmed, 'trigger')} did not disagree again and "
        lost += f"{_is_are(data.results.unconfirmed)} "
        return tuple(filter(None, (again, f"{lost}in no other count.")))
    if not again:
        return ("No trigger was asked again after the search.",)
    return (f"{again} All disagreed again.",)


def near_duplicates(data: ReportData) -> str:
    """What the headline leaves out, or nothing."""
    more = data.results.valid_triggers - data.headline_count
    if more == 0:
        return ""
    return (
        f"{count_of(more, 'valid trigger')} more {_is_are(more)} left out of this number as near-duplicates of others "
        "with the same label pair."
    )


def _alerts(data: ReportData) -> tuple[str, ...]:
    alerts = []
    if data.results.queries == 0 and data.results.answers:
        alerts.append(
            "The search has not begun: this is what the models say of real images. The run can be gone on with."
        )
    elif data.results.interrupted:
        alerts.append(
            "The search was interrupted before its budget was used up; all numbers are those reached until then."
        )
    if not data.filters and data.results.triggers:
        alerts.append("No validity filter was used: some of these pictures may not look like real ones.")
    return (*alerts, *data.results.warnings)


def _is_are(amount: int) -> str:
    return "is" if amount == 1 else "are"


def clean_text(text: str) -> str:
    """``text`` without what a UTF-8 file cannot hold: lone surrogates (undecodable file names) and NUL characters."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
