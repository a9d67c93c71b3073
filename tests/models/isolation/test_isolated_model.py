"""Models behind the wall: the same answers as without it, and a sentence for whatever they do to be a nuisance."""

from __future__ import annotations

import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from diffgen.config import Preprocessing
from diffgen.errors import RunError, Stopped, UserError
from diffgen.events import StopToken
from diffgen.models import load
from diffgen.models.base import BlackBox
from diffgen.models.isolation import process
from diffgen.models.isolation.channel import ProtocolError, parsed, send
from diffgen.models.isolation.model import IsolatedModel
from diffgen.models.isolation.patience import impatient
from diffgen.models.network import Network
from diffgen.models.wording import cleaned

Images = NDArray[np.uint8]


def child_of(box: BlackBox) -> process.Child:
    assert isinstance(box, IsolatedModel)
    return box._child


def prepared(path: Path, images: Images, **settings: object) -> BlackBox:
    box = load(path, **settings)  # type: ignore[arg-type]
    box.prepare(images)
    return box


@pytest.fixture
def images() -> Images:
    """uint8 (64, 1, 28, 28)"""
    return np.random.default_rng(0).integers(0, 256, (64, 1, 28, 28), dtype=np.uint8)


@pytest.fixture
def net() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = torch.nn.Conv2d(1, 4, 5, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 144, 10)
    return torch.nn.Sequential(*layers).eval()


def save(net: torch.nn.Module, path: Path) -> Path:
    """As the format that the name says, with an open batch."""
    example = torch.zeros(2, 1, 28, 28)
    if path.suffix == ".pt":
        torch.jit.save(torch.jit.trace(net, example), str(path))
    elif path.suffix == ".pt2":
        sides = {0: torch.export.Dim("batch", min=1, max=512)}
        torch.export.save(torch.export.export(net, (example,), dynamic_shapes=(sides,)), path)
    else:
        torch.onnx.export(net, (example,), str(path), dynamo=False, dynamic_axes={"x": {0: "n"}}, input_names=["x"])
    return path


