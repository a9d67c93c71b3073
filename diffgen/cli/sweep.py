"""``diffgen sweep``: many comparisons from one file."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from diffgen import api
from diffgen.cli import options

_EXAMPLES = """\
diffgen sweep sweep.toml                 all comparisons of the file, one after the other
diffgen sweep sweep.toml --workers 4     four at once; the same command resumes it
diffgen sweep sweep.toml --ray auto      on a Ray cluster, one for each of its cores
"""
_MORE = """\
The file:
  output = "sweeps/first"
  techniques = ["diffgan", "dflare"]
  seeds = [1, 2, 3]
  budgets = ["20000q"]
  [[pairs]]
  name = "lenet"
  models = ["a.pt", "b.onnx"]
  data = "digits"
  [settings.search]
  population = 200
"""
_STOPPING = (
    "Stopping: what is done is reported; comparisons under way are ended, and the same command goes on with them from "
    "their last checkpoints."
)


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "sweep",
        help="many comparisons from one file",
        description="Compare pairs of models x techniques x budgets x seeds, each in a run folder of its own, and "
        "write one table (table.csv) and one page (report.html).",
        examples=_EXAMPLES,
        epilog=_MORE,
    )
    parser.add_argument("plan", metavar="FILE", help="TOML file that says what is compared")
    parser.add_argument(
        "--workers", type=int, metavar="N", help="comparisons at once (default: 1; on a cluster one for each core)"
    )
    parser.add_argument(
        "--ray",
        metavar="auto|ADDRESS",
        help="run them on a Ray cluster, whose address this is (host:port or ray://host:port); auto: that of this "
        "machine, or one that is started for the sweep; needs pip install diffgen[ray]",
    )
    options.add_talk(parser)
    parser.set_defaults(stopping=_STOPPING)


def run(arguments: argparse.Namespace) -> int:
    """Run the sweep and print where its table is."""
    result = api.sweep(arguments.plan, workers=arguments.workers, ray=arguments.ray, **options.events(arguments))
    counts = Counter(each.status for each in result.outcomes)
    others = "".join(f", {counts[each]:,} {each}" for each in ("begun", "failed") if counts[each])
    print(f"comparisons done  {counts['done']:,} of {len(result.outcomes):,}{others}")
    print(f"report: {result.report}")
    return options.finish(arguments, result, 130 if result.interrupted else 3 if counts["failed"] else 0)
