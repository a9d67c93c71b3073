"""The verb completion: what a real shell completes by its script."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffgen.cli.completion import SHELLS

pytest.importorskip("shtab", reason="needs the extra completion")
Told = Callable[[str, str, str], None]


def completed(script: Path, *words: str) -> set[str]:
    """What bash offers for the last of the words of a command line."""
    ask = (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        f"COMP_LINE='{' '.join(words)}'; COMP_POINT=${{#COMP_LINE}}; "
        "$(complete -p diffgen | sed 's/.*-F \\([^ ]*\\).*/\\1/') diffgen; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    shell = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, timeout=1200)
    return set(shell.stdout.split())


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_verbs_options_and_values(
    diffgen_command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "diffgen.bash"
    script.write_text(diffgen_command("completion", "bash").out)
    assert {"compare", "check", "completion"} <= completed(script, "diffgen", "c")
    assert "demo" not in completed(script, "diffgen", "c")
    assert "--budget" in completed(script, "diffgen", "compare", "--bud")
    assert completed(script, "diffgen", "completion", "z") == {"zsh"}
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.onnx").touch()
    assert completed(script, "diffgen", "compare", "mod") == {"model.onnx"}
    assert completed(script, "diffgen", "compare", "--data", "mod") == {"model.onnx"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script(diffgen_command: Callable[..., Any], shell: str) -> None:
    outcome = diffgen_command("completion", shell)
    assert outcome.code == 0
    assert "compare" in outcome.out and "--budget" in outcome.out


def test_without_the_package(diffgen_command: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, told: Told) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    outcome = diffgen_command("completion", "bash")
    assert outcome.code == 2
    told("`diffgen completion`", "shtab is not installed", outcome.err.strip().removeprefix("diffgen: "))


def test_a_shell_that_is_not_known(diffgen_command: Callable[..., Any], told: Told) -> None:
    outcome = diffgen_command("completion", "fish")
    assert outcome.code == 2
    told("`diffgen completion`", "a shell that is not known", outcome.err.strip().removeprefix("diffgen: "))
