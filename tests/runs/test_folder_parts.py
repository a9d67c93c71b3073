"""What a run folder holds: parts of triggers, checkpoints, arrays and figures, whole and damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.errors import UserError
from diffgen.runs import folder as folder_module
from diffgen.runs.folder import RunFolder
from tests.runs.conftest import create, part, stop, table, write_manifest

# -- triggers --------------------------------------------------------------------------------------------------------


def test_parts_come_back_in_order(run: RunFolder) -> None:
    expected = [part(5), part(3, first=5)]
    for folder in (run, RunFolder.open(run.path)):
        found = folder.read_triggers().columns()
        assert found.keys() == expected[0].keys()
        for name, column in found.items():
            assert column.dtype.kind == expected[0][name].dtype.kind
            np.testing.assert_array_equal(column, np.concatenate([each[name] for each in expected]))
    assert run.manifest["parts"] == [{"file": "part-00000.npz", "rows": 5}, {"file": "part-00001.npz", "rows": 3}]


def test_more_parts_than_five_digits_sort(tmp_path: Path) -> None:
    folder = create(tmp_path / "run")
    for number in range(12):
        folder.write_part(table(1, first=number))
    np.testing.assert_array_equal(RunFolder.open(folder.path).read_triggers().query, np.arange(12))


def test_a_part_that_the_manifest_does_not_name_is_not_there(run: RunFolder) -> None:
    """Written, but the program was stopped before it could say so; the next part takes its place."""
    old = json.loads((run.path / "manifest.json").read_text())
    run.write_part(table(4, first=8))
    (run.path / "manifest.json").write_text(json.dumps(old))
    resumed = RunFolder.open(run.path)
    assert len(resumed.read_triggers().query) == 8
    resumed.write_part(table(2, first=100))
    np.testing.assert_array_equal(RunFolder.open(run.path).read_triggers().query, [*range(8), 100, 101])


def damaged(run: RunFolder) -> str:
    with pytest.raises(UserError, match="damaged") as caught:
        _ = RunFolder.open(run.path).read_triggers().images
    return str(caught.value)


def test_a_part_that_is_missing(run: RunFolder) -> None:
    (run.path / "triggers" / "part-00001.npz").unlink()
    assert "part-00001.npz" in damaged(run)


def test_a_part_that_was_cut_off(run: RunFolder) -> None:
    file = run.path / "triggers" / "part-00000.npz"
    whole = file.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 40, dtype=int):
        file.write_bytes(whole[:length])
        assert "part-00000.npz" in damaged(run)


def test_a_part_with_other_rows_than_the_manifest_says(run: RunFolder) -> None:
    np.savez(run.path / "triggers" / "part-00001.npz", **part(4))
    assert "part-00001.npz" in damaged(run)
    np.savez(run.path / "triggers" / "part-00001.npz", **{**part(3), "query": np.arange(2)})
    damaged(run)


def test_a_part_with_other_columns_than_the_first(run: RunFolder) -> None:
    file = run.path / "triggers" / "part-00001.npz"
    columns = part(3, first=5)
    others = [
        {name: column for name, column in columns.items() if name != "query"},
        {**columns, "more": np.zeros(3)},
        {**columns, "images": columns["images"][:, :, :14]},
        {**columns, "query": columns["query"].astype(str)},
        {**columns, "query": np.int64(3)},
        {},
    ]
    for each in others:
        np.savez(file, **each)
        damaged(run)
    np.savez(file, **columns)
    assert len(RunFolder.open(run.path).read_triggers().query) == 8


@pytest.mark.parametrize("entry", [5, None, "part-00000.npz", {}, {"file": "part-00000.npz"}, {"file": 5, "rows": 5}])
def test_a_manifest_with_damaged_entries(run: RunFolder, entry: Any) -> None:
    write_manifest(run, parts=[entry])
    damaged(run)


def test_a_pickle_among_the_triggers_is_not_run(run: RunFolder, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "boom",))

    np.savez(run.path / "triggers" / "part-00000.npz", query=np.array([Bomb()] * 5, dtype=object))
    damaged(run)
    assert not (tmp_path / "boom").exists()


# -- everything else -------------------------------------------------------------------------------------------------


def test_the_checkpoint_comes_back(run: RunFolder) -> None:
    assert run.read_checkpoint() is None
    rng = np.random.default_rng(3)
    state = {"X": rng.random((4, 7)), "parts": 2, "random_state": rng.bit_generator.state, "history": [{"n": 1}]}
    run.write_checkpoint({"X": np.zeros(3), "parts": 0})
    run.write_checkpoint(state)
    found = RunFolder.open(run.path).read_checkpoint()
    assert found is not None
    np.testing.assert_array_equal(found.pop("X"), state.pop("X"))
    assert found == state


def test_the_checkpoint_before_is_kept(run: RunFolder) -> None:
    for number in range(3):
        run.write_checkpoint({"number": number})
    assert run.read_checkpoint() == {"number": 2}
    assert run.drop_checkpoint()
    assert run.read_checkpoint() == {"number": 1}
    assert not run.drop_checkpoint()
    assert not run.has_checkpoint()
    assert run.read_checkpoint() is None


def test_going_back_forgets_what_came_after(run: RunFolder) -> None:
    run.write_part(table(2, first=8))
    for name in ("results.json", "verdicts.npz", "report.html"):
        (run.path / name).write_text("of three parts")
    (run.path / "images").mkdir()
    (run.path / "images" / "trigger-000009-A1-B2.png").touch()
    (run.path / "triggers" / ".part-00003.npz.77.0123456789abcdef.tmp").touch()
    (run.path / "notes.txt").write_text("mine")
    run.rewind(2)
    run.tidy()
    assert RunFolder.open(run.path).read_triggers().query.tolist() == list(range(8))
    assert sorted(each.name for each in (run.path / "triggers").iterdir()) == ["part-00000.npz", "part-00001.npz"]
    assert sorted(each.name for each in run.path.iterdir()) == ["config.toml", "manifest.json", "notes.txt", "triggers"]


def test_a_manifest_that_cannot_be_written_names_nothing_new(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the rows would be in two parts once there is space again."""
    with monkeypatch.context() as patch:
        patch.setattr(folder_module, "write_json", lambda *arguments: stop())
        with pytest.raises(KeyboardInterrupt):
            run.write_part(table(4, first=8))
    assert len(run.manifest["parts"]) == 2
    run.write_part(table(4, first=8))
    assert RunFolder.open(run.path).read_triggers().query.tolist() == list(range(12))


