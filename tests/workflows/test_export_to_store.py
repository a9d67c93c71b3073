"""A run and its triggers in a store: fsspec's own in memory, and folders by URL."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import fsspec
import numpy as np
import pytest

from diffgen.cli import main
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.runs.folder import RunFolder
from diffgen.workflows.export_dataset import export_dataset, export_to_store


def test_into_a_store(done_run: Path, tmp_path: Path) -> None:
    result = export_dataset(done_run, "memory://bucket/finds")
    store, place = fsspec.core.url_to_fs(result.folder)
    store.get(place, str(tmp_path / "fetched"), recursive=True)
    images = load(next((tmp_path / "fetched").glob("*.parquet")))
    triggers = RunFolder.open(done_run).read_judged()
    np.testing.assert_array_equal(images.images, triggers.images[triggers.confirmed])
    assert result.folder == f"memory://bucket/finds/run={done_run.name}"
    store.rm("/bucket", recursive=True)


@pytest.mark.parametrize("name", ["summary.md", "images", "images/trigger-000001-A1-B2.png"])
def test_what_a_link_in_a_run_leads_to_is_not_sent(done_run: Path, tmp_path: Path, name: str) -> None:
    """The run may come from a stranger."""
    mine = tmp_path / "mine" / "trigger-000001-A1-B2.png"
    mine.parent.mkdir()
    mine.write_text("a secret of the account")
    copy = Path(shutil.copytree(done_run, tmp_path / "run"))
    shutil.rmtree(copy / "images", ignore_errors=True)
    (copy / "summary.md").unlink(missing_ok=True)
    (copy / name).parent.mkdir(exist_ok=True)
    (copy / name).symlink_to(mine.parent if name == "images" else mine)
    with pytest.raises(UserError, match="symbolic link"):
        export_to_store(copy, f"file://{tmp_path}/bucket")
    assert not (tmp_path / "bucket").exists()


def test_a_run_in_a_store_is_a_run_when_it_is_fetched(
    done_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], told: Callable[..., None]
) -> None:
    url = f"file://{tmp_path}/bucket"
    assert main(["export", str(done_run), "--to", url]) == 0
    name = done_run.name
    assert capsys.readouterr().out.strip().endswith(f"files: {url}/{name}")
    fetched = RunFolder.open(tmp_path / "bucket" / name)
    assert (fetched.path / "results.json").read_bytes() == (done_run / "results.json").read_bytes()
    found, wanted = fetched.read_judged(), RunFolder.open(done_run).read_judged()
    np.testing.assert_array_equal(found.images, wanted.images)
    assert not list(fetched.path.glob("checkpoint*"))
    for case, words in {
        "`--to` with a folder": ("--to", "bucket"),
        "`--to` with `-o`": ("--to", url, "-o", "x"),
        "`--to` with `--dataset`": ("--to", url, "--dataset", "finds"),
    }.items():
        assert main(["export", str(done_run), *words]) == 2
        told("Exports", case, capsys.readouterr().err.strip())
