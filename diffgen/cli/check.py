"""``diffgen check``: may this candidate replace the base?"""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import compare, config_file, model_options, options
from diffgen.cli.config_file import ConfigFile
from diffgen.config import (
    GROSS_ACCURACY_DROP,
    GROSS_CLASS_ACCURACY_DROP,
    GROSS_REGRESSION_FAULTS,
    CheckConfig,
    CompareConfig,
    Limits,
    replace,
)
from diffgen.errors import UserError
from diffgen.events import Progress

if TYPE_CHECKING:
    from diffgen.gate.result import CheckResult

_DESCRIPTION = """\
Ask whether a quantized, pruned, converted or retrained model may replace the old one: ask both about the real images,
about what earlier checks found and about random valid generated ones, then search for pictures on which they disagree.
"""

_EXAMPLES = """\
examples:
  diffgen check float.onnx int8.onnx --data val/ --store regressions/ --gan regressions/gan.safetensors
  diffgen check old.pt new.pt --data val/ --max-disagreement 0.5% --max-accuracy-drop 0.2% --max-regression-faults 10
  diffgen check --accept runs/float-vs-int8-... --store regressions/      what it found is known from now on
  diffgen train-gan val/ --output regressions/gan.safetensors             so that a check trains no GAN
  diffgen check --resume runs/float-vs-int8-...                           go on with a check that broke off

exit codes:
  0 PASS or WARN   1 FAIL   2 usage or input   3 ERROR: the check did not come to its end
"""