@pytest.mark.parametrize("name", ["net.pt", "net.pt2", "net.onnx"])
def test_the_answers_are_the_same_bit_for_bit(name: str, net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    path = save(net, tmp_path / name)
    inside, outside = prepared(path, images), prepared(path, images, isolate="off")
    assert inside.isolated and not outside.isolated
    for count in (64, 7, 1, 0):
        np.testing.assert_array_equal(inside.predict(images[:count]), outside.predict(images[:count]))
    told = ("format", "name", "digest", "preprocessing", "num_classes", "class_names", "fixed_batch", "remarks")
    assert {each: getattr(inside, each) for each in told} == {each: getattr(outside, each) for each in told}


def test_other_preprocessing_and_order_of_classes(net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    path = save(net, tmp_path / "net.pt")
    order = tuple(reversed(range(10)))
    said = {"preprocessing": Preprocessing(mean=(0.5,), std=(0.25,), invert=True), "class_order": order}
    inside, outside = prepared(path, images, **said), prepared(path, images, isolate="off", **said)
    np.testing.assert_array_equal(inside.predict(images), outside.predict(images))


class TwoOutputs(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = pixels.flatten(1)
        return flat[:, :3], flat[:, 3:7]


def test_one_of_several_outputs(scripted: Callable[..., Path], images: Images) -> None:
    path = scripted(TwoOutputs())
    with pytest.raises(UserError, match=r"gives a tuple of 2 outputs; say with --output-name which one to read"):
        prepared(path, images)
    assert prepared(path, images, preprocessing=Preprocessing(output="1")).num_classes == 4


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


class Looping(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rounds = 0
        while bool(pixels.sum() * 0 == 0):
            rounds += 1
        return pixels.flatten(1)[:, :3]


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


def gone(pid: int) -> None:
    """Wait until a process has ended."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} goes on")


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


def test_weights_beside_an_onnx_file_are_read(net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    import onnx

    whole = save(net, tmp_path / "whole.onnx")
    split = tmp_path / "split.onnx"
    onnx.save(onnx.load(whole), split, save_as_external_data=True, location="split.data", size_threshold=0)
    np.testing.assert_array_equal(prepared(split, images).predict(images), prepared(whole, images).predict(images))


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


def test_nothing_of_diffgens_own_is_handed_to_the_process(
    net: torch.nn.Module, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "a secret")
    monkeypatch.setattr(process, "_server", None)
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


def test_a_process_ends_with_its_model(net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    box = prepared(save(net, tmp_path / "net.pt"), images)
    pid = child_of(box).pid
    del box
    gone(pid)


def test_a_model_becomes_garbage_while_another_process_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The collector runs where the lock of the server is held; it must not wait for that lock."""
    monkeypatch.setattr(process, "_server", None)

    class Holder:
        def __init__(self) -> None:
            self.child, self.itself = process.Child("old", "ONNX", 60), self

    collected: list[bool] = []

    def send_and_collect(*message: Any) -> None:
        if not collected:
            gc.collect()
            collected.append(not process.start()._lock.acquire(blocking=False))
        send(*message)

    gc.disable()
    try:
        holder = Holder()
        pid = holder.child.pid
        del holder
        monkeypatch.setattr(process, "send", send_and_collect)
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
    monkeypatch.setattr("diffgen.models.isolation.patience.GRACE", 0.5)
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


def test_answers_of_an_enemy_are_refused(net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    """The other end of the socket says what it likes; here it is this test."""
    lies: list[object] = [
        {"shape": [64, 10], "dtype": "object"},
        {"shape": [1 << 40, 10], "dtype": "float32"},
        {"shape": [-1, 10], "dtype": "float32"},
        {"shape": [True], "dtype": "float32"},
        {"shape": "12", "dtype": "float32"},
        {"shape": [64, 1e3], "dtype": "float32"},
        {"dtype": "float32"},
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
        send(theirs, lie)  # type: ignore[arg-type]
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


def test_a_generator_of_the_users_own_is_isolated_too(tmp_path: Path) -> None:
    layers = torch.nn.Linear(8, 784), torch.nn.Unflatten(1, (1, 28, 28))
    path = tmp_path / "generator.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Sequential(*layers), torch.zeros(2, 8)), str(path))
    cpu = torch.device("cpu")
    latents = torch.randn(100, 8)
    inside, outside = Network(path, device=cpu), Network(path, device=cpu, isolate="off")
    assert torch.equal(inside(latents), outside(latents))


def test_what_cannot_be_isolated(
    net: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: Callable[..., None]
) -> None:
    weights = tmp_path / "weights.pt"
    torch.save(net.state_dict(), weights)
    path = save(net, tmp_path / "net.pt")

    def refused(case: str, match: str, model: object, **settings: object) -> None:
        with pytest.raises(UserError, match=match) as caught:
            load(model, isolate="on", **settings)  # type: ignore[arg-type]
        told("Isolated models", f"`--isolate on` with {case}", caught.value)

    refused("a state_dict", "built by code of your own and cannot be isolated", weights, arch="package.module:factory")
    refused("a Python object", "is an object of this Python process", net)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    refused("a system that cannot", r"cannot be isolated here \(Darwin has neither seccomp nor Landlock\)", path)
    assert not load(path).isolated


def test_a_model_never_disagrees_with_itself_across_the_wall(
    net: torch.nn.Module, images: Images, tmp_path: Path
) -> None:
    path = save(net, tmp_path / "net.pt")
    boxes = [prepared(path, images, isolate=isolate, batch_size=64) for isolate in ("on", "on", "off")]
    drawn = np.random.default_rng(1).integers(0, 256, (1000, 1, 28, 28), dtype=np.uint8)
    first, *others = (box.predict(drawn) for box in boxes)
    for other in others:
        np.testing.assert_array_equal(first, other)


class AtRandom(torch.nn.Module):
    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return torch.rand(pixels.size(0), 3)


def test_two_models_that_answer_at_random_do_not_draw_the_same_numbers(
    scripted: Callable[..., Path], images: Images
) -> None:
    path = scripted(AtRandom())
    a, b = (prepared(path, images, allow_pickle=True, isolate="on") for _ in range(2))
    assert not np.array_equal(a.predict(images), b.predict(images))
