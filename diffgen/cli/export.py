"""``diffgen export``: the pictures and a table of what a run found, as plain files."""

from __future__ import annotations

import argparse
from typing import Any

from diffgen import api
from diffgen.cli import options

_EXAMPLES = """\
examples:
  diffgen export runs/mine                     valid triggers into runs/mine-export
  diffgen export runs/mine -o found --all      also those that a filter rejected
"""


def add_parser(verbs: Any) -> None:
    """Add this verb to the parser."""
    parser = verbs.add_parser(
        "export",
        help="write all pictures of a run, and a table of them",
        description="Write every valid trigger of a run as a PNG, in folders by what A and B say, and a table "
        "(triggers.csv, and triggers.parquet where pyarrow is installed).",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where to (default: RUN-export)")
    parser.add_argument("--all", action="store_true", help="also the triggers that a filter rejected")
    parser.add_argument("--force", action="store_true", help="replace an earlier export in that folder")
    options.add_talk(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Export, and print where to."""
    progress = options.make_progress(arguments)
    result = api.export(
        arguments.run_folder,
        arguments.output,
        everything=arguments.all,
        force=arguments.force,
        events=progress.listener,
        stop=progress.stop,
    )
    print(f"{result.pictures:,} pictures and {' and '.join(result.tables)}: {result.folder}")
    if arguments.json:
        options.print_json(result.as_dict())
    return 0
