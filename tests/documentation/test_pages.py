"""The pages that are made from the program say everything, and links and pictures of all pages are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import diffgen
from diffgen.config import Limits
from diffgen.config.schema import every_setting
from diffgen.filters import FILTERS
from diffgen.gate.conditions import CRITERIA
from diffgen.parts import Registry
from diffgen.sources.registry import SOURCES
from diffgen.techniques import TECHNIQUES
from docs.tools import reference_pages, sphinx_pages
from docs.tools.links import problems

_LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")


@pytest.mark.parametrize("verb", reference_pages.verbs())
def test_every_option_of_a_verb_is_on_its_page(verb: str) -> None:
    page = reference_pages.command_page(verb)
    options = reference_pages.options_of(verb)
    assert options
    missing = [name for name in options if not re.search(rf"`{re.escape(name)}[ `]", page)]
    assert missing == []


def test_every_verb_is_on_the_page_of_commands() -> None:
    page = reference_pages.commands_page()
    for verb in reference_pages.verbs():
        assert f"| [diffgen {verb}]({verb}.md) | " in page
        assert f"\n{verb}\n" in page


def test_every_setting_is_on_the_page_of_settings() -> None:
    page, table, found = reference_pages.settings_page(), "", set()
    for line in page.splitlines():
        table = match[1] if (match := re.fullmatch(r"### `\[([\w.]+)\]`", line)) else table
        table = "" if line == "### At the top of a file" else table
        if match := re.match(r"\| `(\w+)`", line):
            found.add(f"{table}.{match[1]}".removeprefix("."))
    assert found == reference_pages.all_settings()
    assert len(found) > 100


def test_every_public_name_is_on_the_page_of_python() -> None:
    named = [name for names in reference_pages.python_groups().values() for name in names]
    assert sorted(named) == sorted(name for name in dir(diffgen) if not name.startswith("_"))
    assert all(f"diffgen.{name}\n" in reference_pages.python_page() for name in named)


def test_tables_have_two_cells_in_every_row() -> None:
    for page in (reference_pages.settings_page(), *map(reference_pages.command_page, reference_pages.verbs())):
        rows = [line for line in page.splitlines() if line.startswith("|")]
        assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}


def pages_of(repository: Path) -> list[Path]:
    """Every page that somebody wrote, where GitHub shows it."""
    made = {"_build", "generated", "results", "changelog.md", "contributing.md"}
    docs = [each for each in (repository / "docs").rglob("*.md") if not made & {*each.relative_to(repository).parts}]
    results = (repository / "benchmarks" / "results").glob("*.md")
    return [
        *docs,
        *results,
        *(repository / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "examples/README.md")),
    ]


@pytest.mark.parametrize(("page", "kind"), [("techniques", TECHNIQUES), ("sources", SOURCES), ("filters", FILTERS)])
def test_every_part_has_its_line_on_its_page(repository: Path, page: str, kind: Registry[Any]) -> None:
    text = (repository / "docs" / "reference" / f"{page}.md").read_text(encoding="utf-8")
    assert kind.own().keys() == set(re.findall(r"^\| `(\w+)", text, re.MULTILINE))


def test_every_condition_of_the_gate_has_its_line_on_its_page(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "check.md").read_text(encoding="utf-8")
    options = {each.option for each in every_setting(Limits)}
    assert options == set(re.findall(r"^\| `(--max-[\w-]+) .*\|.*\|$", page, re.MULTILINE))
    values = {each.name for each in CRITERIA if each.kind is not None} - {"variation_drop"}  # in values.variations
    assert values <= set(re.findall(r"`values\.(\w+)`", page))


def test_no_cell_of_the_page_of_the_gate_holds_a_paragraph(repository: Path) -> None:
    page = (repository / "docs" / "reference" / "check.md").read_text(encoding="utf-8")
    cells = [cell for line in page.splitlines() if line.startswith("|") for cell in line.split("|")]
    assert [cell for cell in cells if len(cell) > 240] == []
    assert page.index("## Which three limits should I set?") < page.index("## Conditions")


def test_links_of_pages_lead_to_files_of_the_checkout(repository: Path) -> None:
    """As GitHub shows them; the built site is checked with its anchors by ``make docs``."""
    lost = []
    for page in pages_of(repository):
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        for target in _LINK.findall(text):
            if not re.match(r"[a-z]+:", target) and "generated/" not in target and not (page.parent / target).exists():
                lost.append(f"{page.relative_to(repository)}: {target}")
    assert lost == []


def test_links_on_the_site(repository: Path) -> None:
    page = repository / "docs" / "howto" / "data.md"
    text = "[a](../../benchmarks/results/sizes.md#x) [b](../decisions/001-package-layout.md) [c](https://x.org)\n"
    code = "```\n[d](nowhere)\n```"
    assert sphinx_pages.site_text(text + code, page) == (
        "[a](/results/sizes.md#x) [b](/decisions/001-package-layout.md) [c](https://x.org)\n" + code
    )
    assert sphinx_pages.site_text("[e](../../LICENSE)", page) == "[e](/../LICENSE)"
    with pytest.raises(ValueError, match=r"links to ../../nowhere, which is not there"):
        sphinx_pages.site_text("[d](../../nowhere)", page)


def test_a_site_that_was_not_built_is_no_good_one(tmp_path: Path) -> None:
    assert list(problems(tmp_path)) == [f"{tmp_path / 'index.html'} is not there; build the site first"]


def test_broken_links_and_foreign_requests_are_found(tmp_path: Path) -> None:
    (tmp_path / "style.css").write_text("@import 'https://fonts.example/x.css'; a { b: url(x.png) }")
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>')
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="style.css"><img src="//example.org/a.png"><a href="https://example.org">x</a>'
        '<a href="other.html#there">x</a><a href="other.html#gone">x</a><a href="gone.html">x</a>'
    )
    assert list(problems(tmp_path)) == [
        "index.html fetches //example.org/a.png",
        "index.html links to other.html#gone, which has no such place",
        "index.html links to gone.html, which is not there",
        "style.css fetches https://fonts.example/x.css",
    ]
