"""The pictures of README and site: small SVG files that say what they show and fetch nothing."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from lxml import etree
from PIL import Image

import diffgen
from docs.tools.badges import BADGES, badges
from docs.tools.pictures import WIDTH, Card
from tests.ui.steps import TABS

SIZES = (1440, 390)
_SVG = "{http://www.w3.org/2000/svg}"


def test_every_picture_of_readme_is_small_says_what_it_shows_and_fetches_nothing(repository: Path) -> None:
    names = re.findall(r"\]\((docs/pictures/\w+[.]svg)\)", (repository / "README.md").read_text(encoding="utf-8"))
    assert len(names) == 5
    for name in names:
        root = etree.parse(repository / name).getroot()
        assert (repository / name).stat().st_size < 60_000
        assert root.findtext(f"{_SVG}title")
        assert all(image.get("href").startswith("data:image/png;base64,") for image in root.iter(f"{_SVG}image"))


def test_the_page_is_shown_as_the_tool_takes_it(repository: Path) -> None:
    """Every tab in both sizes, and nothing of tabs that are no more; the page of the site names each."""
    files = {each.name: each for each in (repository / "docs/pictures/page").iterdir()}
    assert set(files) == {f"{tab.lower()}-{width}.png" for tab in TABS for width in SIZES}
    for name, file in files.items():
        with Image.open(file) as picture:
            assert f"-{picture.width}.png" in name
        assert file.stat().st_size < 300_000
    page = (repository / "docs/howto/browser.md").read_text(encoding="utf-8")
    assert [name for name in files if f"pictures/page/{name}" not in page] == []


def test_badges_say_what_the_files_of_the_project_say(repository: Path) -> None:
    shown = re.findall(
        r"!\[[^]]+\]\(docs/pictures/badges/([^)]+)\)", (repository / "README.md").read_text(encoding="utf-8")
    )
    assert shown == list(badges())
    for name, text in badges().items():
        assert (BADGES / name).read_text(encoding="utf-8") == text, "python -m docs.tools.badges writes it anew"
    assert "<title>licence: Apache-2.0</title>" in badges()["licence.svg"]
    assert f"CITATION.cff, {diffgen.__version__}" in badges()["citation.svg"]


def test_the_versions_of_a_release_are_the_same(repository: Path) -> None:
    version = diffgen.__version__
    assert f"\nversion: {version}\n" in (repository / "CITATION.cff").read_text(encoding="utf-8")
    changes = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE)[0] == version


def test_a_card_is_the_same_bytes_each_time_and_keeps_letters_of_xml(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (channels, 28, 28), dtype=np.uint8) for channels in (1, 3)]
    for file in ("one.svg", "two.svg"):
        card = Card(120, 'A & B say "<3"')
        card.text(10, 20, "a < b & c", bold=True, at="end")
        card.model(10, 60, "B", "4<5")
        for place, image in enumerate(images):
            card.image(100 * place, 20, 88, image)
        card.write(tmp_path / file)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    root = etree.parse(tmp_path / "one.svg").getroot()
    assert root.get("width") == str(WIDTH)
    assert [each.text for each in root.iter(f"{_SVG}text")] == ["a < b & c", "B", "4<5"]
    assert root.findtext(f"{_SVG}title") == 'A & B say "<3"'
    assert len(list(root.iter(f"{_SVG}image"))) == 2
