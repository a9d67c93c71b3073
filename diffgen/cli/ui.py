"""``diffgen ui``: a page in the browser for those who would rather look than type."""

from __future__ import annotations

import argparse
from typing import Any

from diffgen.errors import UserError

_EXAMPLES = """\
examples:
  diffgen ui                                  the runs under runs/, on http://127.0.0.1:7860
  diffgen ui runs/mine                        one run, and those beside it
  diffgen ui runs --files models --files val  models and images may be picked from these folders
  diffgen ui runs --host 0.0.0.0              for other machines too: prints an address with a token
"""
LOCAL = "127.0.0.1"
PORT = 7860


def add_parser(verbs: Any) -> None:
    """Add this verb to the parser."""
    parser = verbs.add_parser(
        "ui",
        help="a page in the browser: start, watch, look through, label, check",
        description="Serve a page for the browser on this machine: start runs, watch them, look through what they "
        "found, label it, check models. Nothing is loaded from elsewhere and nothing is sent there; a run goes on when "
        "the page is closed.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="?", default="runs", metavar="RUNS", help="folder of run folders (default: runs)")
    parser.add_argument(
        "--files",
        action="append",
        metavar="FOLDER",
        help="models and images may be picked from this folder; may be given again (default: where you are)",
    )
    parser.add_argument("--host", default=LOCAL, metavar="ADDRESS", help=f"address to serve on (default: {LOCAL})")
    parser.add_argument("--port", default=PORT, type=_port, metavar="N", help=f"default: {PORT}; 0 for a free one")
    parser.add_argument(
        "--token", metavar="TEXT", help="who opens the page must know it (default: a random one for other addresses)"
    )
    parser.add_argument("--open", action="store_true", help="open the page in the browser of this machine")
    parser.set_defaults(run=run)


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; give a number from 0 to 65535")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from diffgen.ui import missing

    gone = missing()
    if gone:
        raise UserError(f"The page needs the package {gone}; install it with pip install 'diffgen[ui]'.")
    from diffgen.ui.server import Address, serve

    address = Address(arguments.host, arguments.port, arguments.token)
    serve(arguments.runs, tuple(arguments.files or (".",)), address, say=_say, opens=arguments.open)
    return 0


def _say(sentence: str) -> None:
    print(sentence, flush=True)
