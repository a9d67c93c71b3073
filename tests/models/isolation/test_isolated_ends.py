"""How the process of an isolated model ends: by itself, by us, with its model, and what is said then."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from diffgen.errors import RunError, Stopped, StoppedBetweenBatches, UserError
from diffgen.events import StopToken
from diffgen.models import load
from diffgen.models.isolation import process, starting
from diffgen.models.isolation.channel import send
from diffgen.models.patience import impatient
from tests.models.isolation.isolated import Images, Looping, Slow, child_of, gone, prepared, save


class LoopingWhenOpened(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = 1

    @torch.jit.export
    def __getstate__(self) -> tuple[int, bool]:
        return (self.a, self.training)

    @torch.jit.export
    def __setstate__(self, state: tuple[int, bool]) -> None:
        self.a = state[0]
        self.training = state[1]
        zero = torch.zeros(1)
        while bool(zero.sum() == 0):
            zero = zero * 1

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels


def test_a_model_that_loops_is_ended(scripted: Callable[..., Path], images: Images, told: Callable[..., None]) -> None:
    box = load(scripted(Looping()), model_timeout=1.5)
    child = child_of(box)
    with pytest.raises(
        RunError, match=r"1.5 s passed before it answered 64 images; allow more time with --model-time"
    ) as e:
        box.prepare(images)
    told("Isolated models", "a model that loops", e.value)
    gone(child.pid)
    with pytest.raises(RunError, match=r"1.5 s passed"):
        box.prepare(images)
    with pytest.raises(UserError, match=r"1.5 s passed before it opened its file") as opening:
        load(scripted(LoopingWhenOpened(), "opened.pt"), model_timeout=1.5, allow_pickle=True, isolate="on")
    told("Isolated models", "a model that loops while it is opened", opening.value)


def test_an_onnx_graph_that_loops_is_ended(images: Images, tmp_path: Path) -> None:
    from onnx import TensorProto, helper, save_model

    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["x"], ["y"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
        ],
    )
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["flat"]),
            helper.make_node("Loop", ["most", "true", "flat"], ["out"], body=body),
        ],
        "looping",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 1, 28, 28])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, ["n", 784])],
        [
            helper.make_tensor("most", TensorProto.INT64, [], [2**62]),
            helper.make_tensor("true", TensorProto.BOOL, [], [True]),
        ],
    )
    save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "l.onnx")
    with pytest.raises(RunError, match=r"Model l.onnx was ended because 1.5 s passed before it answered"):
        prepared(tmp_path / "l.onnx", images, model_timeout=1.5)


@pytest.mark.parametrize(
    ("number", "said"), [(signal.SIGKILL, "SIGKILL, as when memory"), (signal.SIGSEGV, "SIGSEGV, a crash")]
)
def test_a_process_that_dies_is_one_sentence(
    number: signal.Signals, said: str, net: torch.nn.Module, images: Images, tmp_path: Path, told: Callable[..., None]
) -> None:
    box = prepared(save(net, tmp_path / "net.pt"), images)
    os.kill(child_of(box).pid, number)
    with pytest.raises(RunError, match=rf"The process of model net.pt ended by itself \({said}") as caught:
        box.predict(images)
    told("Isolated models", f"its process ends with {number.name}", caught.value)
    assert prepared(tmp_path / "net.pt", images).predict(images).shape == (64, 10)


class Growing(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.ones(1 << 44).sum() + pixels.flatten(1)[:, :3]


def test_memory_is_limited(scripted: Callable[..., Path], images: Images) -> None:
    with pytest.raises(UserError, match="can't allocate memory"):
        prepared(scripted(Growing()), images)


def test_a_process_ends_with_its_model(net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    box = prepared(save(net, tmp_path / "net.pt"), images)
    pid = child_of(box).pid
    del box
    gone(pid)


def test_a_model_becomes_garbage_while_another_process_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector runs where the lock of the server is held; it must not wait for that lock."""
    monkeypatch.setattr(starting, "_server", None)

    class Holder:
        def __init__(self) -> None:
            self.child, self.itself = process.Child("old", "ONNX", 60), self

    begun: list[bool] = []
    collected: list[bool] = []

    def send_and_collect(*message: Any) -> None:
        if not begun:
            begun.append(True)  # what is collected may send too: a child of an earlier test, to a server of its own
            gc.collect()
            collected.append(not starting.start()._lock.acquire(blocking=False))
        send(*message)

    gc.disable()
    try:
        holder = Holder()
        pid = holder.child.pid
        del holder
        monkeypatch.setattr(starting, "send", send_and_collect)
        made: list[process.Child] = []
        # a thread that can be given up, should it wait for ever
        maker = threading.Thread(target=lambda: made.append(process.Child("new", "ONNX", 60)), daemon=True)
        maker.start()
        maker.join(120)
    finally:
        gc.enable()
    assert made and collected == [True]
    made.pop().close()
    gone(pid)
    assert not Path(f"/proc/{pid}").exists(), "it was ended, and never reaped"


def test_a_running_batch_gets_a_short_grace_once_somebody_asked_to_stop(
    scripted: Callable[..., Path], images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("diffgen.models.patience.GRACE", 0.5)
    box = load(scripted(Looping()), model_timeout=60)
    pid = child_of(box).pid
    stop = StopToken()
    with impatient(stop), pytest.raises(Stopped) as caught:
        stop.stop()
        box.prepare(images)
    assert caught.value.__notes__ == [
        "model model.pt was asked to stop, but did not come back, so its process was ended"
    ]
    gone(pid)


def test_after_a_stop_no_batch_is_begun_and_the_one_that_was_has_its_own_grace(
    scripted: Callable[..., Path], images: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hundreds of large pictures are many batches, of which each comes back in time."""
    monkeypatch.setattr("diffgen.models.patience.GRACE", 1.0)
    monkeypatch.setattr(process, "_SLICE", 0.01)
    images = images[:12]
    box = prepared(scripted(Slow()), images, batch_size=4)
    stop = StopToken()
    with impatient(stop):
        stop.stop()
        with pytest.raises(StoppedBetweenBatches):
            box.predict(images)
        assert len(box.predict(images[:4])) == 4
    assert len(box.predict(images)) == len(images)
