"""--state-file: what a program that watches reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diffgen.cli.progress import StateFile
from diffgen.errors import UserError
from diffgen.events import BehaviourFound, Event, Message, StageAdvanced, StageEnded, StageStarted


def test_the_file_follows_the_work(tmp_path: Path) -> None:
    heard: list[Event] = []
    state = StateFile(tmp_path / "state.json", heard.append)

    def now() -> dict[str, object]:
        found: dict[str, object] = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
        return found

    assert (now()["stage"], now()["ended"]) == ("", False)
    events = [
        StageStarted("outer", 10.0),
        StageStarted("inner", None),
        StageAdvanced("outer", 4.0, {"queries": 7}),
        BehaviourFound(3, 7),
        StageEnded("inner"),
    ]
    for event in events:
        state(event)
    assert heard == events
    assert (now()["stage"], now()["done"], now()["total"]) == ("outer", 4.0, 10.0)
    assert now()["figures"] == {"queries": 7, "behaviours": 3}
    for number in range(100):
        state(Message("info", str(number)))
    messages = now()["messages"]
    assert isinstance(messages, list)
    assert (len(messages), messages[-1]) == (60, {"level": "info", "text": "99"})
    with pytest.raises(ValueError, match="broken"), state.ending():
        raise ValueError("broken")
    assert (now()["ended"], now()["problem"], now()["exit_code"]) == (True, "broken", 3)
    with state.ending():
        state.came_to(1)
    assert (now()["ended"], now()["problem"], now()["exit_code"]) == (True, "", 1)
    for error, code in ((UserError("wrong"), 2), (KeyboardInterrupt(), 130)):
        with pytest.raises(type(error)), state.ending():
            raise error
        assert now()["exit_code"] == code
