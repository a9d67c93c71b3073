"""``diffgen predict``: classify pictures with the model that the selector trusts."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.config import roles

_EXAMPLES = """\
diffgen predict runs/mine new-pictures/                     a table on stdout
diffgen predict runs/mine new-pictures/ -o answers.csv
diffgen predict runs/mine new-pictures/ --rule soft-vote    ask all models instead
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "predict",
        help="classify pictures with the model that the selector trusts",
        description="Classify the pictures of a folder with the models of a run: its selector looks at each one "
        "and only the model that it trusts is asked.",
        examples=_EXAMPLES,
    )
    parser.add_argument("run_folder", metavar="RUN", help="a run with a selector")
    parser.add_argument("pictures", metavar="FOLDER", help="pictures of the size that the run was made with")
    parser.add_argument("-o", "--output", metavar="CSV", help="write the table into this file")
    parser.add_argument(
        "--rule",
        choices=("selector", "soft-vote", "confidence"),
        default="selector",
        help="selector (default), or ask all: the mean of their probabilities, or the most certain one",
    )
    parser.add_argument("--force", action="store_true", help="replace the CSV file")
    options.add_device(parser)
    model_options.add_last(parser)


def run(arguments: argparse.Namespace) -> int:
    result = api.predict(
        arguments.run_folder,
        arguments.pictures,
        rule=arguments.rule,
        output=arguments.output,
        device=arguments.device,
        options=model_options.specs_of_run(arguments, arguments.run_folder),
        force=arguments.force,
        **options.events(arguments),
    )
    if arguments.output is None and not arguments.json:
        sys.stdout.write(result.as_csv())
    elif not arguments.json:
        (first, count), *others = zip(roles(result.asked), result.asked, strict=True)
        rest = "".join(f", {role} {asked:,}" for role, asked in others)
        print(f"{len(result.files):,} pictures, {first} asked {count:,} times{rest}.")
        print(f"table: {arguments.output}")
    return options.finish(arguments, result)
