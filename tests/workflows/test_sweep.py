"""A sweep: what is done stays, what fails is named, and one table says all."""

from __future__ import annotations

import csv
import os
import platform
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from diffgen.cli import main
from diffgen.comparison.machine import made_of
from diffgen.comparison.requirements import without_unused_source
from diffgen.config import CompareConfig
from diffgen.errors import ServiceError, UserError
from diffgen.events import Listener, Message
from diffgen.pool.calls import Function
from diffgen.runs.folder import RunFolder
from diffgen.runs.lock import RunLock
from diffgen.workflows.sweep import _Sweep, run_cell, sweep
from diffgen.workflows.sweep_outcomes import outcome_of, results_of
from diffgen.workflows.sweep_plan import Cell, read_plan
from tests.models.remote.oip_server import OipServer, hang_up, onnx_model
from tests.pool.here import Here
from tests.recording import Recording

_SETTINGS = """
[settings]
device = "cpu"
filters = { names = ["neighbors"], jury = { shown = 6000 } }
[settings.search]
population = 20
"""
_FILE = {"name": "a", "path": None, "sha256": None}
_MADE_OF = {
    "version": "1",
    "created": "",
    "command": "",
    "files": {"A": _FILE, "B": _FILE},
    "data": {"source": "digits", "path": None, "sha256": None},
}


@pytest.mark.slow
def test_a_sweep_is_gone_on_with_and_names_what_fails(model_files: dict[str, Path], tmp_path: Path) -> None:
    pair = f'models = ["{model_files["a"]}", "{model_files["b"]}"]\ndata = "digits:test"\n'
    file = tmp_path / "sweep.toml"
    beginning = 'output = "out"\ntechniques = ["diffgan"]\nbudgets = ["60q"]\n'
    file.write_text(f'{beginning}seeds = [1]\n[[pairs]]\nname = "one"\n{pair}{_SETTINGS}')
    first = sweep(file)
    assert [each.status for each in first.outcomes] == ["done"]
    assert first.outcomes[0].queries == 60
    before = os.stat(Path(first.outcomes[0].run) / "results.json").st_mtime_ns
    (tmp_path / "cut.pt").write_bytes(model_files["a"].read_bytes()[:1_000])
    cut = f'[[pairs]]\nname = "cut"\nmodels = ["cut.pt", "{model_files["b"]}"]\ndata = "digits:test"\n'
    file.write_text(f'{beginning}seeds = [1, 2]\n[[pairs]]\nname = "one"\n{pair}{cut}{_SETTINGS}')
    listener = Recording()
    second = sweep(file, workers=2, events=listener)
    assert [each.status for each in second.outcomes] == ["done", "failed", "done", "failed"]
    assert os.stat(Path(first.outcomes[0].run) / "results.json").st_mtime_ns == before
    assert "cut.pt" in second.outcomes[1].why
    assert listener.lines[0] == "1 of 4 comparisons are done already."
    rows = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    assert [row["status"] for row in rows] == ["done", "failed", "done", "failed"]
    assert rows[2]["seed"] == "2"
    page = Path(second.report).read_text()
    assert "2 of 4 comparisons are done" in page
    assert 'href="runs/one-diffgan-60q-2/report.html"' in page


