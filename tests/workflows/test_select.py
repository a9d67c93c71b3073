"""From a real run to a selector and to predictions."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.neighbors import KNeighborsClassifier

import diffgen
from diffgen.cli import main
from diffgen.cli.select import _print
from diffgen.comparison.named_settings import stored_settings
from diffgen.comparison.opened_run import OpenedRun
from diffgen.comparison.stages import CompareResult
from diffgen.config import SelectorConfig
from diffgen.data import load
from diffgen.data.split import split_rows
from diffgen.errors import UserError
from diffgen.events import Message, Progress
from diffgen.labels.store import SOURCES, LabelStore
from diffgen.metrics.near_duplicates import directions_of
from diffgen.metrics.relatives import groups_of_relatives
from diffgen.origins import NO_SEED
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.selector.evaluation import Cost, evaluate, measure_cost
from diffgen.selector.examples import make_examples
from diffgen.selector.forest import cross_validated
from diffgen.selector.onnx_file import PixelNetwork, extract, load_selector
from diffgen.workflows.label import label_import, read_store, read_valid_triggers
from diffgen.workflows.label_oracle import label_oracle
from diffgen.workflows.predict import predict
from diffgen.workflows.select import SelectResult, own_data, select

CONFIG = SelectorConfig(features="pixels", trees=20, seed=1)
OTHER = replace(CONFIG, seed=2)  # whose file has other bytes


@pytest.fixture(scope="module")
def oracle() -> object:
    """A reference that is better than both models under test, and of another kind."""
    data = load("digits:train")
    model = KNeighborsClassifier(3, weights="distance")
    model.fit(data.images.reshape(len(data), -1) / 255, data.labels)
    return lambda pixels: model.predict_proba(pixels.reshape(len(pixels), -1)).astype(np.float32)


@pytest.fixture(scope="module")
def labelled(finished: CompareResult, oracle: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels for every trigger, as of a run without filters: a GAN of a few seconds leaves too few valid ones."""
    run = Path(shutil.copytree(finished.run, tmp_path_factory.mktemp("labelled") / "run"))
    folder = RunFolder.open(run)
    verdicts = folder.read_arrays("verdicts")
    folder.write_arrays("verdicts", {**verdicts, "rejected_by": np.full_like(verdicts["rejected_by"], -1)})
    result = label_oracle(run, [oracle])
    assert min(result.outcomes["only A right"], result.outcomes["only B right"]) >= 5
    return run


