"""Models behind the wall give the same answers as without it; what cannot be isolated is said."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.isolation import starting
from diffgen.models.isolation.server import _IMPORTS
from diffgen.models.isolation.starting import start
from diffgen.models.loading import KINDS
from diffgen.models.network import Network
from diffgen.models.sniffing import FileKind
from tests.models.isolation.isolated import Images, child_of, prepared, save


@pytest.mark.parametrize("name", ["net.pt", "net.pt2", "net.onnx", "net.tflite", "int8.tflite"])
def test_the_answers_are_the_same_bit_for_bit(name: str, net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    if name.endswith("tflite"):
        pytest.importorskip("ai_edge_litert", reason="needs LiteRT; 'pip install diffgen[tflite]' brings it")
    path = save(net, tmp_path / name, images)
    inside, outside = prepared(path, images), prepared(path, images, isolate="off")
    assert inside.isolated and not outside.isolated
    for count in (64, 7, 1, 0):
        np.testing.assert_array_equal(inside.predict(images[:count]), outside.predict(images[:count]))
    told = ("format", "name", "digest", "preprocessing", "num_classes", "class_names", "fixed_batch", "remarks")
    assert {each: getattr(inside, each) for each in told} == {each: getattr(outside, each) for each in told}


def test_what_a_format_needs_is_imported_once_and_leaves_the_server_one_thread(
    net: torch.nn.Module, images: Images, tmp_path: Path
) -> None:
    """A fork takes one thread with it; a lock that another one held would stay taken in the child."""
    prepared(save(net, tmp_path / "net.pt2"), images)
    assert len(os.listdir(f"/proc/{start()._process.pid}/task")) == 1
    # one that is named wrongly would be imported by nobody, and slow in every child
    assert _IMPORTS.keys() == {*(kind.name for kind in KINDS), "NETWORK"}
    for name in _IMPORTS[FileKind.TORCH_EXPORT.name]:
        importlib.import_module(name)


def test_torch_is_imported_for_the_files_alone_that_need_it(
    net: torch.nn.Module, images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starting, "_server", None)

    def with_torch(pid: int) -> bool:
        return "libtorch" in Path(f"/proc/{pid}/maps").read_text()

    server = start()._process.pid
    names = ["net.onnx", *(["int8.tflite"] if importlib.util.find_spec("ai_edge_litert") else [])]
    for name in names:
        box = prepared(save(net, tmp_path / name, images), images)
        assert len(box.predict(images)) == len(images)
        assert not with_torch(child_of(box).pid) and not with_torch(server)
    box = prepared(save(net, tmp_path / "net.pt"), images)
    assert with_torch(child_of(box).pid) and with_torch(server)


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


def test_weights_beside_an_onnx_file_are_read(net: torch.nn.Module, images: Images, tmp_path: Path) -> None:
    import onnx

    whole = save(net, tmp_path / "whole.onnx")
    split = tmp_path / "split.onnx"
    onnx.save(onnx.load(whole), split, save_as_external_data=True, location="split.data", size_threshold=0)
    np.testing.assert_array_equal(prepared(split, images).predict(images), prepared(whole, images).predict(images))


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

    def refused(case: str, match: str, model: Any, **settings: Any) -> None:
        with pytest.raises(UserError, match=match) as caught:
            load(model, isolate="on", **settings)
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