def test_a_checkpoint_that_was_cut_off_is_none(run: RunFolder) -> None:
    run.write_checkpoint({"X": np.zeros((4, 7)), "parts": 2})
    file = run.path / "checkpoint.npz"
    whole = file.read_bytes()
    for length in np.linspace(0, len(whole) - 1, 30, dtype=int):
        file.write_bytes(whole[:length])
        assert run.read_checkpoint() is None


@pytest.mark.parametrize("name", ["verdicts", "report"])
def test_arrays_of_the_report(run: RunFolder, name: str) -> None:
    with pytest.raises(UserError, match="did not come to its end"):
        run.read_arrays(name)
    scores = np.array([[0.5, np.nan], [0.25, 1.0]], dtype=np.float32)
    run.write_arrays(name, {"scores": scores, "names": ["discriminator", "ssim"]})
    found = run.read_arrays(name)
    np.testing.assert_array_equal(found["scores"], scores)
    assert found["names"] == ["discriminator", "ssim"]
    file = run.path / f"{name}.npz"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(UserError, match="damaged"):
        run.read_arrays(name)


def test_damaged_arrays_of_the_report(run: RunFolder) -> None:
    """Compressed data says in its own way that it is damaged."""
    run.write_arrays("verdicts", {"scores": np.random.default_rng(0).integers(0, 9, (300, 2)).astype(np.float32)})
    file, rng = run.path / "verdicts.npz", np.random.default_rng(1)
    whole = file.read_bytes()
    for _ in range(200):
        changed = bytearray(whole)
        changed[int(rng.integers(0, len(whole)))] ^= 1 << int(rng.integers(0, 8))
        file.write_bytes(changed)
        try:
            run.read_arrays("verdicts")
        except UserError as error:
            assert "damaged" in str(error)


def test_results(run: RunFolder) -> None:
    with pytest.raises(UserError, match="did not come to its end"):
        run.results()
    (run.path / "results.json").write_text('{"triggers": 5}')
    assert run.results() == {"triggers": 5}
    for content in ("", "{", "[]", "null", "[" * 100_000):
        (run.path / "results.json").write_text(content)
        with pytest.raises(UserError, match="damaged"):
            run.results()