@pytest.mark.slow
def test_a_comparison_with_an_address_is_gone_on_with(
    model_files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.models.remote.server.time.sleep", lambda seconds: None)
    run, file = tmp_path / "run", tmp_path / "sweep.toml"
    with OipServer({"b": onnx_model(model_files["b"])}, binary=True) as server:
        file.write_text(
            'output = "out"\ntechniques = ["diffgan"]\nbudgets = ["400q"]\nseeds = [1]\n[[pairs]]\nname = "one"\n'
            f'models = ["{model_files["a"]}", "{server.address("b")}"]\ndata = "digits:test"\n{_SETTINGS}'
        )
        (cell,) = read_plan(file).cells
        server.intercept = lambda handler: (run / "checkpoint.npz").exists() and hang_up(handler)
        with pytest.raises(ServiceError):
            run_cell(Recording(), cell, run, 1, made_of())
        assert results_of(run) is None
        server.intercept = None
        run_cell(Recording(), cell, run, 1, made_of())
    assert outcome_of(cell, run).queries == 400


@pytest.mark.slow
def test_a_sweep_on_a_ray_cluster(model_files: dict[str, Path], tmp_path: Path, ray_cluster: Any) -> None:
    file = tmp_path / "sweep.toml"
    models = f'models = ["{model_files["a"]}", "{model_files["b"]}"]\ndata = "digits:test"\n'
    (tmp_path / "cut.pt").write_bytes(model_files["a"].read_bytes()[:1_000])
    cut = f'models = ["cut.pt", "{model_files["b"]}"]\ndata = "digits:test"\n'
    file.write_text(
        'output = "out"\ntechniques = ["diffgan"]\nbudgets = ["60q"]\nseeds = [1, 2]\n'
        f'[[pairs]]\nname = "one"\n{models}[[pairs]]\nname = "cut"\n{cut}{_SETTINGS}'
    )
    result = sweep(file, workers=2, ray=ray_cluster.address)
    assert [each.status for each in result.outcomes] == ["done", "failed", "done", "failed"]
    assert [each.queries for each in result.outcomes[::2]] == [60, 60]
    assert "cut.pt" in result.outcomes[1].why


def plan_of(folder: Path, pair: str = "") -> Path:
    """A plan with a pair of models that are there, though they are none, and with one more."""
    for name in ("a", "b"):
        (folder / name).write_text(f"no model {name}")
    file = folder / "sweep.toml"
    file.write_text(f'output = "out"\n[[pairs]]\nname = "one"\nmodels = ["a", "b"]\ndata = "digits"\n{pair}')
    return file


def test_two_sweeps_in_one_folder(tmp_path: Path, told: Callable[..., None]) -> None:
    file = plan_of(tmp_path)
    (tmp_path / "out").mkdir()
    with RunLock(tmp_path / "out"), pytest.raises(UserError) as caught:
        sweep(file)
    told("Sweeps", "two at once in one folder", caught.value)


def test_an_output_of_others_is_left_as_it_is(tmp_path: Path, told: Callable[..., None]) -> None:
    file = plan_of(tmp_path)
    (tmp_path / "out").mkdir()
    for name in ("manifest.json", "report.html", "table.csv"):
        (tmp_path / "out" / name).write_text("mine")
        with pytest.raises(UserError) as caught:
            sweep(file)
        assert name in str(caught.value)
        assert [each.name for each in (tmp_path / "out").iterdir()] == [name]
        assert (tmp_path / "out" / name).read_text() == "mine"
        (tmp_path / "out" / name).rename(tmp_path / name)
    told("Sweeps", "an output with a table.csv of somebody else", caught.value)


def test_an_output_that_is_a_file(tmp_path: Path, told: Callable[..., None]) -> None:
    file = plan_of(tmp_path)
    (tmp_path / "out").write_text("mine")
    with pytest.raises(UserError) as caught:
        sweep(file)
    told("Sweeps", "an output that is a file", caught.value)
    assert (tmp_path / "out").read_text() == "mine"


def test_a_machine_with_other_versions_or_without_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[..., None]
) -> None:
    file = plan_of(tmp_path)
    monkeypatch.setattr(platform, "node", lambda: "node7")
    with pytest.raises(UserError) as caught:
        run_cell(Recording(), read_plan(file).cells[0], tmp_path / "run", 1, {**made_of(), "diffgen": "9.9"})
    told("Sweeps", "a machine of the cluster with another version", caught.value)
    monkeypatch.setattr(_Sweep, "_pool", lambda self: (Here(), 1, 1))
    monkeypatch.setattr("diffgen.workflows.sweep.run_cell", lambda *arguments: None)
    result = sweep(file)
    assert [each.status for each in result.outcomes] == ["failed"]
    told("Sweeps", "a machine of the cluster that does not share the output", result.outcomes[0].why)


