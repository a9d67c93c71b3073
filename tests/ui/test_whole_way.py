"""The whole way of a user in a real browser: from picking files to an exported zip, on a search that is real."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from diffgen import api
from diffgen.models import read_sidecar
from diffgen.ui.jobs import Jobs
from diffgen.ui.place import Place
from tests.ui.steps import choose, go

playwright = pytest.importorskip("playwright.sync_api", reason="pip install 'diffgen[test]' brings it")
_PATIENCE = 900_000  # ms for what a process of its own does: it imports everything first
_FOREVER = "50000000q"  # it is stopped when enough is seen, however fast the machine is


@pytest.mark.slow
@pytest.mark.usefixtures("stopped")
@pytest.mark.timeout(3000)
def test_from_files_to_a_zip(opened: Callable[..., Any], place: Place, tmp_path: Path) -> None:
    """Started, reloaded while it runs, stopped, resumed, looked through, asked again, shrunk, labelled, exported."""
    page = opened(fails=True)  # a reload cuts off what is on its way
    page.set_default_timeout(_PATIENCE)
    expect = playwright.expect
    expect.set_options(timeout=_PATIENCE)
    page.get_by_role("button", name="Pick models from a folder").click()
    models = page.locator("#dg-models textarea")
    for name in ("a.onnx", "b.onnx"):
        page.get_by_role("button", name=f"add the model {name}").click()
        expect(models).to_have_value(re.compile(rf"{name}$"))
    page.get_by_role("button", name="digits:test").click()
    expect(page.locator(".dg-model")).to_have_count(2)
    page.get_by_label("Budget").locator("visible=true").fill(_FOREVER)
    page.get_by_label("Name of the run").locator("visible=true").fill("way")
    page.get_by_role("button", name="More settings").click()
    choose(page, "Technique", "diffgan")
    page.get_by_label("Every other setting").fill("data_labels=ignore\nfilters.names=[]\nsearch.population=50")
    page.get_by_role("button", name="Start the search").click()
    # those of the run that was chosen before are there until the new one is
    newest = page.locator("#dg-live-finds .dg-thumb:has([style*='files/way/'])")
    newest.first.wait_for()
    page.reload()
    go(page, "Live")
    newest.first.wait_for()
    stop, resume = page.get_by_role("button", name="Stop", exact=True), page.get_by_role("button", name="Resume")
    stop.click()
    resume.wait_for()
    before = api.describe_run(place.runs / "way")
    assert before.status == "interrupted"
    resume.click()
    stop.wait_for()
    while api.describe_run(place.runs / "way").triggers <= before.triggers:
        page.wait_for_timeout(500)
    stop.click()
    resume.wait_for()
    go(page, "Behaviours")
    page.locator("#dg-pictures .dg-thumb").first.click()
    detail, outcome = page.locator("#dg-one .dg-detail"), page.locator("#dg-outcome")
    expect(detail).to_contain_text("what it was made from")
    page.get_by_role("button", name="Ask the models about this picture now").click()
    expect(outcome).to_contain_text("They still disagree")
    said = [each.strip() for each in detail.locator("h4").inner_text().split(",")]
    assert all(each in outcome.inner_text() for each in said)
    page.get_by_role("button", name="Make its difference small now").click()
    expect(outcome).to_contain_text("grey levels")
    for title in ("shrunk: they agree", "shrunk: they differ"):
        picture = detail.get_by_role("img", name=title)
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 28
    number = int(re.findall(r"\d+", detail.get_attribute("aria-label"))[0])
    assert api.browse(place.runs / "way").find(number).shrunk is not None
    go(page, "Label")
    page.get_by_role("button", name="The sheet").click()
    page.get_by_label("Pictures").locator("visible=true").fill("3")
    page.get_by_role("button", name="Draw a sheet").click()
    page.get_by_label("Who labels").fill("Ada")
    page.get_by_label("Who labels").press("Enter")
    page.locator(".dg-label").focus()
    for key in "123":
        page.keyboard.press(key)
    expect(page.locator("#dg-tabs")).to_contain_text("3 of 3")
    page.get_by_role("button", name="Put the labels into the run").click()
    expect(page.locator("#dg-tabs")).to_contain_text("3 pictures have a class")
    assert api.label_counts(place.runs / "way")[1]["human"] == 3
    go(page, "Runs")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export all pictures").click()
    download.value.save_as(tmp_path / "way.zip")
    with zipfile.ZipFile(tmp_path / "way.zip") as packed:
        assert packed.testzip() is None
        names = packed.namelist()
    exported = api.export(place.runs / "way", tmp_path / "again")
    here = {f"way/{each.relative_to(exported.folder)}" for each in Path(exported.folder).rglob("*") if each.is_file()}
    assert {each for each in names if not each.endswith("/")} == here
    jobs = [json.loads(each.read_text(encoding="utf-8")) for each in place.runs.glob(".ui/jobs/*/job.json")]
    assert [each["verb"] for each in jobs if each["run"] == "way"].count("compare") == 2
    page.get_by_role("button", name="Delete this run").click()
    page.get_by_label("Write its name").fill("way")
    page.get_by_role("button", name="Delete for good").click()
    expect(page.locator("#dg-runs")).not_to_contain_text("way")
    assert not (place.runs / "way").exists()


@pytest.mark.slow
def test_models_are_picked_and_dropped(opened: Callable[..., Any], place: Place, tmp_path: Path) -> None:
    """From the folders that were named by keyboard, from elsewhere by dropping; a file that is no model is told of."""
    (place.runs / "more").mkdir()
    shutil.copyfile(place.runs / "b.onnx", place.runs / "more" / "b.onnx")
    (place.runs / "more" / "notes.txt").write_text("no model", encoding="utf-8")
    (place.runs / "more" / "out.onnx").symlink_to(tmp_path / "secret.onnx")
    (tmp_path / "secret.onnx").write_bytes(b"from elsewhere")
    (tmp_path / "wrong.onnx").write_bytes(b"no model at all")
    page = opened()
    page.get_by_role("button", name="Pick models from a folder").click()
    models, tree = page.locator("#dg-models textarea"), page.locator("#dg-tree-model")
    tree.get_by_role("button", name="add the model a.onnx").click()
    playwright.expect(models).to_have_value(f"{place.runs}/a.onnx")
    folder = tree.get_by_role("button", name="open the folder more")
    folder.focus()
    page.keyboard.press("Enter")
    picked = tree.get_by_role("button", name="add the model b.onnx")
    playwright.expect(tree.get_by_role("listitem")).to_have_text(["..", "b.onnx"])
    playwright.expect(tree.get_by_role("button", name="back to the folder above")).to_be_focused()
    picked.focus()
    page.keyboard.press("Enter")
    playwright.expect(models).to_have_value(f"{place.runs}/a.onnx\n{place.runs}/more/b.onnx")
    data = page.locator("#dg-data textarea, #dg-data input").first
    data.fill("digits:test")
    page.locator("input[type=file]").first.set_input_files(tmp_path / "wrong.onnx")
    playwright.expect(models).to_have_value(re.compile(r"b\.onnx\n.*/\.ui/uploads/.*/wrong\.onnx$"))
    cards = page.locator(".dg-model, .dg-note.dg-bad")
    playwright.expect(cards).to_have_count(3)
    playwright.expect(page.get_by_role("alert")).to_contain_text("wrong.onnx")
    page.locator("input[type=file]").nth(1).set_input_files(tmp_path / "wrong.onnx")
    playwright.expect(page.locator("#dg-data textarea, #dg-data input").first).to_have_value(
        re.compile(r"wrong\.onnx$")
    )
    playwright.expect(page.get_by_role("alert").first).to_contain_text("wrong.onnx")


@pytest.fixture
def inverted(place: Place) -> Iterator[Path]:
    """A model that wants black and white the other way round."""
    model = onnx.load(place.runs / "a.onnx")
    given = model.graph.input[0].name
    for node in model.graph.node:
        node.input[:] = ["turned" if each == given else each for each in node.input]
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(1, np.float32), "one"))
    model.graph.node.insert(0, onnx.helper.make_node("Sub", ["one", given], ["turned"]))
    onnx.save(model, place.runs / "inverted.onnx")
    yield place.runs / "inverted.onnx"
    for each in place.runs.glob("inverted.onnx*"):
        each.unlink()


@pytest.mark.usefixtures("stopped")
def test_a_model_is_fed_as_its_card_says(opened: Callable[..., Any], place: Place, inverted: Path) -> None:
    """Before a search with a model that is fed wrongly the page asks; with the button on its card it no longer is."""
    page = opened()
    page.locator("#dg-models textarea").fill("inverted.onnx\nb.onnx")
    page.get_by_role("button", name="digits:test").click()
    cards = page.locator(".dg-model")
    playwright.expect(cards).to_have_count(2)
    playwright.expect(cards.first).to_contain_text("fed wrongly")
    start, feed = page.get_by_role("button", name="Start the search"), page.get_by_role("button", name="feed A like")
    page.get_by_label("Name of the run").locator("visible=true").fill("fed")
    start.click()
    playwright.expect(page.locator("#dg-doubt")).to_contain_text("hardly more often than by guessing")
    assert Jobs(place).of("fed") is None
    feed.click()
    playwright.expect(cards.first).to_contain_text("fed as: as the sidecar says")
    playwright.expect(page.get_by_role("button", name="Start all the same")).to_have_count(0)
    assert read_sidecar(inverted).preprocessing.invert
    playwright.expect(cards).to_have_count(2)
    start.click()
    playwright.expect(page.get_by_role("tab", name="Live", exact=True, selected=True)).to_be_visible()
    assert Jobs(place).of("fed").alive
