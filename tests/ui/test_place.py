"""What the page may read: only what was named, whatever is written into its fields."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.errors import UserError
from diffgen.ui.choosing import tree
from diffgen.ui.place import Place, lines
from tests.ui.conftest import Take


@pytest.fixture
def here(tmp_path: Path) -> Place:
    (tmp_path / "runs").mkdir()
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.onnx").write_bytes(b"a")
    (tmp_path / "secret.onnx").write_bytes(b"s")
    (tmp_path / "models" / "link.onnx").symlink_to(tmp_path / "secret.onnx")
    return Place((tmp_path / "runs").resolve(), ((tmp_path / "models").resolve(),))


def test_a_file_is_found_in_the_folders_that_were_named(here: Place) -> None:
    assert here.given("a.onnx", "model") == str(here.files[0] / "a.onnx")
    assert here.given(f" {here.files[0]}/a.onnx ", "model") == str(here.files[0] / "a.onnx")
    assert here.given("https://models.example/v2", "model") == "https://models.example/v2"
    assert here.given("digits:test", "data") == "digits:test"
    assert here.given(f"{here.files[0]}:train", "data") == f"{here.files[0]}:train"


@pytest.mark.parametrize("text", ["../secret.onnx", "link.onnx", "/etc/passwd", "/proc/self/environ", "~/.ssh"])
def test_what_lies_elsewhere_is_refused(here: Place, text: str) -> None:
    with pytest.raises(UserError, match=r"not in the folders that this page may read|is missing"):
        here.given(text, "model")


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "x" * 5000, "x" * 300])
def test_what_is_no_path_is_refused(here: Place, text: str) -> None:
    with pytest.raises(UserError, match="is missing"):
        here.given(text, "model")


def test_a_missing_file_is_named(here: Place) -> None:
    with pytest.raises(UserError, match=r"The model b\.onnx is missing"):
        here.given("b.onnx", "model")


def test_a_file_is_looked_for_in_every_folder(here: Place, tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "b.onnx").write_bytes(b"b")
    place = Place(here.runs, (*here.files, (tmp_path / "more").resolve()))
    assert place.given("b.onnx", "model") == str(place.files[1] / "b.onnx")
    assert place.given("a.onnx", "model") == str(place.files[0] / "a.onnx")
    with pytest.raises(UserError, match=r"The model c\.onnx is missing"):
        place.given("c.onnx", "model")


def test_a_store_lies_beside_the_runs(here: Place) -> None:
    assert here.folder("regressions", "store") == str(here.runs / "regressions")
    with pytest.raises(UserError, match="not in a folder that this page may use"):
        here.folder("../../elsewhere", "store")


@pytest.mark.parametrize("name", ["x<img src=q onerror=alert(1)>", "a>b", "a\nb", "a\0b", "a\x1b[31mb", "a\u202eb"])
def test_a_store_has_a_name_that_can_be_shown(here: Place, name: str) -> None:
    with pytest.raises(UserError, match="in its name; leave them out") as told:
        here.folder(name, "store")
    assert str(told.value).isprintable()
    place = Place(here.runs / "a<b>\u3000c", ())
    assert place.folder("st", "store") == place.folder(f"{place.runs}/st", "store") == f"{place.runs}/st"


@given(st.text(max_size=40))
def test_no_name_of_a_run_leads_out_of_the_folder(name: str) -> None:
    place = Place(Path("/place/runs"), ())
    try:
        found = place.run(name)
    except UserError:
        return
    assert found.parent == place.runs
    assert not found.name.startswith(".")
    assert found.resolve().parent == place.runs


@given(st.lists(st.text(max_size=30), max_size=5), st.text(max_size=200))
def test_a_free_name_is_free_and_can_be_used(taken: list[str], wanted: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder).resolve(), ())
        for each in [*taken, wanted]:
            (place.runs / place.free_name(each)).mkdir()
        name = place.free_name(wanted)
        assert not place.run(name).exists()


def test_a_run_in_place_of_its_folder_is_shown_first(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manifest.json").write_text("{}", encoding="utf-8")
    place, first = Place.of(str(tmp_path / "mine"), (".",))
    assert (place.runs, first) == (tmp_path.resolve(), "mine")


def test_a_missing_folder_of_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"The folder .*nowhere is missing"):
        Place.of(str(tmp_path), (str(tmp_path / "nowhere"),))


def test_files_of_mnist_and_weights_can_be_picked(here: Place) -> None:
    """The labels of MNIST are no images of their own."""

    folder = here.files[0]
    for name in ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "resnet20.th", "notes.gz"):
        (folder / name).write_bytes(b"x")
    listed = tree(here, "", "data") + tree(here, "", "model")
    assert f'data-pick="data:{folder}/t10k-images-idx3-ubyte.gz"' in listed
    assert f'data-pick="model:{folder}/resnet20.th"' in listed
    assert "labels-idx1" not in listed
    assert "notes.gz" not in listed


def test_a_run_whose_name_no_page_can_show_hides_no_other(tmp_path: Path, take: Take) -> None:
    take("unfinished", tmp_path / "run")
    shutil.copytree(tmp_path / "run", os.fsdecode(os.fsencode(tmp_path) + b"/run-\xff"))
    assert [each.name for each in lines(Place(tmp_path, (tmp_path,)))] == ["run"]