def test_what_comparisons_warn_of_is_said_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what was not heard while they ran: a run keeps its own warnings."""

    def run(events: Listener, cell: Cell, run: Path, *arguments: Any) -> None:
        if cell.technique == "diffgan":
            events(Message("warning", "Model A is slow."))
            events(Message("warning", "Model A sees grey."))
        kept = ["Model A sees grey.", f"Seed {cell.seed} finds little."]
        RunFolder.create(run, config={}, manifest={**_MADE_OF, "warnings": kept}, force=True)

    file, listener = tmp_path / "sweep.toml", Recording()
    pair = 'models = ["a", "b"]\ndata = "digits"\n'
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    file.write_text(
        'output = "out"\ntechniques = ["dflare", "diffgan"]\nseeds = [1, 2]\nbudgets = ["9q"]\n'
        f'[[pairs]]\nname = "one"\n{pair}[[pairs]]\nname = "two"\n{pair}'
    )
    monkeypatch.setattr(_Sweep, "_pool", lambda self: (Here(), 1, 1))
    monkeypatch.setattr("diffgen.workflows.sweep.run_cell", run)
    result = sweep(file, events=listener)
    warned = [each for each in listener.warnings if "is not seen here" not in each]  # these runs have no results
    assert warned == [
        "one-dflare-9q-1: Model A sees grey.",
        "one-dflare-9q-1: Seed 1 finds little.",
        "one-diffgan-9q-1: Model A is slow.",
        "two-dflare-9q-1: Model A sees grey.",
        "two-dflare-9q-1: Seed 1 finds little.",
        "two-diffgan-9q-1: Model A is slow.",
        "one-dflare-9q-2: Seed 2 finds little.",
        "two-dflare-9q-2: Seed 2 finds little.",
    ]
    rows = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    assert [row["warnings"] for row in rows] == [
        f"Model A sees grey. Seed {seed} finds little." for seed in (1, 2) for _ in range(4)
    ]
    page = Path(result.report).read_text()
    assert "<strong>one, dflare, 9q, seed 1 and 3 more of this pair:</strong> Model A sees grey." in page
    assert "<strong>two, dflare, 9q, seed 2 and 1 more of this pair:</strong> Seed 2 finds little." in page


_FAILS = {
    "a model file that is not there": 'models = ["a", "gone.pt"]\ndata = "digits"\n',
    "data that are not there": 'models = ["a", "b"]\ndata = "gone"\n',
    "one of three models twice": 'models = ["a", "b", "a"]\ndata = "digits"\n',
    "more models than a technique compares": 'models = ["a", "b", "c"]\ndata = "digits"\n',
}


@pytest.mark.parametrize("case", _FAILS)
def test_what_fails_for_sure_is_said_before_anything_runs(case: str, tmp_path: Path, told: Callable[..., None]) -> None:
    file = plan_of(tmp_path, f'[[pairs]]\nname = "two"\n{_FAILS[case]}')
    (tmp_path / "c").write_text("no model c")
    file.write_text(f'techniques = ["diffgan", "dflare"]\nseeds = [1, 2]\n{file.read_text()}')
    with pytest.raises(UserError) as caught:
        sweep(file)
    assert str(caught.value).startswith("The comparison two-")
    assert not (tmp_path / "out").exists()
    told("Sweeps", case, caught.value)


def test_every_cause_is_said_once(tmp_path: Path) -> None:
    file = plan_of(tmp_path)
    pairs = [f'[[pairs]]\nname = "{number}"\n{text}' for number, text in enumerate(_FAILS.values())]
    file.write_text(f'techniques = ["diffgan", "dflare"]\nseeds = [1, 2]\noutput = "out"\n{"".join(pairs)}')
    (tmp_path / "c").write_text("no model c")
    with pytest.raises(UserError) as caught:
        sweep(file)
    assert "0-diffgan-60s-1 and 3 more" in str(caught.value)
    data, twice, models = caught.value.__notes__
    assert "1-diffgan-60s-1 and 3 more" in data
    assert "2-diffgan-60s-1 and 3 more" in twice
    assert "2-dflare-60s-1 and 3 more" in models


def test_a_pair_of_one_file_is_warned_of_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, listener = plan_of(tmp_path, '[[pairs]]\nname = "two"\nmodels = ["a", "./a"]\ndata = "digits"\n'), Recording()
    monkeypatch.setattr(_Sweep, "_pool", lambda self: (Here(), 1, 1))
    monkeypatch.setattr("diffgen.workflows.sweep.run_cell", lambda *arguments: None)
    sweep(file, events=listener)
    assert listener.warnings[0].startswith("The models of the pair two are one and the same (")
    assert sum("one and the same" in each for each in listener.warnings) == 1


@pytest.mark.parametrize(
    ("techniques", "warned"),
    [
        (["real_data", "sinvad"], ""),
        (["real_data", "dflare"], "no picture of real_data and dflare is drawn from it"),
        (["real_data"], "no picture of real_data is drawn from it"),
    ],
)
@pytest.mark.parametrize("family", ["vae", "gan"])
def test_a_source_that_all_share_is_left_out_where_nothing_draws_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, techniques: list[str], warned: str, family: str
) -> None:
    """No comparison warns of it, and the sweep only where none of its techniques draws from it."""
    handed: dict[str, str | None] = {}

    def compare(*models: str, config: CompareConfig, **rest: object) -> None:
        handed[config.technique] = config.source.family
        assert without_unused_source(config) == config

    file, listener = plan_of(tmp_path, f'[settings.source]\nfamily = "{family}"\n'), Recording()
    file.write_text(f"techniques = {techniques}\nseeds = [1, 2]\n{file.read_text()}")
    monkeypatch.setattr(_Sweep, "_pool", lambda self: (Here(), 1, 1))
    monkeypatch.setattr("diffgen.workflows.compare.compare", compare)
    sweep(file, events=listener)
    assert handed == {each: family if each == "sinvad" else None for each in techniques}
    told = [each for each in listener.warnings if each.startswith("The settings name")]
    assert len(told) == bool(warned)
    assert all(f"name the source {family}, but {warned}" in each for each in told)


def test_real_images_as_a_shared_source_are_refused_for_no_technique(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison alone refuses it, where nobody else could have meant it."""
    file = plan_of(tmp_path, '[settings.source]\nfamily = "seeds"\n')
    file.write_text(f'techniques = ["diffgan", "real_data"]\n{file.read_text()}')
    monkeypatch.setattr(_Sweep, "_pool", lambda self: (Here(), 1, 1))
    monkeypatch.setattr("diffgen.workflows.sweep.run_cell", lambda *arguments: None)
    assert len(sweep(file).outcomes) == 2


