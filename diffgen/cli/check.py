"""``diffgen check``: may this candidate replace the base?"""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import compare, model_options, options
from diffgen.cli.help import Parser
from diffgen.cli.table import on_real_images
from diffgen.config import CheckConfig, applied, replace
from diffgen.config.layers import Layer, merged, written
from diffgen.config.schema import every_setting
from diffgen.errors import DiffgenError, UserError
from diffgen.runs.creation import remove_verdict

if TYPE_CHECKING:
    from diffgen.gate.result import CheckResult

_DESCRIPTION = """\
Say whether a quantized, pruned, converted or retrained model may replace the old one.
"""

_EXAMPLES = """\
diffgen check float.onnx int8.onnx --data val/ --store regressions/
diffgen check old.pt new.pt --data val/ --max-disagreement 0.5% --max-regression-faults 10
diffgen check --accept runs/float-vs-int8-... --store regressions/   what it found is known now
diffgen check --resume runs/float-vs-int8-...                        go on with one that broke off
"""
_MORE = """\
exit codes:
  0 PASS or WARN   1 FAIL   2 usage or input   3 ERROR: the check did not come to its end
"""
# common for compare, but not here
_RARE = (
    "technique",
    "source.family",
    "islands.workers",
    "filters",
    "config",
    "print_config",
    "force",
    "seed",
    "device",
    "models.class_names_file",
)
_NOTHING_NEW = ("--accept", "--resume", "--print-config")  # beside these no check is begun
_BESIDE_ACCEPT = ("help", "help_all", "accept", "store", "config", "quiet", "verbose", "json", "state_file")


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "check",
        help="may this candidate replace the base? for pipelines",
        description=_DESCRIPTION,
        examples=_EXAMPLES,
        usage="%(prog)s BASE CANDIDATE --data D [options]",
        epilog=_MORE,
    )
    parser.add_argument("model_a", nargs="?", metavar="BASE", help="the model that is in use")
    parser.add_argument("model_b", nargs="?", metavar="CANDIDATE", help="the one that may replace it")
    parser.add_argument("--store", metavar="S", help="folder of accepted behaviours; need not exist yet")
    parser.add_argument("--accept", metavar="RUN", help="put the new behaviours of this check into the store, and exit")
    parser.add_argument("--resume", metavar="RUN", help="continue a check that was interrupted, with its limits")
    every = list(every_setting(CheckConfig))
    title = (
        "limits",
        "A value without a limit is reported only; a candidate that is grossly worse fails always.",
    )
    own = [each for each in every if each.key.startswith("limits.") or each.key in ("random_images", "variations")]
    of = compare.add_options(parser, CheckConfig, (*title, own), models=2)
    for action in parser._actions:
        if action.dest in _RARE:
            of.rare(action)
    parser.set_defaults(options=of)


def config_from(arguments: argparse.Namespace, file: Layer) -> tuple[CheckConfig, CheckConfig]:
    """The settings that options and file name, and what they would be if neither did. UserError if one cannot be."""
    from diffgen.comparison.settings_file import parts

    arguments.models = [model for model in (arguments.model_a, arguments.model_b) if model is not None]
    defaults = CheckConfig()
    (own, rest), (said, said_rest) = parts(file), parts(arguments.options.settings(arguments))
    comparison, base = compare.config_from(arguments, rest, said_rest, defaults.compare)
    own = merged(own, said)
    return replace(applied(defaults, own), compare=comparison), replace(defaults, compare=base)


def run(arguments: argparse.Namespace) -> int:
    """Check or go on with a check, print the conditions, say where the report is; or accept what a check found."""
    if arguments.resume is not None:
        return _resume(arguments)
    if arguments.accept is not None:
        _refuse_beside_accept(arguments)
    try:
        file = compare.job_from(arguments, CheckConfig)
    finally:
        _remove_old_verdict(arguments)  # the file may name its folder, and may be what is wrong
    if arguments.accept is not None:
        return _accept(arguments)
    config, base = config_from(arguments, file)
    if arguments.print_config:
        settings = written(config, base)
        print(compare.to_toml({**settings.pop("compare"), **settings}, arguments), end="")
        return 0
    paths = [each.path for each in config.compare.models] or [None, None]
    if None in paths:
        raise UserError("A check needs a base and a candidate; write 'diffgen check BASE CANDIDATE --data D'.")
    options.need_data(arguments)
    return _print(arguments, api.check(*paths, store=arguments.store, config=config, **compare.job(arguments)))


