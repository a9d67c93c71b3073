"""The commands of docs/howto/ci.md, taken out of the page and run; only budgets are smaller."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from lxml import etree
from PIL import Image

from diffgen.data import load
from diffgen.runs.store import read_store
from diffgen.workflows.demo import convolutional_classifier, save_onnx, train_classifier
from diffgen.workflows.quantize import quantize

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
_SMALLER = {"20000q": "2000q", "train-gan val/": "train-gan val/ --steps 400 --draws 1", "git add": "test -d"}


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "howto" / "ci.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the recipes presuppose: models/float.onnx, models/int8.onnx and val/."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "models").mkdir()
    network = train_classifier(convolutional_classifier(10), load("digits:train"), seed=0, passes=6)
    save_onnx(network, folder / "models" / "float.onnx")
    digits = load("digits:test")
    assert digits.labels is not None
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        place = folder / "val" / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(place / f"{number:04d}.png")
    quantize(folder / "models" / "float.onnx", data=folder / "val", output=folder / "models" / "int8.onnx")
    return folder


def run(project: Path, repository: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script as a pipeline does, the program taken from the checkout."""
    for full, small in _SMALLER.items():
        script = script.replace(full, small)
    preamble = f'set -e\ndiffgen() {{ "{sys.executable}" -m diffgen "$@"; }}\n'
    environment = {
        **os.environ,
        "PYTHONPATH": str(repository),
        "DIFFGEN_CACHE": str(project / ".diffgen-cache"),
        "GITHUB_STEP_SUMMARY": str(project / "step-summary.md"),
    }
    return subprocess.run(
        ["bash", "-c", preamble + script], cwd=project, env=environment, capture_output=True, text=True
    )


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, flags=re.DOTALL)


def test_recipes(page: str, project: Path, repository: Path) -> None:
    once, accept = blocks(page, "sh")
    # the first check may fail: its finds are what is accepted then
    commands = once.replace("-o gate\n", "--budget 20000q -o gate || test $? = 1\n")
    done = run(project, repository, commands)
    assert done.returncode == 0, done.stderr
    known = read_store(project / "regressions").behaviours
    assert "Training a GAN" not in run_recipe(blocks(page, "yaml")[0], project, repository)
    assert (project / "step-summary.md").read_text(encoding="utf-8").startswith("## ✅ diffgen check: PASS")
    run_recipe(blocks(page, "yaml")[1], project, repository)
    cases = etree.parse(project / "gate" / "junit.xml").findall(".//testcase")
    assert sum(case.get("classname") == "diffgen.behaviour" for case in cases) == len(known)
    assert run(project, repository, accept).returncode == 0
    assert len(read_store(project / "regressions").behaviours) == len(known)
    test = blocks(page, "python")[0].replace("20000q", "2000q")
    (project / "test_gate.py").write_text(test, encoding="utf-8")
    done = run(project, repository, f'"{sys.executable}" -m pytest -q -p no:cacheprovider test_gate.py')
    assert done.returncode == 0, done.stdout


def run_recipe(text: str, project: Path, repository: Path) -> str:
    """Run the steps of a workflow file, without the installation; what they said on stderr."""
    recipe: dict[str, Any] = yaml.safe_load(text)
    job = recipe["jobs"]["gate"] if "jobs" in recipe else recipe["model-gate"]
    steps = [step["run"] for step in job["steps"] if "run" in step] if "steps" in job else job["script"]
    said = ""
    for step in steps:
        if step.startswith("pip install"):
            continue
        done = run(project, repository, step)
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stderr
    return said
