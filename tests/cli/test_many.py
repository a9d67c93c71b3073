"""Three models and more from the command line, from the comparison to every verb that goes on with it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import diffgen
from diffgen.cli import build_parser, main, model_options
from diffgen.config import ModelSpec
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.labels.sheet import image_id
from diffgen.models import load as load_model
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import image_hashes
from diffgen.workflows.demo import dense_classifier, save_onnx, save_torchscript, train_classifier

_FAST = (
    *("--budget", "300q", "--filters", "ssim", "--device", "cpu", "--seed", "2"),
    # few passes of the jury, and no operator for which a network has to be trained first
    *("--set", "filters.jury.shown=3000"),
    *("--set", 'source.seeds.operators=["shift", "rotation", "contrast", "noise", "blur"]'),
)


@pytest.fixture(scope="session")
def nets(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four small classifiers of digits, trained for one to four passes."""
    folder, training = tmp_path_factory.mktemp("nets"), load("digits:train")
    made = [train_classifier(dense_classifier(10), training, seed=seed, passes=1 + seed) for seed in range(4)]
    for name, network in zip("abc", made, strict=False):
        save_torchscript(network, folder / f"{name}.pt")
    save_onnx(made[3], folder / "d.onnx")
    return [folder / "a.pt", folder / "b.pt", folder / "c.pt", folder / "d.onnx"]


