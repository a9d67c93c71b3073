"""``diffgen shrink``: the smallest difference that makes the models disagree."""

from __future__ import annotations

import argparse
from typing import Any

from diffgen import api
from diffgen.cli import model_options, options

_EXAMPLES = """\
diffgen shrink runs/mine               some triggers, one of each behaviour first
diffgen shrink runs/mine --limit 200   more of them
diffgen shrink runs/mine --trigger 17  one of them, beside those from before
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "shrink",
        help="find the smallest step that still triggers",
        description="Lead triggers of a run toward the nearest picture on which the models agree, keep the smallest "
        "step that still triggers, and show both pictures and their difference in the run's report.",
        examples=_EXAMPLES,
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote")
    parser.add_argument("--limit", type=int, metavar="N", help="maximum number of triggers (default: 24)")
    options.add_triggers(parser, "shrink this one")
    parser.add_argument("--data", metavar="D", help="the run's real images, where they have moved")
    options.add_device(parser)
    model_options.add_last(parser)


def run(arguments: argparse.Namespace) -> int:
    """Shrink and print how far it went."""
    from diffgen.workflows.shrink import LIMIT

    result = api.shrink(
        arguments.run_folder,
        limit=LIMIT if arguments.limit is None else arguments.limit,
        triggers=arguments.triggers,
        data=arguments.data,
        device=arguments.device,
        options=model_options.specs_of_run(arguments, arguments.run_folder),
        **options.events(arguments),
    )
    print(f"{result.shrunk:,} of {result.tried:,} triggers shrunk.")
    if result.after is not None:
        print(
            f"The two pictures of a pair differ by {result.after:.2f} grey levels (median); the nearest agreeing "
            f"picture was {result.before:.2f} away before."
        )
    print(f"report: {result.report}")
    return options.finish(arguments, result)