def add_parser(verbs: Any) -> None:
    """Add this verb to the parser."""
    defaults = CheckConfig()
    parser = verbs.add_parser(
        "check",
        help="may this candidate replace the base? for pipelines",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model_a", nargs="?", metavar="BASE", help="the model that is in use")
    parser.add_argument("model_b", nargs="?", metavar="CANDIDATE", help="the one that may replace it")
    parser.add_argument("--store", metavar="S", help="folder of accepted behaviours; need not exist yet")
    parser.add_argument("--accept", metavar="RUN", help="put the new behaviours of this check into the store, and end")
    parser.add_argument(
        "--resume", metavar="RUN", help="go on with a check that broke off, with the limits that it was started with"
    )
    gate = parser.add_argument_group(
        "limits",
        "A value without a limit is measured and reported only. Without any limit, a candidate still fails if it is\n"
        "undecided on many real images, seems to get the wrong pre-processing, or is grossly worse on labelled real\n"
        "images; a model that does not answer alike twice is an error (docs/check.md).",
    )
    gate.add_argument(
        "--max-disagreement", type=_share, metavar="0.5%|0.005", help="on real and on random valid generated images"
    )
    gate.add_argument(
        "--max-accuracy-drop",
        type=_share,
        metavar="0.2%",
        help=f"on the labelled real images (default: fails if it is shown to be above {GROSS_ACCURACY_DROP:.0%}%)",
    )
    gate.add_argument(
        "--max-class-accuracy-drop",
        type=_share,
        metavar="5%",
        help="of the worst class, on the labelled real images; fails if it is shown to be above the limit, corrected "
        f"for the number of classes (default: {GROSS_CLASS_ACCURACY_DROP:.0%}%)",
    )
    gate.add_argument(
        "--max-new-behaviours",
        type=_count,
        metavar="N|none",
        help="that the store does not know; what a search finds are examples (default: none)",
    )
    gate.add_argument(
        "--max-regression-faults",
        type=_count,
        metavar="N",
        help="labelled real images: base right, candidate wrong (default: fails if it is shown to be above "
        f"{GROSS_REGRESSION_FAULTS:.0%}% of them)",
    )
    gate.add_argument(
        "--max-shift", type=_share, metavar="X", help="largest change of a probability, real and random images"
    )
    gate.add_argument(
        "--random-images",
        type=int,
        metavar="N",
        help=f"random valid generated images that both are asked about (default: {defaults.random_images})",
    )
    compare.add_options(parser, defaults.compare)
    parser.set_defaults(run=run, parser=parser)


def _share(text: str) -> float:
    """``0.5%`` or ``0.005``."""
    number, percent, rest = text.strip().partition("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = -1.0
    if rest or not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a fraction between 0 and 1; write 0.5%% or 0.005".replace("%%", "%")
        )
    return value


def _count(text: str) -> int | str:
    """A whole number, or ``none`` for no limit."""
    if text == config_file.NONE:
        return text
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number; write 0 or more, or 'none' for no limit")
    return int(text)


def config_from(arguments: argparse.Namespace, file: ConfigFile, progress: Any) -> CheckConfig:
    """The settings that options and configuration file name.

    Raises:
        UserError: a value that cannot be.
    """
    defaults = CheckConfig()
    comparison, _ = compare.config_from(arguments, file, progress, defaults.compare)
    given = {f.name: value for f in fields(Limits) if (value := getattr(arguments, f.name)) is not None}
    limits = replace(
        defaults.limits, **{name: None if value == config_file.NONE else value for name, value in given.items()}
    )
    random_images = defaults.random_images if arguments.random_images is None else arguments.random_images
    return replace(defaults, compare=comparison, limits=limits, random_images=random_images)


def run(arguments: argparse.Namespace) -> int:
    """Check or go on with a check, print the conditions, say where the report is; or accept what a check found."""
    progress = options.make_progress(arguments)
    if arguments.resume is not None:
        return _resume(arguments, progress)
    file = ConfigFile()
    if arguments.config is not None:
        file = config_file.read(arguments.config, arguments.parser)
        file.fill(arguments)
    if arguments.accept is not None:
        return _accept(arguments)
    if arguments.print_config:
        raise UserError("A check prints no configuration; write one with 'diffgen compare --print-config'.")
    if arguments.model_a is None or arguments.model_b is None:
        raise UserError("A check needs a base and a candidate; write 'diffgen check BASE CANDIDATE --data D'.")
    if arguments.data is None:
        raise UserError("The real images are missing; name them with --data (a folder, a zip, or 'digits').")
    config = config_from(arguments, file, progress)
    result = api.check(
        arguments.model_a,
        arguments.model_b,
        data=arguments.data,
        store=arguments.store,
        config=config,
        output=arguments.output,
        force=arguments.force,
        events=progress.listener,
        stop=progress.stop,
        command=shlex.join(["diffgen", *sys.argv[1:]]),
    )
    return _print(arguments, result)


def _resume(arguments: argparse.Namespace, progress: Progress) -> int:
    named = [*(f.name for f in fields(Limits)), "random_images", "config"]
    given = [name.replace("_", "-") for name in named if getattr(arguments, name) is not None]
    if given:
        raise UserError(f"A check that is resumed keeps what it was started with; leave --{given[0]} out.")
    result = api.resume_check(
        arguments.resume,
        arguments.model_a,
        arguments.model_b,
        data=arguments.data,
        store=arguments.store,
        options=model_options.apply(arguments, CompareConfig()),
        events=progress.listener,
        stop=progress.stop,
    )
    return _print(arguments, result)


def _print(arguments: argparse.Namespace, result: CheckResult) -> int:
    """The verdict, for people or as JSON; returns the exit code."""
    print_verdict(result, arguments.store)
    if arguments.json:
        options.print_json(result.as_dict())
    return result.exit_code


def _accept(arguments: argparse.Namespace) -> int:
    if arguments.store is None:
        raise UserError("The store is missing; name the folder that shall know them with --store.")
    accepted = api.accept(arguments.accept, arguments.store)
    print(f"{accepted.added:,} behaviours added to {accepted.store}; {accepted.known:,} were known.")
    if arguments.json:
        options.print_json(accepted.as_dict())
    return 0


def print_verdict(result: CheckResult, store: str | None = None) -> None:
    """One line for each value, then the worst behaviours, the verdict and the report's path, on stdout."""
    from diffgen.gate.measured import AGAINST_ACCEPTED, measured

    conditions = {each.name: each for each in result.conditions}
    rows = []
    for value in measured(result.values, conditions):
        condition = conditions.pop(value.name, None)
        interval = f"  [{value.interval}]" if value.interval else ""
        limit = f"  limit {condition.limit}" if condition is not None and condition.limit else ""
        rows.append((condition.status.value if condition else "-", value.title, f"{value.value}{interval}{limit}"))
    rows += [(each.status.value, each.name.replace("_", " "), each.sentence) for each in conditions.values()]
    width = max(len(title) for _, title, _ in rows)
    for status, title, text in rows:
        print(f"{status:<5}  {title:<{width}}  {text}")
    for sentence in result.worst:
        print(f"new: {sentence}")
    worse = [each for each in result.conditions if each.name in AGAINST_ACCEPTED and each.status.value == "FAIL"]
    for each in worse:
        print(f"worse: {each.sentence}")
    if (result.values.new or worse) and not result.values.search.problem:
        print(f"accept: diffgen check --accept {shlex.quote(result.run)} --store {shlex.quote(store or 'regressions')}")
    if result.go_on:
        print(f"go on: {result.go_on}")
    print(f"{result.status.value}: {result.report}", flush=True)
