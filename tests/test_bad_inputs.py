"""The page of bad inputs; the tests of the cases write it and see that it misses none of them (``told``)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


@pytest.fixture
def cases(repository: Path) -> list[tuple[str, str]]:
    page = (repository / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| given |")]
    return [(case, sentence) for _, case, sentence, _ in (re.split(r"(?<!\\)\|", row) for row in rows)]


def test_it_has_many_cases_of_every_kind(cases: list[tuple[str, str]], repository: Path) -> None:
    assert len(cases) >= 150
    page = (repository / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    for group in ("Model files", "Answers of a model", "Images", "Sidecars", "`--label-map`", "`--config`"):
        assert f"## {group}\n" in page


def test_each_is_said_in_one_sentence_that_ends(cases: list[tuple[str, str]]) -> None:
    for case, sentence in cases:
        assert sentence.strip().endswith((".", "?")), (case, sentence)
        assert ". " not in re.sub(r"[.?] (?=Try|See)", "", sentence.strip()), (case, sentence)


def test_no_folder_of_the_machine_that_made_it_is_in_it(cases: list[tuple[str, str]]) -> None:
    for case, sentence in cases:
        assert "pytest-" not in sentence, (case, sentence)
