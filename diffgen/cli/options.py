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


def add_machine(parser: argparse.ArgumentParser, *, default: str | None = "auto") -> None:
    """--device and --batch-size; a default of None tells the option that was not given from the one that was."""
    machine = parser.add_argument_group("machine")
    machine.add_argument(
        "--device", default=default, metavar="auto|cpu|cuda|mps", help="default: a GPU when there is one"
    )
    machine.add_argument("--batch-size", default=default, metavar="auto|N", help="images that a network gets at once")


def add_reading(parser: argparse.ArgumentParser) -> None:
    """--resize, --fit, --skip-broken and --exif: how real images are read."""
    parser.add_argument("--resize", metavar="N|HxW", help="resize all images to this size first")
    parser.add_argument(
        "--fit",
        choices=("crop", "pad", "stretch"),
        default="crop",
        metavar="crop|pad|stretch",
        help="other proportions when resizing: keep the middle (crop, default), add black (pad), or distort (stretch)",
    )
    parser.add_argument(
        "--skip-broken", action="store_true", help="leave out image files that cannot be used, and name them"
    )
    parser.add_argument(
        "--exif",
        choices=("ignore", "apply"),
        default="ignore",
        metavar="ignore|apply",
        help="turn image files as their EXIF orientation says (default: ignore)",
    )


def reading(arguments: argparse.Namespace) -> dict[str, Any]:
    """What these options say, by the names of the settings."""
    return {name: getattr(arguments, name) for name in ("resize", "fit", "skip_broken", "exif")}


def batch_size(text: str) -> int | None:
    """The value of --batch-size.

    Raises:
        UserError: neither ``auto`` nor a whole number.
    """
    if text == "auto":
        return None
    try:
        return int(text)
    except ValueError as error:
        raise UserError(
            f"The batch size {text!r} is not understood; use --batch-size auto or a number such as 256."
        ) from error


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
