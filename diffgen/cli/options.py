"""Options that several verbs share."""

from __future__ import annotations

import argparse
import json
from typing import Any

from diffgen.errors import UserError
from diffgen.events import Progress


def add_talk(parser: argparse.ArgumentParser) -> argparse.Action:
    """-q, -v, --json and --state-file; gives the last one, which programs need and people hardly ever."""
    talk = parser.add_argument_group("output")
    talk.add_argument("-q", "--quiet", action="store_true", help="print only results and warnings")
    talk.add_argument("-v", "--verbose", action="store_true", help="print more details")
    talk.add_argument(
        "--json", action="store_true", help="print the figures as one JSON object, the last line of stdout"
    )
    return talk.add_argument(
        "--state-file",
        metavar="FILE",
        help="keep how far it is in FILE, as JSON, for a program that watches it",
    )


def add_triggers(parser: argparse.ArgumentParser, what: str) -> None:
    """--trigger: numbers of triggers, as a report shows them."""
    parser.add_argument(
        "--trigger",
        action="append",
        type=int,
        default=[],
        dest="triggers",
        metavar="N",
        help=f"{what}, by its number in the report; may be given again",
    )


def need_data(arguments: argparse.Namespace) -> None:
    """See that the real images are named, or raise UserError."""
    if arguments.data is None:
        raise UserError("The real images are missing; name them with --data (a folder, a zip, or 'digits').")


def add_device(parser: argparse.ArgumentParser, usual: str = "default: the run's") -> None:
    """--device, of a verb that works with a run."""
    parser.add_argument("--device", metavar="auto|cpu|cuda|mps", help=usual)


def events(arguments: argparse.Namespace) -> dict[str, Any]:
    """Where the verb says how far it is, and what a signal stops; parameters of the functions of the API."""
    progress: Progress = arguments.progress
    return {"events": progress.listener, "stop": progress.stop}


def finish(arguments: argparse.Namespace, result: Any, code: int = 0) -> int:
    """Print a result, or what it is as JSON values, as one object on one line where the user asked for it.

    Returns:
        the exit code that was given.
    """
    if arguments.json:
        print(json.dumps(result if isinstance(result, dict) else result.as_dict()), flush=True)
    return code
