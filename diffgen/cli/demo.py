"""``diffgen demo``: a whole run on the digits that ship inside scikit-learn."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from diffgen import api
from diffgen.cli import check, options, table
from diffgen.cli.settings_options import add_settings, settings_from
from diffgen.config import Budget, CheckConfig, CompareConfig
from diffgen.errors import UserError

_DESCRIPTION = """\
A whole run with nothing from outside: the 1,797 handwritten digits that ship inside scikit-learn (real scans of 8x8
pixels, here scaled up to 28x28), two small classifiers of different architecture trained on half of them and saved as
model files (TorchScript and ONNX), a search among changed copies of the other half, filters, and a report. With --gate
one classifier and its 8-bit quantization instead, and the verdict whether the one may replace the other. With --task
detection two detectors that find the digits on plain grounds.
"""


_BUDGET = Budget(seconds=30.0)
_SETTINGS = ("seed", "device", "batch_size")


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "demo",
        help="a whole run on embedded digits, in some minutes",
        description=_DESCRIPTION,
        examples="diffgen demo\ndiffgen demo --budget 10s -o runs/demo --force\ndiffgen demo --gate\n"
        "diffgen demo --task detection",
    )
    parser.add_argument(
        "--task",
        choices=("classification", "detection"),
        default="classification",
        help="what the models do; detection: find digits on plain grounds (default: %(default)s)",
    )
    parser.add_argument("--gate", action="store_true", help="check a quantized model against the one it was made from")
    parser.add_argument(
        "--budget",
        metavar="30s|20000q",
        help=f"search budget, such as 60s or 20000q (default: {_BUDGET}; with --gate {CheckConfig().compare.budget})",
    )
    parser.add_argument("-o", "--output", default="demo-run", metavar="RUN", help="run folder (default: %(default)s)")
    parser.add_argument("--force", action="store_true", help="replace the run in an output folder that is not empty")
    add_settings(parser, CompareConfig, _SETTINGS)
    options.add_talk(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the demonstration and print its table."""
    settings = settings_from(arguments, CompareConfig)
    given = None if arguments.budget is None else Budget.parse(arguments.budget)
    common: dict[str, Any] = {
        "output": arguments.output,
        "force": arguments.force,
        **{name: getattr(settings, name) for name in _SETTINGS},
        **options.events(arguments),
        "command": shlex.join(["diffgen", *sys.argv[1:]]),
    }
    if arguments.gate and arguments.task == "detection":
        raise UserError("--gate is a demonstration with classifiers; leave it out, or --task detection.")
    if arguments.gate:
        verdict = api.demo_gate(budget=given, **common)
        check.print_verdict(verdict)
        return options.finish(arguments, verdict, verdict.exit_code)
    demo = api.demo_detection if arguments.task == "detection" else api.demo
    result = demo(budget=given or _BUDGET, **common)
    table.print_result(result)
    return options.finish(arguments, result, 130 if result.interrupted else 0)
