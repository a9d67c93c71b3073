"""The command line: parses and prints, computes nothing. One file per verb."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import diffgen
from diffgen.cli import (
    check,
    compare,
    completion,
    demo,
    doctor,
    explain,
    export,
    inspect,
    label,
    predict,
    quantize,
    rank,
    replay,
    report,
    select,
    shrink,
    sweep,
    train_gan,
    ui,
)
from diffgen.cli.help import Parser
from diffgen.cli.progress import TerminalListener
from diffgen.cli.signals import INTERRUPTED, STOPPING, second_signal_ends, signals_stop
from diffgen.cli.streams import lenient_streams, spelled_out
from diffgen.errors import DiffgenError, UserError
from diffgen.events import Listener, Progress

BROKE_OFF = 3
_LONGEST_ARGUMENT = 4096  # characters, as the longest path on Linux
_NO_MEMORY = "failed to map segment"  # what the dynamic loader says

_EXAMPLES = """\
diffgen demo                                    a whole run on embedded digits, in some minutes
diffgen compare a.onnx b.pt --data test/        search for 60 seconds, write a report
diffgen check old.onnx new.onnx --data val/     may the new one replace the old one? for pipelines
diffgen inspect a.onnx --data test/             which pre-processing a model wants
diffgen explain a.onnx b.onnx --data test/      why they differ: pipeline or weights
diffgen label runs/mine --export sheet          what the pictures show, by people
diffgen COMMAND --help                          the examples and options of a command
"""
_EXIT_CODES = """\
exit codes:
  0 done   1 a gate failed   2 usage or input   3 the run broke off   130 interrupted
"""

# in the order of the help text; each is named after its verb
VERBS = (
    compare,
    check,
    demo,
    inspect,
    explain,
    quantize,
    train_gan,
    replay,
    shrink,
    sweep,
    report,
    export,
    label,
    select,
    predict,
    rank,
    ui,
    doctor,
    completion,
)


def build_parser() -> Parser:
    """The parser of all verbs."""
    parser = Parser(
        prog="diffgen",
        description="Find realistic pictures on which two image classifiers disagree.",
        examples=_EXAMPLES,
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"diffgen {diffgen.__version__}")
    verbs = parser.add_subparsers(title="commands", dest="verb", metavar="COMMAND")
    for module in VERBS:
        module.add_parser(verbs)
        verb = module.__name__.rpartition(".")[2].replace("_", "-")
        verbs.choices[verb].set_defaults(run=module.run)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code, which says what the verb did even where nobody reads its output."""
    with lenient_streams() as lost:
        code = _run(argv)
    if lost:
        with lenient_streams():
            print(f"diffgen: the output cannot be written ({lost[0].strerror}); free some space.", file=sys.stderr)
        return code or BROKE_OFF
    return code


def _run(argv: Sequence[str] | None) -> int:
    # Waiting threads sleep instead of spinning: beside another busy process that is several times faster
    # (docs/decisions/003-waiting-threads-sleep.md). Read by OpenMP when torch is first imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # a polite kill is treated like Ctrl-C: what was found is kept
    previous = signal.signal(signal.SIGTERM, _raise_interrupt)
    try:
        with second_signal_ends() as heard, _interrupts_as_such(heard):
            return _verb(argv, heard)
    except DiffgenError as error:
        _complain(str(error))
        _print_notes(error)
        if error.__cause__ is not None and not isinstance(error, UserError):
            _complain(f"caused by {type(error.__cause__).__name__}: {error.__cause__}")
        return error.exit_code
    except KeyboardInterrupt as error:
        print("diffgen: interrupted", file=sys.stderr)
        _print_notes(error)
        return INTERRUPTED
    except MemoryError as error:
        print(f"diffgen: the memory is used up ({str(error) or 'MemoryError'}); close other programs.", file=sys.stderr)
        _print_notes(error)
        return BROKE_OFF
    except Exception as error:
        if isinstance(error, ImportError) and _NO_MEMORY in str(error):
            print(f"diffgen: a library cannot be loaded for lack of memory ({error}).", file=sys.stderr)
            return BROKE_OFF
        # an error of diffgen itself keeps its traceback; Python's own exit code, 1, would say that a gate failed
        traceback.print_exc()
        return BROKE_OFF
    finally:
        signal.signal(signal.SIGTERM, previous)


@contextmanager
def _interrupts_as_such(heard: list[int]) -> Iterator[None]:
    """Raise KeyboardInterrupt for an error that follows a signal and is made of it.

    What interrupts an import comes out of Python and of some libraries as an error of theirs; any other error after a
    first Ctrl-C, which lets the search end in good order, is one of diffgen.
    """
    try:
        yield
    except Exception as error:
        if not heard or not _comes_of_an_interrupt(error):
            raise
        interrupt = KeyboardInterrupt()
        for note in getattr(error, "__notes__", ()):
            interrupt.add_note(note)
        raise interrupt from error


def _comes_of_an_interrupt(error: Exception) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__context__
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_filename.startswith("<frozen importlib") for frame, _ in frames)


def _as_text(argument: str) -> str:
    """An argument of the command line.

    Raises:
        UserError: it is longer than a path can be, or holds bytes that are no text, which no settings file, manifest
            or report could keep.
    """
    if len(argument) > _LONGEST_ARGUMENT:
        raise UserError(
            f"The argument that begins {argument[:20]!r} has {len(argument):,} characters, as no path and no number "
            "has; give a shorter one."
        )
    try:
        argument.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UserError(
            f"The argument {argument!r} holds bytes that are not UTF-8; give the file or folder another name."
        ) from error
    return argument


def _verb(argv: Sequence[str] | None, heard: list[int]) -> int:
    parser = build_parser()
    words = sys.argv[1:] if argv is None else argv
    try:
        arguments, unknown = parser.parse_known_args([_as_text(each) for each in words])
        if unknown:
            parser.prog = " ".join(filter(None, (parser.prog, arguments.verb)))  # whose help has the options
            parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except UserError:
        check.refused(words)
        raise
    if arguments.verb is None:
        parser.print_help()
        return 0
    # some verbs take no -q and no -v
    listener = TerminalListener(quiet=getattr(arguments, "quiet", False), verbose=getattr(arguments, "verbose", False))
    state = getattr(arguments, "state_file", None)
    if state is None:
        return _with(arguments, listener)
    from diffgen.cli.progress import StateFile

    kept = StateFile(Path(state), listener)
    with kept.ending(), _interrupts_as_such(heard):
        return kept.came_to(_with(arguments, kept))


def _with(arguments: argparse.Namespace, listener: Listener) -> int:
    arguments.progress = Progress(listener)
    with signals_stop(arguments.progress, getattr(arguments, "stopping", STOPPING)):
        code: int = arguments.run(arguments)
    return code


def _print_notes(error: BaseException) -> None:
    for note in getattr(error, "__notes__", ()):
        _complain(note)


def _complain(sentence: str) -> None:
    print(spelled_out(f"diffgen: {sentence}"), file=sys.stderr)


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
