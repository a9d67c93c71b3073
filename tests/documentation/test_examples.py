"""The examples, run as they stand; only budgets are smaller, and the images fewer."""

from __future__ import annotations

import os
import runpy
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree

from diffgen.cli import main
from diffgen.runs.folder import RunFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
# what stands in an example -> what is run: with 90 images there is no jury, and these operators need no auto-encoder
_SMALLER = {
    "seed=0)": "seed=0, passes=5)",
    "--budget 20000q": "--config small.toml --budget 300q",
    "--budget 10000q": "--config small.toml --budget 300q",
    "--budget=20000q": "--config=small.toml --budget=300q",
    'budget="20000q"': 'budget="300q", config=small',
    'budget="10000q"': 'budget="300q", config=small',
}
_SMALL = """\
[filters]
names = []

[source.seeds]
operators = ["rotation", "shift", "contrast"]
"""
_IMAGES = 9  # of each class


def smaller(text: str, **more: str) -> str:
    """A text of an example with small budgets."""
    for full, small in {**_SMALLER, **more}.items():
        text = text.replace(full, small)
    return text


@pytest.fixture(scope="module")
def examples(repository: Path) -> Path:
    return repository / "examples"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, examples: Path) -> Path:
    """What onnx_pair.py makes, with fewer images, and a store with what the gate finds between the two models."""
    folder = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "small.toml").write_text(_SMALL, encoding="utf-8")
        (folder / "onnx_pair.py").write_text(smaller((examples / "onnx_pair.py").read_text(encoding="utf-8")))
        runpy.run_path("onnx_pair.py", run_name="__main__")
        for kind in (folder / "val").iterdir():
            for file in sorted(kind.iterdir())[_IMAGES:]:
                file.unlink()
        for command in _shell_block(examples / "README.md")[1:]:
            assert main(shlex.split(smaller(command), comments=True)[1:]) in (0, 1)
    return folder


def _shell_block(page: Path) -> list[str]:
    block = page.read_text(encoding="utf-8").split("```sh\n")[1].split("```")[0]
    return block.splitlines()


@pytest.fixture
def shell(project: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """Runs a script in the project: commands of diffgen in this process, the others in a shell."""
    monkeypatch.chdir(project)

    def run(script: str) -> int:
        words = shlex.split(script)
        if words[0] == "diffgen":
            return main(words[1:])
        return subprocess.run(["bash", "-ec", script]).returncode

    return run


def test_the_project_that_they_presuppose_is_made_by_its_commands(project: Path) -> None:
    assert {"models", "val", "gate", "regressions"} <= {each.name for each in project.iterdir()}
    assert RunFolder.open(project / "gate").results()["check"]["values"]["known_behaviours"] == 0
    assert any((project / "regressions").rglob("*.json"))


def test_github_actions(
    examples: Path, project: Path, shell: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    workflow: dict[str, Any] = yaml.safe_load((examples / "github-actions.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["gate"]["steps"]
    install, *others = [step["run"] for step in steps if "run" in step]
    assert install == 'pip install "$DIFFGEN"'
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project / "step-summary.md"))
    assert [shell(smaller(each)) for each in others] == [0, 0]
    # of so few images no interval is narrow enough for a PASS
    assert "diffgen check: WARN" in (project / "step-summary.md").read_text(encoding="utf-8").splitlines()[0]
    (uploaded,) = (step["with"]["path"] for step in steps if step.get("uses", "").startswith("actions/upload"))
    assert (project / uploaded / "report.html").is_file()


def test_gitlab_ci(examples: Path, project: Path, shell: Callable[[str], int]) -> None:
    job: dict[str, Any] = yaml.safe_load((examples / "gitlab-ci.yml").read_text(encoding="utf-8"))["model-gate"]
    install, check = job["script"]
    assert install == 'pip install "$DIFFGEN"'
    assert shell(smaller(check)) == 0
    cases = etree.parse(project / job["artifacts"]["reports"]["junit"]).findall(".//testcase")
    assert any(case.get("classname") == "diffgen.condition" for case in cases)


def test_pre_commit(examples: Path, repository: Path, project: Path, shell: Callable[[str], int]) -> None:
    """pre-commit puts the hook of the repository and its use in a configuration together in this way."""
    hooks: list[dict[str, Any]] = yaml.safe_load((repository / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    config: dict[str, Any] = yaml.safe_load((examples / "pre-commit-config.yaml").read_text(encoding="utf-8"))
    (used,) = config["repos"][0]["hooks"]
    hook = {**{each["id"]: each for each in hooks}[used["id"]], **used}
    assert hook["pass_filenames"] is False
    assert hook["stages"] == config["default_install_hook_types"]
    command = " ".join([hook["entry"], *hook["args"]])
    assert shell(smaller(command)) == 0
    worse = smaller(command).replace("int8.onnx", "bad.onnx")
    broken = (project / "models" / "float.onnx").read_bytes()
    (project / "models" / "bad.onnx").write_bytes(broken[:1000])
    assert shell(worse) == 2


def test_pytest(examples: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    settings = (
        "from diffgen import CheckConfig, load_settings\nsmall = CheckConfig(compare=load_settings('small.toml'))\n"
    )
    text = settings + smaller((examples / "test_model_gate.py").read_text(encoding="utf-8"))
    (project / "test_model_gate.py").write_text(text, encoding="utf-8")
    test = runpy.run_path("test_model_gate.py")["test_int8_may_replace_float"]
    test()
    (project / "test_no_change.py").write_text(text.replace("max_disagreement=0.02", "max_shift=0"), encoding="utf-8")
    with pytest.raises(AssertionError, match="diffgen check: FAIL\n  FAIL shift"):
        runpy.run_path("test_no_change.py")["test_int8_may_replace_float"]()


def test_notebook(examples: Path, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(project)
    settings = "from diffgen import load_settings\nsmall = load_settings('small.toml')\n"
    (project / "notebook.py").write_text(settings + smaller((examples / "notebook.py").read_text(encoding="utf-8")))
    runpy.run_path("notebook.py")
    assert "behaviours: run\n" in capsys.readouterr().out


def test_server(examples: Path, project: Path, shell: Callable[[str], int]) -> None:
    module = runpy.run_path(str(examples / "server.py"))
    compare = module["__doc__"].split("    diffgen ")[1].splitlines()[0]
    with module["serve"](project / "models" / "int8.onnx", 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        there = smaller(f"diffgen {compare} -o remote -q", **{":8080": f":{server.server_port}"})
        assert shell(there) == 0
        unknown = there.replace("models/int8", "models/other").replace("-o remote", "-o unknown")
        assert shell(unknown) == 2
        server.shutdown()
        thread.join()
    results = RunFolder.open(project / "remote").results()
    assert results["preflight"]["accuracy"][1] > 0.8


def test_keras(
    examples: Path, project: Path, repository: Path, shell: Callable[[str], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # read when Keras is imported; without TensorFlow it could not be
    pytest.importorskip("keras", reason="pip install diffgen[keras] brings what reads Keras' files")
    script = examples / "keras_pair.py"
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    subprocess.run([sys.executable, str(script)], cwd=project, env=environment, check=True)
    compare = script.read_text(encoding="utf-8").split("    diffgen ")[1].splitlines()[0]
    assert shell(smaller(f"diffgen {compare} -o keras -q")) == 0
    accuracy = RunFolder.open(project / "keras").results()["preflight"]["accuracy"]
    assert accuracy[0] >= accuracy[1] > 0.5