@pytest.fixture(scope="session")
def run_of_four(nets: list[Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of four, made by the command line as a user types it, and what that printed."""
    path, printed = tmp_path_factory.mktemp("four") / "run", io.StringIO()
    words = ["compare", *map(str, nets), "--data", "digits:test", *_FAST, "-q", "--json", "-o", str(path)]
    with contextlib.redirect_stdout(printed):
        assert main(words) == 0
    return path, printed.getvalue()


@pytest.fixture
def copy_of_four(run_of_four: tuple[Path, str], tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(run_of_four[0], tmp_path / "copy" / "run"))


@pytest.fixture(scope="session")
def labelled_four(run_of_four: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The same, labelled by a reference model on the command line, and what that printed."""
    folder, printed = tmp_path_factory.mktemp("labelled"), io.StringIO()
    save_torchscript(train_classifier(dense_classifier(10), load("digits"), seed=9, passes=6), folder / "oracle.pt")
    copy = Path(shutil.copytree(run_of_four[0], folder / "run"))
    with contextlib.redirect_stdout(printed):
        assert main(["label", str(copy), "--oracle", str(folder / "oracle.pt"), "-q"]) == 0
    return copy, printed.getvalue()


def test_a_comparison_of_four(run_of_four: tuple[Path, str]) -> None:
    path, printed = run_of_four
    values = json.loads(printed.splitlines()[-1])
    assert "triggers (A, B, C and D disagree)" in printed and "stands alone on" in printed
    assert set(values["many"]["alone"]) == set("ABCD")
    assert f"A {values['many']['alone']['A']['pictures']:,}" in printed
    assert len(RunFolder.open(path).read_judged()) == values["triggers"] > 20


def test_replay_export_and_report(
    nets: list[Path], diffgen_command: Callable[..., Any], copy_of_four: Path, tmp_path: Path
) -> None:
    assert "triggers still trigger (100.00%)" in diffgen_command("replay", copy_of_four).out
    outcome = diffgen_command("replay", copy_of_four, *nets[:2], nets[0], nets[3])
    assert outcome.code == 0 and "(100.00%)" not in outcome.out
    assert diffgen_command("replay", copy_of_four, *nets[:3]).code == 2
    assert diffgen_command("export", copy_of_four, "-o", tmp_path / "out").code == 0
    with (tmp_path / "out" / "triggers.csv").open(newline="", encoding="utf-8") as file:
        assert all(f"label_{role}" in row for row in csv.DictReader(file) for role in "abcd")
    page = (copy_of_four / "report.html").read_bytes()
    assert diffgen_command("report", copy_of_four).code == 0
    assert (copy_of_four / "report.html").read_bytes() == page


def test_shrink(diffgen_command: Callable[..., Any], copy_of_four: Path) -> None:
    outcome = diffgen_command("shrink", copy_of_four, "--limit", "4")
    assert outcome.code == 0, outcome.err
    found = re.search(r"(\d+) of 4 triggers shrunk", outcome.out)
    assert found is not None and int(found[1]) > 0
    arrays = RunFolder.open(copy_of_four).read_arrays("shrunk")
    agreeing, apart = (arrays[f"{name}_probabilities"].argmax(axis=2) for name in ("agreeing", "trigger"))
    assert agreeing.shape == apart.shape == (int(found[1]), 4)
    assert (agreeing == agreeing[:, :1]).all() and (apart != apart[:, :1]).any(axis=1).all()
    page = (copy_of_four / "report.html").read_text(encoding="utf-8")
    assert 'id="shrunk"' in page and "all say" in page


def test_labels_by_a_reference(labelled_four: tuple[Path, str]) -> None:
    _, printed = labelled_four
    assert all(f"{role} right: " in printed for role in "ABCD") and "all wrong: " in printed


def fill(sheet: Path, truth: dict[str, int]) -> None:
    """Label a sheet as people who know the truth would."""
    rows = list(csv.DictReader(sheet.read_text(encoding="utf-8").splitlines()))
    lines = ["id,file,label", *(f"{row['id']},{row['file']},{truth[row['id']]}" for row in rows)]
    sheet.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_rank_by_faults_and_by_labels(
    diffgen_command: Callable[..., Any], copy_of_four: Path, nets: list[Path], tmp_path: Path
) -> None:
    outcome = diffgen_command("rank", copy_of_four, "--json")
    assert outcome.code == 0, outcome.err
    values = json.loads(outcome.out.splitlines()[-1])
    triggers = RunFolder.open(copy_of_four).read_judged()
    kept = triggers[triggers.recognised_distinct]
    right = dict(zip("ABCD", (~kept.faults).mean(axis=0).tolist(), strict=True))
    assert [each["role"] for each in values["models"]] == sorted("ABCD", key=lambda role: (-right[role], role))
    assert all(each["low"] <= each["right"] <= each["high"] for each in values["models"])
    sheet = tmp_path / "sheet"
    assert diffgen_command("rank", copy_of_four, "--import", sheet / "labels.csv").code == 2
    outcome = diffgen_command("rank", copy_of_four, "--export", sheet, "--count", "30", "--data", "digits:train")
    assert outcome.code == 0, outcome.err
    digits = load("digits:train")
    assert digits.labels is not None
    hashes = np.frombuffer(b"".join(image_hashes(digits.images)), np.uint8).reshape(len(digits), -1)
    truth = {image_id(each): int(label) for each, label in zip(hashes, digits.labels, strict=True)}
    fill(sheet / "labels.csv", truth)
    outcome = diffgen_command("rank", copy_of_four, "--import", sheet / "labels.csv", "--json")
    assert outcome.code == 0, outcome.err
    values = json.loads(outcome.out.splitlines()[-1])
    boxes = [load_model(net, device="cpu") for net in nets]
    for box in boxes:
        box.prepare(digits.images[:64])
    said = np.stack([box.predict(digits.images).argmax(axis=1) for box in boxes], axis=1)
    apart = (said != said[:, :1]).any(axis=1)
    shares = (said[apart] == digits.labels[apart, None]).mean(axis=0)
    assert (values["of"], values["images"], values["pictures"]) == (int(apart.sum()), len(digits), 30)
    for each in values["models"]:
        assert each["low"] - 0.1 <= shares["ABCD".index(each["role"])] <= each["high"] + 0.1


def test_what_cannot_be_ranked(
    diffgen_command: Callable[..., Any], copy_of_four: Path, tmp_path: Path, told: Callable[..., None]
) -> None:
    for case, words in (
        ("labels of no short list", ("--import", tmp_path / "none.csv")),
        ("a short list of one picture", ("--export", tmp_path / "sheet", "--count", "1")),
        ("--count without --export", ("--count", "20")),
        ("--partial without --import", ("--partial",)),
    ):
        outcome = diffgen_command("rank", copy_of_four, *words)
        (line,) = outcome.err.strip().splitlines()
        assert outcome.code == 2 and outcome.out == ""
        told("`diffgen rank`", case, line.removeprefix("diffgen: "))
    assert not (tmp_path / "sheet").exists()


def test_only_the_whole_sheet_of_the_latest_export_ranks(
    diffgen_command: Callable[..., Any], copy_of_four: Path, tmp_path: Path, told: Callable[..., None]
) -> None:
    def refused(sheet: Path, *words: str) -> str:
        outcome = diffgen_command("rank", copy_of_four, "--import", sheet, *words)
        (line,) = outcome.err.strip().splitlines()
        assert outcome.code == 2 and outcome.out == ""
        # which pictures these are hangs on the networks, which may differ between machines
        return re.sub(r"t[0-9a-f]{12}", "t0123456789ab", line.removeprefix("diffgen: "))

    for number, count in enumerate(("5", "5", "5000")):
        folder = tmp_path / f"sheet-{number}"
        outcome = diffgen_command("rank", copy_of_four, "--export", folder, "--count", count, "--seed", number)
        assert outcome.code == 0, outcome.err
        rows = list(csv.DictReader((folder / "labels.csv").read_text(encoding="utf-8").splitlines()))
        fill(folder / "labels.csv", {row["id"]: 3 for row in rows})
        if number == 1:
            told("`diffgen rank`", "a sheet of an earlier export", refused(tmp_path / "sheet-0" / "labels.csv"))
    # its pictures are all on the latest, too, but were drawn with other chances
    assert "lacks" in refused(tmp_path / "sheet-1" / "labels.csv", "--partial")
    whole = tmp_path / "sheet-2" / "labels.csv"
    assert diffgen_command("rank", copy_of_four, "--import", whole).code == 0
    lines = whole.read_text(encoding="utf-8").splitlines()
    whole.write_text("\n".join(lines[:-2]), encoding="utf-8")
    told("`diffgen rank`", "a sheet with rows missing", refused(whole))
    whole.write_text("\n".join([*lines[:-1], lines[-1].rpartition(",")[0] + ","]), encoding="utf-8")
    assert "--partial" in refused(whole)
    assert diffgen_command("rank", copy_of_four, "--import", whole, "--partial").code == 0


def test_select_and_predict_among_four(
    diffgen_command: Callable[..., Any], labelled_four: tuple[Path, str], nets: list[Path], tmp_path: Path
) -> None:
    copy_of_four = Path(shutil.copytree(labelled_four[0], tmp_path / "copy" / "run"))
    words = ("--features", "pixels", "--trees", "20", "--data", "digits:train", "--json")
    outcome = diffgen_command("select", copy_of_four, *words)
    assert outcome.code == 0, outcome.err
    values = json.loads(outcome.out.splitlines()[-1])
    on_real = values["real"][-1]["on_all"]
    assert set(on_real) == {*"ABCD", "soft-vote", "stacking", "selector", "confidence", "oracle"}
    assert on_real["oracle"] >= max(on_real.values()) - 1e-9
    page = (copy_of_four / "report.html").read_text(encoding="utf-8")
    assert 'id="selector"' in page and "stacking, asks all" in page
    pictures = diffgen_command("export", copy_of_four, "-o", tmp_path / "out")
    assert pictures.code == 0
    outcome = diffgen_command("predict", copy_of_four, tmp_path / "out", "-o", tmp_path / "said.csv")
    assert outcome.code == 0, outcome.err
    asked = [int(each) for each in re.findall(r"[A-D] (?:asked )?(\d+)", outcome.out.splitlines()[0])]
    rows = list(csv.DictReader((tmp_path / "said.csv").read_text(encoding="utf-8").splitlines()))
    assert sum(asked) == len(rows) and {row["model"] for row in rows} <= set("ABCD")
    ensemble = diffgen.SelectorEnsemble(*nets, copy_of_four / "selector.onnx", rule="soft-vote")
    images = load("digits:test").images[:50]
    boxes = [load_model(net, device="cpu") for net in nets]
    for box in boxes:
        box.prepare(images)
    assert np.array_equal(ensemble.predict(images), sum(box.predict(images) for box in boxes).argmax(axis=1))
    with pytest.raises(UserError, match="3 models are given, but the selector was trained for 4"):
        diffgen.SelectorEnsemble(*nets[:3], copy_of_four / "selector.onnx")


def test_a_finished_run_says_its_figures_again(diffgen_command: Callable[..., Any], copy_of_four: Path) -> None:
    outcome = diffgen_command("compare", "--resume", copy_of_four)
    assert outcome.code == 0 and "stands alone on" in outcome.out


def test_options_of_one_of_many() -> None:
    arguments = build_parser().parse_args(
        ["compare", "a", "b", "c", "--mean", "0.5", "--c-mean", "0.1", "--c-label-map", "map.toml"]
    )
    a, b, c = model_options.specs_from(arguments, 3)
    assert a.preprocessing.mean == b.preprocessing.mean == (0.5,) and c.preprocessing.mean == (0.1,)
    assert (a.label_map, b.label_map, c.label_map) == (None, None, "map.toml")
    with pytest.raises(UserError, match=r"said of model C \(--c-\.\.\.\), but there are 2 models, A and B"):
        model_options.specs_from(arguments, 2)
    assert model_options.specs_from(build_parser().parse_args(["compare"]), 5) == (ModelSpec(),) * 5


def test_asking_in_stages_says_what_it_spares(
    nets: list[Path], diffgen_command: Callable[..., Any], tmp_path: Path
) -> None:
    words = ("--data", "digits:test", *_FAST, "--ask", "staged", "-o", tmp_path / "run")
    outcome = diffgen_command("compare", *nets, *words)
    assert outcome.code == 0, outcome.err
    assert "differ on most real images and are asked first" in outcome.err
    many = RunFolder.open(tmp_path / "run").results()["many"]
    assert 0 < many["spared"] < 2 * 300
    assert f"{many['spared']:,} of 1,200 answers were spared" in outcome.out
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f"{many['spared']:,} answers spared" in page and "to each model" not in page


@pytest.mark.parametrize(
    ("case", "names", "words"),
    [
        ("seventeen models", ["a.pt"] * 17, ["17 models", "two to 16"]),
        ("one model twice among three", ["a.pt", "b.onnx", "a.pt"], ["A (a.pt) and C (a.pt)", "one and the same"]),
        ("other classes among many", ["a.pt", "seven.onnx", "b.onnx"], ["A (a.pt) and C (b.onnx)", "B (seven.onnx)"]),
        ("stages among two models", ["a.pt", "b.onnx", "--ask", "staged"], ["4 models or more, not 2"]),
        ("an option of a model that is not there", ["a.pt", "b.onnx", "--d-invert"], ["model D", "A and B"]),
    ],
)
def test_bad_models_among_many(
    case: str,
    names: list[str],
    words: list[str],
    files: dict[str, Path],
    diffgen_command: Callable[..., Any],
    tmp_path: Path,
    told: Callable[..., None],
) -> None:
    given = [files.get(name, name) for name in names]
    outcome = diffgen_command("compare", *given, "--data", "digits:test", *_FAST, "-q", "-o", tmp_path / "run")
    assert outcome.code == 2 and outcome.out == ""
    (line,) = outcome.err.strip().splitlines()
    assert all(word in line for word in words), line
    told("many models", case, line.removeprefix("diffgen: "))
    assert not (tmp_path / "run").exists()
