"""Exit codes and sentences when nobody can read them: closed pipes, full disks, terminals of few letters, odd names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PLAIN = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def run(script: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A line of the shell in which ``diffgen`` is this checkout's."""
    command = f'diffgen() {{ "{sys.executable}" -m diffgen "$@"; }}; {script}'
    return subprocess.run(
        ["bash", "-c", command], env={**PLAIN, **environment}, capture_output=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("script", "unbuffered"),
    [
        ("diffgen compare --help | true", "1"),
        ("diffgen compare --print-config | head -c 10 >/dev/null", ""),
        pytest.param("diffgen compare --print-config | true", "", marks=pytest.mark.slow),
        pytest.param("diffgen doctor --json | head -c 10 >/dev/null", "1", marks=pytest.mark.slow),
    ],
)
def test_a_reader_that_goes_away_is_no_failure(script, unbuffered):
    done = run(f'{script}; exit "${{PIPESTATUS[0]}}"', PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("unbuffered", ["1", pytest.param("", marks=pytest.mark.slow)])
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_said_and_no_failed_gate(unbuffered):
    done = run("diffgen compare --print-config >/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == 3
    assert done.stderr == b"diffgen: the output cannot be written (No space left on device); free some space.\n"
    done = run("diffgen export nowhere 2>/dev/full", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("unbuffered", ["", pytest.param("1", marks=pytest.mark.slow)])
def test_a_stream_that_was_closed_changes_no_exit_code(unbuffered):
    done = run("diffgen --version >&-; diffgen compare --help >&-", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (0, b"")
    done = run("diffgen export nowhere 2>&-", PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stdout) == (2, b"")
    assert run("diffgen export nowhere >&- 2>&-", PYTHONUNBUFFERED=unbuffered).returncode == 2


def test_an_interrupt_that_a_library_turns_into_another_error_is_one(tmp_path: Path):
    """As numpy, and a class that is being made, do with one that comes while they are imported."""
    program = """
import os, signal, time
from diffgen import cli

def broken(arguments, listener):
    os.kill(os.getpid(), signal.SIGINT)
    try:
        time.sleep(5)
    except KeyboardInterrupt:
        raise RecursionError("too deep") from None

cli._with = broken
raise SystemExit(cli.main(["compare", "--state-file", "state.json"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=PLAIN, cwd=tmp_path, capture_output=True, timeout=1200, check=False
    )
    assert (done.returncode, done.stderr) == (130, b"diffgen: interrupted\n")
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert (state["exit_code"], state["problem"]) == (130, "interrupted")


def test_an_error_after_a_first_interrupt_keeps_its_traceback():
    """A first Ctrl-C lets a search end in good order; what breaks after that is an error of diffgen."""
    program = """
import os, signal, time
from diffgen import cli

def broken(argv, heard):
    signal.signal(signal.SIGINT, lambda number, frame: None)
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1)
    raise ZeroDivisionError("when the triggers were judged")

cli._verb = broken
raise SystemExit(cli.main([]))
"""
    done = subprocess.run([sys.executable, "-c", program], env=PLAIN, capture_output=True, timeout=1200, check=False)
    assert done.returncode == 3
    assert done.stderr.startswith(b"Traceback") and b"when the triggers were judged" in done.stderr


def test_letters_that_the_terminal_lacks_are_spelled_out():
    for encoding in ("ascii", "latin-1"):
        done = run("diffgen export 日本", PYTHONIOENCODING=encoding)
        assert done.returncode == 2
        assert b"\\u65e5\\u672c is not a run folder" in done.stderr


def test_a_terminal_obeys_nothing_that_a_file_says():
    """Names of classes, models and files may come from a stranger, with escape sequences in them."""
    done = run("diffgen export $'a\\x1b[2J\\xc2\\x9bb\\rPASS'")
    assert done.returncode == 2
    assert "a\\u001b[2J\\u009bb\\u000dPASS is not a run folder" in done.stderr.decode()
    script = (
        "from diffgen.cli.streams import lenient_streams\nwith lenient_streams():\n    print('a\\x1b[2J\\tb\\r\\nc')"
    )
    done = subprocess.run([sys.executable, "-c", script], env=PLAIN, capture_output=True, timeout=1200, check=True)
    assert done.stdout == b"a\\u001b[2J\tb\r\nc\n"


@pytest.mark.parametrize(
    "arguments",
    [
        "compare a.onnx b.onnx --data $'d\\xfe.npz'",
        "compare a.onnx b.onnx --data digits -o $'o\\xff'",
        "compare --config $'c\\xff.toml'",
        "export $'r\\xff'",
        "label $'r\\xff' --export sheet",
        "train-gan $'d\\xff'",
    ],
)
def test_names_that_are_no_text_are_refused_at_the_door(arguments, tmp_path, told):
    done = run(f"cd '{tmp_path}'; diffgen {arguments}")
    assert done.returncode == 2
    sentence = done.stderr.decode()
    assert "holds bytes that are not UTF-8; give the file or folder another name." in sentence
    assert "Traceback" not in sentence and not any(tmp_path.iterdir())
    told("The command line", f"`diffgen {arguments}`", sentence.removeprefix("diffgen: "))


def test_an_argument_that_is_too_long_is_refused(told):
    done = run(f"diffgen compare a b --data digits --budget {'9' * 5000}")
    assert done.returncode == 2
    assert b"has 5,000 characters, as no path and no number has" in done.stderr
    told("The command line", "`--budget` of 5,000 digits", done.stderr.decode().removeprefix("diffgen: "))


def test_too_little_memory_for_a_library_is_said(tmp_path):
    (tmp_path / "m.onnx").write_bytes(b"x")
    done = run(f"ulimit -v 300000; diffgen inspect '{tmp_path}/m.onnx' --data digits")
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr
    assert b"memory" in done.stderr


def test_a_file_that_the_system_makes_up_is_no_model(diffgen_command):
    outcome = diffgen_command("inspect", "/proc/self/maps", "--data", "digits")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