def refused(words: Sequence[str]) -> None:
    """Remove the verdict that a check with ``--force`` was to replace, where its words were not understood.

    Args:
        words: of the command line; those of another command change nothing.
    """
    if list(words[:1]) != ["check"]:
        return
    # what can be read of words that are wrong: no abbreviations, since one of these may be the mistake
    lenient = Parser(add_help=False, allow_abbrev=False)
    for option in _NOTHING_NEW:
        lenient.add_argument(option, dest="nothing_new", nargs="?", const=True)
    lenient.add_argument("-o", "--output")
    lenient.add_argument("--force", action="store_true")
    with contextlib.suppress(DiffgenError):  # the mistake is told, not what follows from it
        arguments, _ = lenient.parse_known_args(words)
        if not arguments.nothing_new and arguments.force and arguments.output is not None:
            remove_verdict(Path(arguments.output))


def _remove_old_verdict(arguments: argparse.Namespace) -> None:
    begins = arguments.accept is None and not arguments.print_config
    if begins and arguments.force and arguments.output is not None:
        remove_verdict(Path(arguments.output))


def _resume(arguments: argparse.Namespace) -> int:
    arguments.options.refuse_beside_resume(
        arguments, "A check", (*compare.BESIDE_RESUME, "model_a", "model_b", "store")
    )
    result = api.resume_check(
        arguments.resume,
        arguments.model_a,
        arguments.model_b,
        data=arguments.data,
        store=arguments.store,
        options=model_options.specs_from(arguments, 2),
        **options.events(arguments),
    )
    return _print(arguments, result)


def _print(arguments: argparse.Namespace, result: CheckResult) -> int:
    """The verdict, for people or as JSON; returns the exit code."""
    print_verdict(result)
    return options.finish(arguments, result, result.exit_code)


def _refuse_beside_accept(arguments: argparse.Namespace) -> None:
    given = arguments.options.passed_over(arguments, _BESIDE_ACCEPT)
    if given:
        raise UserError(
            f"--accept only puts into the store what a check found, and checks nothing; leave {given} out, and check "
            "with a command of its own."
        )


def _accept(arguments: argparse.Namespace) -> int:
    if arguments.store is None:
        raise UserError("The store is missing; name its folder with --store.")
    from diffgen.wording import count_of

    accepted = api.accept(arguments.accept, arguments.store)
    known = f"{accepted.known:,} {'was' if accepted.known == 1 else 'were'} known"
    print(f"{count_of(accepted.added, 'behaviour')} added to {accepted.store}; {known}.")
    if accepted.held_to:
        held = "; ".join(f"{title} {text}" for title, text in accepted.held_to.items())
        print(f"Later checks against {accepted.store} may come up to this, where their limits allow it: {held}.")
    if accepted.failed:
        arguments.progress.warn(
            f"The check {arguments.accept} had failed ({'; '.join(accepted.failed)}), and what it measured is accepted "
            f"all the same; remove its file under {Path(accepted.store) / 'accepted'} to take that back."
        )
    return options.finish(arguments, accepted)


def print_verdict(result: CheckResult) -> None:
    """One line for each value, why some did not pass, the worst behaviours, the verdict and the report's path."""
    from diffgen.gate.conditions import AGAINST_ACCEPTED, TITLES, table
    from diffgen.wording import leading_warning

    conditions = {each.name: each for each in result.conditions}
    rows, reasons = [], []
    for value in table(result.values, conditions):
        condition = conditions.pop(value.name, None)
        interval = f"  [{value.interval}]" if value.interval else ""
        limit = f"  limit {condition.limit}" if condition is not None and condition.limit else ""
        rows.append((condition.status.value if condition else "-", value.title, f"{value.value}{interval}{limit}"))
        if condition is not None and condition.status.value != "PASS":
            reasons.append(f"{value.title}: {condition.sentence}")
    rows += [(each.status.value, TITLES[each.name], each.sentence) for each in conditions.values()]
    if result.real is not None:
        real, names = result.real, ("base", "candidate")
        found = on_real_images(real.flips_per_1000, real.calibration_error, result.milliseconds, names)
        rows[:0] = [("-", title, text) for title, text in found]
    width = max(len(title) for _, title, _ in rows)
    for status, title, text in rows:
        print(f"{status:<5}  {title:<{width}}  {text}")
    for reason in reasons:
        print(f"why: {reason}")
    if result.cause:
        print(f"probable cause: {result.cause}")
    for sentence in result.worst:
        print(f"new: {sentence}")
    if left := len(result.values.new) - len(result.worst):
        print(f"new: and {left:,} more, in the report")
    worse = any(each.name in AGAINST_ACCEPTED and each.status.value == "FAIL" for each in result.conditions)
    if (result.values.new or worse) and not result.values.search.problem:
        words = ["diffgen", "check", "--accept", result.run, "--store", result.store or "regressions"]
        print(f"accept: {shlex.join(words)}")
    if result.go_on:
        print(f"go on: {result.go_on}")
    warned = {
        each.name: f"{TITLES[each.name]}: {each.sentence}" for each in result.conditions if each.status.value == "WARN"
    }
    why = f" ({leading_warning(warned)})" if result.status.value == "WARN" else ""
    print(f"{result.status.value}{why}: {result.report}", flush=True)
