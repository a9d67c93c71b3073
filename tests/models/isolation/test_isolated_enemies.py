"""Models that reach for what is not theirs, and answers that are lies."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from diffgen.errors import RunError, UserError
from diffgen.models.isolation import starting
from diffgen.models.isolation.channel import ProtocolError, parsed, send
from diffgen.models.wording import cleaned
from tests.models.isolation.isolated import Images, child_of, prepared, save


class Writing(torch.nn.Module):
    def __init__(self, place: str) -> None:
        super().__init__()
        self.place: str = place

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        mapped = torch.from_file(self.place, shared=True, size=64, dtype=torch.uint8)
        mapped.fill_(65)
        return pixels.flatten(1)[:, :3] + mapped.sum()


class Reading(torch.nn.Module):
    def __init__(self, place: str) -> None:
        super().__init__()
        self.place: str = place

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        found = torch.from_file(self.place, shared=False, size=8, dtype=torch.uint8).to(torch.float32)
        return found.reshape(1, -1).repeat(pixels.size(0), 1)


def test_without_the_first_wall_the_second_one_holds(
    scripted: Callable[..., Path], images: Images, tmp_path: Path
) -> None:
    secret = tmp_path / ".ssh" / "id"
    secret.parent.mkdir()
    secret.write_bytes(b"a secret" * 8)
    writing, reading = scripted(Writing(str(secret)), "writing.pt"), scripted(Reading(str(secret)), "reading.pt")
    for path in (writing, reading):
        with pytest.raises(UserError, match=r"unable to open file.*(Permission denied|Operation not permitted)"):
            prepared(path, images, allow_pickle=True, isolate="on")
    assert secret.read_bytes() == b"a secret" * 8
    # the attacks are real ones: without the wall they get through
    assert prepared(reading, images, allow_pickle=True, isolate="off").num_classes == 8
    prepared(writing, images, allow_pickle=True, isolate="off")
    assert secret.read_bytes() == b"A" * 64


def test_nothing_of_diffgens_own_is_handed_to_the_process(
    net: torch.nn.Module, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "a secret")
    monkeypatch.setattr(starting, "_server", None)
    with (tmp_path / "open").open("w") as file, socket.create_server(("127.0.0.1", 0)) as server:
        os.set_inheritable(file.fileno(), True)
        os.set_inheritable(server.fileno(), True)
        box = prepared(save(net, tmp_path / "net.pt"), images)
        pid = child_of(box).pid
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        environment = Path(f"/proc/{pid}/environ").read_text()
        descriptors = sorted(os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir())
    assert "API_TOKEN" not in environment and "a secret" not in environment
    assert descriptors[:3] == ["/dev/null"] * 3
    # and the memory that it shares with this process
    assert {each.split(" ")[0].split(":[")[0] for each in descriptors[3:]} == {"socket", "/memfd:diffgen"}
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    assert (status["NoNewPrivs"], status["Seccomp"], status["CapEff"].strip("0")) == ("1", "2", "")


def test_answers_of_an_enemy_are_refused(net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    """The other end of the socket says what it likes; here it is this test."""
    whole = {"name": "", "shape": [64, 10], "dtype": "float32"}
    parts: list[Any] = [
        {"shape": [64, 10], "dtype": "object"},
        {"shape": [1 << 40, 10], "dtype": "float32"},
        {"shape": [-1, 10], "dtype": "float32"},
        {"shape": [True], "dtype": "float32"},
        {"shape": "12", "dtype": "float32"},
        {"shape": [64, 1e3], "dtype": "float32"},
        {"dtype": "float32"},
        "part",
    ]
    lies: list[dict[str, Any]] = [
        *({"parts": [part]} for part in parts),
        {"parts": [whole, {**whole, "name": "more"}]},
        {"parts": [{}] * 5_000},
        {"parts": []},
        {"parts": whole},
        {"needs": 1 << 60},
        {"needs": "much"},
        {},
    ]
    path = save(net, tmp_path / "net.pt")
    for lie in lies:
        box = prepared(path, images)
        child = child_of(box)
        ours, theirs = socket.socketpair()
        child._connection, real = ours, child._connection
        child._poll.unregister(real)
        child._poll.register(ours)
        send(theirs, lie)
        with theirs, ours, pytest.raises(RunError, match=r"The process of model net.pt gave an answer that"):
            box.predict(images)
        real.close()
    for content in (b"[]", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'{"a": 1' + b"1" * 10_000 + b"}"):
        with pytest.raises(ProtocolError):
            parsed(content)


def test_text_of_an_enemy_is_cleaned() -> None:
    assert cleaned("a\x1b]8;;http://x\x07b\nc\u202ed") == "a ]8;;http://x b c d"
    assert cleaned(7) == ""
    assert len(cleaned("x" * 10_000_000)) == 2003
