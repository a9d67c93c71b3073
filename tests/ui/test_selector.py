"""What a selector gains, as the page shows it, is what it is worth."""

from __future__ import annotations

import json
import re
from pathlib import Path

from diffgen import api
from diffgen.labels.sheet import image_id
from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place
from diffgen.ui.tab_label import selector
from tests.ui.conftest import Take


def test_from_labels_of_the_page_to_the_gain(tmp_path: Path, take: Take) -> None:
    """Ada says of some pictures what A says, of others what B says: there is something to learn."""
    run = take("done", tmp_path / "run")
    sheets = Sheets(Place(tmp_path, (tmp_path,)))
    sheets.make("run", 40)
    finds = api.browse(run)
    for identifier, label in _answers(finds, sheets.ids("run")).items():
        sheets.vote("run", "Ada", identifier, label)
    sheets.put("run")
    result = api.select(run, config=api.SelectorConfig(features="pixels", trees=10))
    shown = selector(json.loads(json.dumps(result.as_dict())))
    text = re.sub(r"<[^>]+>", " ", shown)
    assert f"Learnt from {result.examples} labelled pictures" in text
    for each in result.on_triggers:
        figures = (*each.models, each.ensemble, each.oracle)
        row = " ".join([each.name, f"{each.pictures:,}", *(f"{share:.1%}" for share in figures)])
        assert row in " ".join(text.split())
        assert f"{100 * each.gain:+.1f} points" in text
    for real in result.real:
        assert f"real images ({real.source})" in text


def test_three_models_have_a_column_each() -> None:
    shares = {"model_a": 0.5, "model_b": 0.25, "model_c": 0.125, "ensemble": 0.75, "oracle": 1.0}
    found = {"examples": 1, "on_triggers": [{"name": "random", "pictures": 8, **shares, "gain": 0.25}], "real": []}
    shown = selector({**found, "cost": {"saved": -0.1}})
    for each in ("C alone", "12.5%", "+25.0 points", "10% more time than asking all"):
        assert each in shown
    assert "1 labelled picture;" in shown


def _answers(finds: api.RunTriggers, ids: tuple[str, ...]) -> dict[str, str]:
    """Picture of the sheet -> what A says, and of every second what B says."""
    rows = {image_id(each): row for row, each in enumerate(finds.triggers.hashes)}
    labels = finds.triggers.labels
    return {each: finds.class_names[labels[rows[each], at % 2]] for at, each in enumerate(ids)}
