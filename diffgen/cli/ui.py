"""``diffgen ui``: a page in the browser for those who would rather look than type."""

from __future__ import annotations

import argparse
from typing import Any

from diffgen.errors import UserError

_EXAMPLES = """\
diffgen ui                                  the runs under runs/, on http://127.0.0.1:7860
diffgen ui runs/mine                        one run, and those beside it
diffgen ui runs --files models --files val  models and images may be picked from these folders
diffgen ui runs --host 0.0.0.0              for other machines too
"""
LOCAL = "127.0.0.1"
PORT = 7860


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "ui",
        help="a page in the browser: start, watch, look through, label, check",
        description="Serve a page for the browser on this machine: start runs, watch them, look through what they "
        "found, label it, check models. Nothing is loaded from elsewhere and nothing is sent there; a run goes on when "
        "the page is closed.",
        examples=_EXAMPLES,
    )
    parser.add_argument("runs", nargs="?", default="runs", metavar="RUNS", help="folder of run folders (default: runs)")
    parser.add_argument(
        "--files",
        action="append",
        metavar="FOLDER",
        help="models and images may be picked from this folder; may be given again (default: where you are)",
    )
    parser.add_argument(
        "--host", default=LOCAL, type=_host, metavar="ADDRESS", help=f"address to serve on (default: {LOCAL})"
    )
    parser.add_argument("--port", default=PORT, type=_port, metavar="N", help=f"default: {PORT}; 0 for a free one")
    parser.add_argument(
        "--token",
        type=_token,
        metavar="TEXT",
        help="who opens the page must know it; other accounts of this machine can read it in the list of processes "
        "(default: a random one, which they cannot)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser of this machine")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 0 to 65535")
    return int(text)


def _host(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; give an address such as 127.0.0.1, or 0.0.0.0 for all of them")
    return text.strip().removeprefix("[").removesuffix("]")


def _token(text: str) -> str:
    from diffgen.ui.server import TOKEN

    if not TOKEN.fullmatch(text):
        raise argparse.ArgumentTypeError("it cannot stand in an address; give 8 to 200 letters, digits, - and _")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from diffgen.ui import missing

    gone = missing()
    if gone:
        raise UserError(f"The page needs the package {gone}; install it with pip install 'diffgen[ui]'.")
    from diffgen.ui.server import Address, serve

    own = {} if arguments.token is None else {"token": arguments.token}
    address = Address(arguments.host, arguments.port, **own)
    serve(arguments.runs, tuple(arguments.files or (".",)), address, say=_say, opens=arguments.open)
    return 0


def _say(sentence: str) -> None:
    print(sentence, flush=True)
