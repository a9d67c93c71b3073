"""README: how long it is, and its commands and its Python, taken from the text and run; only budgets are smaller."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from diffgen.data import load
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)
from diffgen.workflows.quantize import quantize

# what stands in the text -> what is run in a test
_SMALLER = {
    "diffgen demo": "diffgen demo --budget 2000q",
    "--data test/ -o run": "--data test/ --budget 4000q -o run",
    "--store regressions/": "--store regressions/ --budget 1000q -o gate",
    "MODEL --data D": "modelB.onnx --data test/",
    '"60s"': '"1000q"',
    '"2000q"': '"1000q"',
}


@pytest.fixture(scope="module")
def text(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


def commands(text: str) -> list[str]:
    """Every command of the program in blocks and in the text, in this order, without its comment."""
    found = re.findall(r"^(diffgen .+)$|`(diffgen [a-z]+ [^`]+)`", text, re.MULTILINE)
    return [(block or inline).split("#")[0].strip() for block, inline in found]


def test_it_fits_onto_one_screen_or_two(text: str) -> None:
    assert len(text.splitlines()) <= 90


def test_it_has_the_verbs_that_a_newcomer_needs(text: str) -> None:
    verbs = [command.split()[1] for command in commands(text)]
    assert {"demo", "compare", "inspect", "check", "shrink", "label", "select", "export"} <= {*verbs}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands presuppose: modelA.pt, modelB.onnx, float.onnx, int8.onnx, big.onnx and test/."""
    folder = tmp_path_factory.mktemp("newcomer")
    training, digits = load("digits:train"), load("digits:test")
    network = train_classifier(convolutional_classifier(10), training, seed=0)
    save_torchscript(network, folder / "modelA.pt")
    save_onnx(network, folder / "float.onnx")
    save_onnx(train_classifier(dense_classifier(10), training, seed=0), folder / "modelB.onnx")
    save_onnx(train_classifier(convolutional_classifier(10), load("digits"), seed=1), folder / "big.onnx")
    assert digits.labels is not None
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        place = folder / "test" / str(label)
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(place / f"{number:04d}.png")
    quantize(folder / "float.onnx", data=folder / "test", output=folder / "int8.onnx")
    return folder


def run(script: list[str], project: Path, repository: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    return subprocess.run(script, cwd=project, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_commands_run_as_written(text: str, project: Path, repository: Path) -> None:
    for command in commands(text):
        smaller = command
        for full, small in _SMALLER.items():
            smaller = smaller.replace(full, small)
        done = run([sys.executable, "-m", *smaller.split()], project, repository)
        assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    for made in ("demo-run/report.html", "run/report.html", "gate/junit.xml", "run/selector.onnx", "set/pictures.csv"):
        assert (project / made).is_file()


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_python_runs_as_written(text: str, project: Path, repository: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.strip().splitlines()) <= 10
    for full, small in _SMALLER.items():
        code = code.replace(full, small)
    done = run([sys.executable, "-c", code], project, repository)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\d+ pictures, \d+ behaviours: runs/", done.stdout)
    assert re.search(r"(PASS|WARN) \d+ new behaviours", done.stdout)