@pytest.fixture(scope="module")
def selected(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = Path(shutil.copytree(labelled, tmp_path_factory.mktemp("selected") / "run"))
    select(run, config=CONFIG, data="digits:train")
    return run


@pytest.fixture
def run(labelled: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(labelled, tmp_path / "run"))


def test_figures_file_and_report(selected: Path, finished: CompareResult) -> None:
    stored = RunFolder.open(selected).read_arrays("selection")
    about = stored["about"]
    assert about["examples"] == len(stored["rows"]) == sum(about["sources"].values()) == about["sources"]["oracle"]
    random = about["on_triggers"][0]
    assert random["name"] == "random" and "by real image" in {each["name"] for each in about["on_triggers"]}
    assert random["decisive"] == about["examples"]  # every example is judged once, none was trained on then
    assert random["oracle"] == 1.0
    assert random["ensemble"] == pytest.approx(random["accuracy"])
    held_out, training = about["real"]
    assert held_out["images"] == 90  # a tenth of the run's 898
    assert training["images"] == len(load("digits:train"))
    for real in about["real"]:
        assert real["on_all"]["oracle"] >= max(real["on_all"].values()) - 1e-12
        assert real["disagreements"] > 0
    page = (selected / "report.html").read_text()
    assert "Which model to trust" in page
    text = re.sub("<[^>]+>", "", page)
    told = re.findall(
        r"Where A says \d and B says \d, trust ([AB]): right on (\d+) of (\d+) labelled pictures?, ([AB])", text
    )
    assert told and all({one, other} == {"A", "B"} and int(right) <= int(of) for one, right, of, other in told)
    assert "Which model to trust" not in (Path(finished.run) / "report.html").read_text()
    assert not list(selected.rglob("*.tmp"))


def test_what_judges_has_not_learned_from_finds_made_of_the_images_that_it_is_judged_on(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search takes every real image for a seed, those that are held out too."""
    folder = RunFolder.open(run)
    finds = read_valid_triggers(folder)
    held_out = split_rows(len(load("digits:test")), stored_settings(folder).split)[1].numpy()
    looks, threshold = directions_of(finds.images), stored_settings(folder).filters.near_duplicate
    seeds = np.full(len(finds), NO_SEED)
    seeds[::2] = np.arange(len(seeds[::2]))
    labels = read_store(folder, finds).of(finds.hashes, SOURCES)[0]
    labelled = make_examples(labels, finds.labels, finds.behaviours).rows
    alike = looks[labelled] @ looks[labelled].T >= threshold
    # a find that others look like is made from a held-out image, and those others are not
    most = alike.sum(axis=1).argmax()
    assert alike[most].sum() > 1
    seeds[labelled[alike[most]]] = NO_SEED
    seeds[[labelled[most], *labelled[~alike[most]][:5]]] = held_out[:6]
    of_these = np.isin(seeds, held_out)
    assert 5 < of_these.sum() < len(finds) / 2

    def with_seeds(folder: RunFolder, triggers: TriggerTable | None = None) -> TriggerTable:
        return replace(read_valid_triggers(folder, triggers), seeds=seeds, recipes=np.zeros(len(seeds), dtype="S1"))

    monkeypatch.setattr("diffgen.workflows.select.read_valid_triggers", with_seeds)
    result = select(run, config=CONFIG)
    # all finds of one image lie on one side, and near-duplicates of one another
    rows = make_examples(labels, finds.labels, finds.behaviours)
    images = finds.images_of(rows.rows)
    features = extract(PixelNetwork(), images, device=torch.device("cpu"))
    assert [each.name for each in result.on_triggers] == ["random", "by behaviour", "by real image"]
    for own, judged_so in zip((rows.groups, seeds[rows.rows]), result.on_triggers[1:], strict=True):
        alike = groups_of_relatives([images], own, threshold=threshold)
        assert len(np.unique(alike)) < len(np.unique(own[own >= 0])) + (own < 0).sum()
        said = cross_validated(features, rows.targets, alike, CONFIG)
        assert said is not None and judged_so == evaluate(judged_so.name, said, rows.right, alike)
    assert "triggers, of real images that it was not trained on" in (run / "report.html").read_text()
    (judged,) = result.real
    learned = folder.read_arrays("selection")["rows"]
    # neither those finds nor a labelled one that looks like one of them
    labelled_ones = of_these & np.isin(finds.numbers, learned)
    of_these |= (looks @ looks[labelled_ones].T >= threshold).any(axis=1)
    assert judged.left_out == np.isin(learned, finds.numbers[of_these]).sum() > labelled_ones.sum() > 0
    assert result.examples == len(learned)
    assert f"learned without {judged.left_out} finds made from them or like those)" in (run / "report.html").read_text()
    # as good as one that never had their labels
    store = read_store(folder, finds)
    gone = {each.tobytes() for each in finds.hashes[of_these]}
    kept = [row for row, each in enumerate(store.hashes) if each.tobytes() not in gone]
    rest = LabelStore(store.hashes[kept], store.labels[kept], store.sources[kept], store.about)
    folder.write_arrays("labels", rest.as_arrays())
    (again,) = select(run, config=CONFIG, force=True).real
    assert again == replace(judged, left_out=0)


def test_where_one_model_alone_is_left_to_be_learnt_nothing_is_judged(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What B is right on is made from images that are held out."""
    folder = RunFolder.open(run)
    finds = read_valid_triggers(folder)
    labels = read_store(folder, finds).of(finds.hashes, SOURCES)[0]
    examples = make_examples(labels, finds.labels, finds.behaviours)
    assert set(examples.targets.tolist()) == {0, 1}
    seeds = np.full(len(finds), NO_SEED)
    _, held_out = split_rows(len(load("digits:test")), stored_settings(folder).split)
    seeds[examples.rows[examples.targets == 1]] = int(held_out[0])

    def with_seeds(folder: RunFolder, triggers: TriggerTable | None = None) -> TriggerTable:
        return replace(read_valid_triggers(folder, triggers), seeds=seeds, recipes=np.zeros(len(seeds), dtype="S1"))

    monkeypatch.setattr("diffgen.workflows.select.read_valid_triggers", with_seeds)
    said: list[str] = []
    result = select(
        run,
        config=CONFIG,
        events=lambda event: said.append(event.text) if isinstance(event, Message) else None,
    )
    assert result.real == ()
    assert any("the selector is not judged on these; give other labelled ones with --data" in each for each in said)
    assert load_selector(run / "selector.onnx").metadata["kinds"] == [0, 1]


def test_the_share_of_a_is_that_of_all_images(selected: Path) -> None:
    """Data sets are often in order of class, and of one class the selector may always trust one model."""
    folder = RunFolder.open(selected)
    data = load("digits:test")
    selector = load_selector(selected / "selector.onnx")
    chosen = selector.choose(data.images)
    ordered = replace(data, images=data.images[np.argsort(chosen, kind="stable")])
    models = OpenedRun(folder).models()
    for model in models:
        model.prepare(data.images)
    cost = measure_cost(models, selector, data.images, ordered)
    assert 0.05 < (chosen == 0).mean() < 0.95
    assert cost.shares[0] == pytest.approx((chosen == 0).mean()) and cost.of_real
    assert not measure_cost(models, selector, data.images, None).of_real


@pytest.mark.parametrize(("selector", "said"), [(1.61, "costs 61% more"), (0.39, "saves 61%")])
def test_a_selector_that_costs_more_saves_nothing(
    selector: float, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cost = Cost(models=(0.0, 1.0), selector=selector, shares=(1.0, 0.0), of_real=True)
    _print(SelectResult("run", "selector.onnx", "pixels", 10, {"human": 3, "oracle": 7}, 0, (), (), cost))
    out = capsys.readouterr().out
    assert f"selector and one model instead of both {said}\n" in out
    assert "learnt from 10 labelled triggers (3 by people, 7 by reference models; pixels)" in out


def test_the_jurys_word_is_taken_for_labels_where_that_is_asked_for(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = RunFolder.open(run)
    folder.file("labels.npz").unlink()
    with pytest.raises(UserError, match="label some with 'diffgen label' first, or take the jury's word with --labels"):
        select(run, config=CONFIG)
    labels, verdicts = folder.read_judged().labels, folder.read_arrays("verdicts")
    rows = np.arange(len(labels))
    told = {"named": labels[rows, rows % 2], "certainty": np.zeros(len(rows), np.float32), "recognised": rows >= 20}
    folder.write_arrays("verdicts", {**verdicts, **told})
    options = ["--features", "pixels", "--trees", "5", "--labels", "jury", "--json"]
    assert main(["select", str(run), *options]) == 0
    out = capsys.readouterr().out
    examples = len(rows) - 20
    assert f"learnt from {examples:,} labelled triggers ({examples:,} by the jury; pixels); 0 both wrong" in out
    assert json.loads(out[out.index("{") :])["sources"] == {"human": 0, "oracle": 0, "intended": 0, "jury": examples}
    assert f"({examples:,} by the jury)" in (run / "report.html").read_text()
    folder.write_arrays("verdicts", {name: each for name, each in verdicts.items() if name not in told})
    with pytest.raises(UserError, match=r"has no jury; label its finds with 'diffgen label', or compare with more"):
        select(run, config=replace(CONFIG, source="jury"), force=True)


def test_the_same_seed_gives_the_same_selector(selected: Path, run: Path) -> None:
    select(run, config=CONFIG, data="digits:train")
    images = load("digits:test").images[:200]
    first, second = (load_selector(folder / "selector.onnx").probabilities(images) for folder in (selected, run))
    assert np.array_equal(first, second)


def test_labels_that_the_run_did_not_use_judge_nothing(done_run: Path) -> None:
    opened = OpenedRun(RunFolder.open(done_run))
    used = own_data(opened, Progress())
    opened.config = replace(opened.config, data_labels="ignore")
    unused = own_data(opened, Progress())
    assert used is not None and used.labels is not None
    assert unused is not None and unused.labels is None and np.array_equal(unused.images, used.images)


def test_features_of_the_domain(run: Path) -> None:
    result = select(run, config=replace(CONFIG, features="auto"))
    assert result.features == "domain"
    assert [each.source for each in result.real] == ["held out of digits:test"]
    json.dumps(result.as_dict())


def test_predict_asks_what_the_ensemble_asks(selected: Path, model_files: dict[str, Path], tmp_path: Path) -> None:
    images = load("digits:test").images[:30]
    for number, image in enumerate(images):
        (tmp_path / "pictures" / "deep").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0]).save(tmp_path / "pictures" / "deep" / f"{number:02d}.png")
    (tmp_path / "pictures" / "deep" / "00.png").rename(tmp_path / "pictures" / "deep" / "00")
    (tmp_path / "pictures" / "deep" / "notes").write_text("no picture")
    with pytest.raises(UserError, match=r"not a ndarray; of arrays diffgen\.SelectorEnsemble"):
        predict(selected, np.zeros((1, 1, 28, 28), np.uint8))  # type: ignore[arg-type]
    result = predict(selected, tmp_path / "pictures", output=tmp_path / "answers.csv")
    ensemble = diffgen.SelectorEnsemble(model_files["a"], model_files["b"], selected / "selector.onnx")
    decision = ensemble.decide(images)
    assert list(result.labels) == decision.labels.tolist()
    assert result.asked == decision.asked
    with (tmp_path / "answers.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["file"], int(row["label"]), row["model"]) for row in rows] == [
        (f"deep/{n:02d}{'.png' if n else ''}", label, "AB"[role])
        for n, (label, role) in enumerate(zip(decision.labels, decision.chosen, strict=True))
    ]
    with pytest.raises(UserError, match="exists; name another"):
        predict(selected, tmp_path / "pictures", output=tmp_path / "answers.csv")
    # one picture is enough
    assert predict(selected, tmp_path / "pictures" / "deep" / "03.png").labels == (int(decision.labels[3]),)


def test_models_that_are_not_those_of_the_selector(selected: Path, model_files: dict[str, Path]) -> None:
    with pytest.raises(UserError, match="not the one that the selector was trained for"):
        diffgen.SelectorEnsemble(model_files["b"], model_files["a"], selected / "selector.onnx")


@pytest.mark.parametrize(
    ("pictures", "message"),
    [("missing", "There is no folder"), ("empty", "No pictures lie in"), ("large", "have the shape 1x40x40")],
)
def test_pictures_that_cannot_be(pictures: str, message: str, selected: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "large").mkdir()
    Image.new("L", (40, 40)).save(tmp_path / "large" / "a.png")
    with pytest.raises(UserError, match=message):
        predict(selected, tmp_path / pictures)


def test_nothing_is_overwritten_by_a_mistake(
    selected: Path,
    finished: CompareResult,
    model_files: dict[str, Path],
    tmp_path: Path,
    told: Callable[[str, str, object], None],
) -> None:
    run = Path(shutil.copytree(selected, tmp_path / "run"))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    mistakes = {
        "has a selector; add --force": lambda: select(run, config=CONFIG),
        "No trigger of the run has a label": lambda: select(run, config=replace(CONFIG, source="human"), force=True),
        "take no weights": lambda: select(run, config=replace(CONFIG, features_weights="x.pth"), force=True),
        "weights x.pth cannot be read": lambda: select(
            run, config=replace(CONFIG, features="vgg16", features_weights="x.pth"), force=True
        ),
        "All images of digits:test are also": lambda: select(run, config=OTHER, data="digits:test", force=True),
        "have no labels, so nothing can be judged": lambda: select(
            run, config=OTHER, data=replace(load("digits:train"), labels=None), force=True
        ),
        "are 1x32x32, but the run's are 1x28x28": lambda: select(
            run,
            config=OTHER,
            data=replace(load("digits:train"), images=np.zeros((899, 1, 32, 32), np.uint8)),
            force=True,
        ),
        "is model A of the run": lambda: label_oracle(run, [model_files["a"]]),
    }
    of_data = {
        "have no labels, so nothing can be judged": "`--data` without labels",
        "are 1x32x32, but the run's are 1x28x28": "`--data` of another shape",
        "All images of digits:test are also": "`--data` that the run was made on",
    }
    for message, action in mistakes.items():
        with pytest.raises(UserError, match=message) as caught:
            action()
        if message in of_data:
            told("`diffgen select`", of_data[message], caught.value)
        assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before, message
    with pytest.raises(UserError, match="No trigger of the run has a label"):
        select(finished.run, config=CONFIG)


def test_images_that_cannot_judge_are_refused_before_a_model_is_opened(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To open the models takes seconds."""
    monkeypatch.setattr(OpenedRun, "models", lambda *given, **named: pytest.fail("a model was opened"))
    for data, message in (
        (replace(load("digits:train"), labels=None), "have no labels"),
        ("digits:test", "All images"),
        (replace(load("digits:train"), class_names=tuple("abcdefghijk")), "name 11 classes and not the 10 of the run"),
    ):
        with pytest.raises(UserError, match=message):
            select(run, config=OTHER, data=data, force=True)


def test_all_triggers_of_one_kind(finished: CompareResult, tmp_path: Path) -> None:
    run = Path(shutil.copytree(finished.run, tmp_path / "run"))
    from diffgen.labels.sheet import image_id

    finds = read_valid_triggers(RunFolder.open(run))
    rows = [f"{image_id(digest)},{said}" for digest, said in zip(finds.hashes, finds.labels[:, 0], strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["id,label", *rows]))
    label_import(run, [tmp_path / "a.csv"])
    with pytest.raises(UserError, match="model B is right on 0 only"):
        select(run, config=CONFIG)
    assert not (run / "selector.onnx").exists()


def test_the_verbs(gan_run: CompareResult, selected: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Path(shutil.copytree(gan_run.run, tmp_path / "run"))
    assert main(["label", str(run), "--export", str(tmp_path / "sheet"), "--count", "12", "--json"]) == 0
    # no more than there are valid triggers that do not look the same
    pictures = json.loads(capsys.readouterr().out.splitlines()[-1])["pictures"]
    assert 0 < pictures <= 12
    sheet = tmp_path / "sheet" / "labels.csv"
    lines = sheet.read_text().splitlines()
    sheet.write_text("\n".join([lines[0], *(f"{line}{number % 10}" for number, line in enumerate(lines[1:]))]))
    assert main(["label", str(run), "--import", str(sheet)]) == 0
    assert f"{pictures} pictures labelled (human), 0 invalid." in capsys.readouterr().out
    assert main(["label", str(run)]) == 0
    assert f"human: {pictures}, oracle: 0, intended: 0" in capsys.readouterr().out
    # the run's own GAN is conditional: every picture has an intended class
    assert main(["label", str(run), "--intended"]) == 0
    assert f"{gan_run.valid_triggers} pictures labelled (intended)" in capsys.readouterr().out
    assert main(["label", str(run), "--partial"]) == 2
    shutil.rmtree(tmp_path / "sheet" / "pictures")
    again = Path(shutil.copytree(selected, tmp_path / "selected"))
    words = ["select", str(again), "--features", "pixels", "--trees", "10", "--force", "--json", "-q"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "random" in out
    assert json.loads(out.splitlines()[-1])["features"] == "pixels"
    Image.fromarray(load("digits:test").images[0, 0]).save(tmp_path / "one.png")
    assert main(["predict", str(again), str(tmp_path / "one.png")]) == 0
    assert capsys.readouterr().out.startswith("file,label,name,model\none.png,")
