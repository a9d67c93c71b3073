"""``diffgen report``: draw the report of a run again."""

from __future__ import annotations

import argparse
from typing import Any

from diffgen import api
from diffgen.cli import options


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "report",
        help="draw the report of a run again",
        description="Draw report.html, summary.md and images/ of a run again; needs neither its models nor its data.",
        examples="diffgen report runs/mine",
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote")
    options.add_talk(parser)


def run(arguments: argparse.Namespace) -> int:
    """Draw and print the path of the report."""
    page = api.draw_report(arguments.run_folder)
    print(f"report: {page}")
    return options.finish(arguments, {"run": arguments.run_folder, "report": str(page)})
