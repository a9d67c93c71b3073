"""Sheets that people fill in on the page: no vote is lost, and none is another person's."""

from __future__ import annotations

import os
from pathlib import Path

from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place
from tests.ui.conftest import take


def test_a_vote_replaces_the_file_whole(tmp_path: Path) -> None:
    """What was said before stays on the disk until the new file is complete: it is the only copy."""
    take("run-0.1.0-near-duplicates", tmp_path / "run")
    sheets = Sheets(Place(tmp_path, (tmp_path,)))
    sheets.make("run", 3)
    first, second, _ = sheets.ids("run")
    sheets.vote("run", "Ada", first, "3")
    file = sheets.folder("run") / "by-Ada.csv"
    before = file.read_text(encoding="utf-8")
    os.link(file, tmp_path / "before.csv")  # sees what happens to the file itself
    sheets.vote("run", "Ada", second, "7")
    assert (tmp_path / "before.csv").read_text(encoding="utf-8") == before
    assert sheets.said("run", "Ada") == {first: "3", second: "7"}
    (file.parent / ".by-Ada.csv.1.0123456789abcdef.tmp").write_text("left by a power cut", encoding="utf-8")
    sheets.clear("run")
    assert not file.parent.exists()