def test_what_is_done_needs_its_files_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = plan_of(tmp_path)
    (tmp_path / "a").unlink()
    monkeypatch.setattr("diffgen.workflows.sweep.results_of", lambda run: True)
    assert len(sweep(file).outcomes) == 1


@pytest.mark.parametrize(
    ("case", "damage"),
    [
        ("a run folder without its manifest", lambda run: (run / "manifest.json").unlink()),
        ("a run folder whose settings are cut off", lambda run: (run / "config.toml").write_text("seed =")),
        ("a run folder with neither", lambda run: [(run / each).unlink() for each in ("manifest.json", "config.toml")]),
    ],
)
def test_a_damaged_run_is_said_to_be_removed(
    tmp_path: Path, told: Callable[..., None], case: str, damage: Callable[[Path], object]
) -> None:
    (cell,) = read_plan(plan_of(tmp_path)).cells
    run = tmp_path / "out" / "runs" / cell.name
    RunFolder.create(run, config={}, manifest=_MADE_OF, force=False)
    damage(run)
    with pytest.raises(UserError, match="remove that folder to begin this comparison again") as caught:
        run_cell(Recording(), cell, run, 1, made_of())
    told("Sweeps", case, caught.value)


def test_ctrl_c_says_what_becomes_of_the_comparisons_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = plan_of(tmp_path)
    file.write_text(f"seeds = [1, 2]\n{file.read_text()}")

    class Endless(Here):
        def start(self, number: int, function: Function, *arguments: Any) -> None:
            RunFolder.create(arguments[1], config={}, manifest=_MADE_OF, force=False)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(_Sweep, "_pool", lambda self: (Endless(), 1, 1))
    assert main(["sweep", str(file)]) == 130
    said = capsys.readouterr()
    assert "the same command goes on with them from their last checkpoints" in " ".join(said.err.split())
    assert "what was found is kept and reported" not in said.err
    assert "comparisons done  0 of 2, 1 begun" in said.out
    rows = csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines())
    assert [row["status"] for row in rows] == ["begun", "open"]


def test_no_cluster(tmp_path: Path, told: Callable[..., None]) -> None:
    file = plan_of(tmp_path)
    with pytest.raises(UserError) as caught:
        sweep(file, ray="127.0.0.1:1")
    told("Sweeps", "--ray 127.0.0.1:1", caught.value)
    assert not (tmp_path / "out").exists()


def test_no_worker(tmp_path: Path, told: Callable[..., None]) -> None:
    with pytest.raises(UserError) as caught:
        sweep(tmp_path / "sweep.toml", workers=0)
    told("Sweeps", "--workers 0", caught.value)
