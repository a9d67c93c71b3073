"""A model behind an address answers as the same network from a file does, whatever the server asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.config import Preprocessing, RemoteConfig
from diffgen.errors import RunError, ServiceError, UserError
from diffgen.models import BlackBox, load
from diffgen.models.noise import numeric_noise
from diffgen.models.remote.model import RemoteModel
from tests.models.detectors import Headed, export, pictures
from tests.models.painters import Painter
from tests.models.remote.conftest import torch_model
from tests.models.remote.fault_proxy import FAULTS, FaultProxy
from tests.models.remote.oip_server import OipServer, Served, onnx_model

Images = np.ndarray[Any, np.dtype[np.uint8]]
QUICK = RemoteConfig(timeout=5.0)


def opened(server: OipServer | FaultProxy, images: Images, name: str = "m", **settings: Any) -> RemoteModel:
    box = load(server.address(name), **{"remote": QUICK, **settings})
    assert isinstance(box, RemoteModel)
    box.prepare(images)
    return box


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize(
    "way", ["dynamic", "fixed batch", "all open", "nhwc", "flat", "uint8", "double", "largest batch", "named output"]
)
def test_it_answers_as_the_file_does(
    way: str, binary: bool, served: Callable[..., Served], local: BlackBox, images: Images
) -> None:
    plain = served()
    settings: dict[str, Any] = {"batch_size": 24}
    model = {
        "dynamic": plain,
        "fixed batch": served(shape=(8, 1, 28, 28)),
        "all open": served(shape=(-1, -1, -1, -1)),
        "nhwc": Served(lambda p: plain.answer(np.ascontiguousarray(p.transpose(0, 3, 1, 2))), shape=(-1, 28, 28, 1)),
        "flat": Served(lambda p: plain.answer(p.reshape(-1, 1, 28, 28)), shape=(-1, 784)),
        "uint8": Served(lambda p: plain.answer(p.astype(np.float32) / np.float32(255)), datatype="UINT8"),
        "double": served(datatype="FP64"),
        "largest batch": served(largest=10),
        "named output": Served(
            lambda p: {"labels": np.zeros(len(p), np.int64), "p": plain.answer(p)},
            outputs={"labels": "INT64", "p": "FP32"},
        ),
    }[way]
    if way == "named output":
        settings["preprocessing"] = Preprocessing(output="p")
    with OipServer({"m": model}, binary=binary) as server:
        box = opened(server, images, **settings)
        found = box.predict(images)
        assert box.preprocessing.outputs == "logits"
        assert box.fixed_batch == (8 if way == "fixed batch" else None)
        most = {"fixed batch": 8, "largest batch": 10}.get(way, 24)
        assert max(server.requests) == most
        assert way != "fixed batch" or set(server.requests) == {8}
        assert server.images == box.answers.images_sent
    np.testing.assert_allclose(found, local.predict(images), atol=2e-6)


def test_images_of_another_shape_are_refused_with_a_way_out(served: Callable[..., Served], images: Images) -> None:
    plain = served()
    flat = Served(lambda p: plain.answer(p.reshape(-1, 1, 28, 28)), shape=(-1, 784))
    with OipServer({"m": plain, "flat": flat}) as server:
        colour = np.repeat(images, 3, axis=1)
        with pytest.raises(UserError, match=r"takes 1x28x28 images but the data has 3x28x28; add --channels rgb-to"):
            opened(server, colour)
        with pytest.raises(UserError, match=r"takes 1x28x28 images but the data has 3x28x28; add --channels rgb-to"):
            opened(server, colour, "flat")
        assert (
            server.images == 1
        )  # what a flat model takes is found out with black images, in the one layout that it declares
        large = np.zeros((4, 1, 32, 32), np.uint8)
        box = opened(server, large, preprocessing=Preprocessing(size=(28, 28)))
        assert box.predict(large).shape == (4, 10)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"datatype": "BYTES"}, "takes BYTES, which images cannot be sent as; let it take one of FP32"),
        ({"shape": (-1, 28, 28)}, r"takes 1 input of shape \(\?, 28, 28\), not images"),
        ({"inputs": []}, "does not say what it takes"),
        (
            {"inputs": [{"name": n, "datatype": "FP32", "shape": [-1, 4]} for n in "xy"]},
            r"takes 2 inputs \(x, y\); let its metadata on the server name one input",
        ),
        ({"outputs": {"label": "INT64"}}, "gives INT64 values in its output label; let it give floating point"),
        (
            {"outputs": {"a": "FP32", "b": "FP32"}},
            r"gives 2 outputs; say with --output-name which one to read \(a, b\)",
        ),
    ],
)
def test_a_model_that_does_not_fit_is_refused_before_it_is_asked(
    settings: dict[str, Any], sentence: str, served: Callable[..., Served]
) -> None:
    with OipServer({"m": served(**settings)}) as server:
        with pytest.raises(UserError, match=f"Model m {sentence}"):
            load(server.address("m"), remote=QUICK)
        assert server.images == 0


def test_unknown_models_and_versions_are_said(served: Callable[..., Served]) -> None:
    with OipServer({"m": served(versions=("2", "3"))}) as server:
        for name in ("n", "m/versions/1"):
            with pytest.raises(
                UserError, match=rf"does not know the model {name[0]}.* at /v2/models/{name} \(HTTP 404"
            ):
                load(server.address(name), remote=QUICK)
        assert load(server.address("m/versions/2"), remote=QUICK).name == "m.2"


def test_what_answers_but_speaks_another_language_is_said(pauses: list[float]) -> None:
    def page(handler: Any) -> bool:
        handler.give_bytes(200, b"<html>Welcome</html>", {"Content-Type": "text/html"})
        return True

    with (
        OipServer({}, intercept=page) as server,
        pytest.raises(UserError, match=r"no usable answer in 9 tries.*its answer is no JSON"),
    ):
        load(server.address("m"))


def test_an_identity_is_the_address_and_what_the_server_says(served: Callable[..., Served]) -> None:
    with OipServer({"m": served(versions=("1",))}) as server:

        def digest(name: str = "m", **settings: Any) -> str | None:
            server.models["m"] = served(**settings)
            return load(server.address(name), remote=QUICK).digest

        first = digest(versions=("1",))
        assert first == digest(versions=("1",))
        assert first != digest(versions=("1", "2"))
        assert first != digest(datatype="FP64")
        assert digest("m/versions/1", versions=("1",)) == digest("m/versions/1", versions=("1", "2"))


def test_nan_and_failures_of_the_model_are_said(
    served: Callable[..., Served], images: Images, pauses: list[float]
) -> None:
    plain = served()

    def moody(pixels: np.ndarray) -> np.ndarray:
        answer = np.array(plain.answer(pixels))
        if pixels[0].max() == 0:
            raise RuntimeError("black images are not for me")
        answer[pixels.reshape(len(pixels), -1).min(axis=1) == 1.0] = np.nan
        return answer

    for binary in (False, True):
        with OipServer({"m": Served(moody)}, binary=binary) as server:
            box = opened(server, images)
            white, black = np.full((2, 1, 28, 28), 255, np.uint8), np.zeros((2, 1, 28, 28), np.uint8)
            with pytest.raises(RunError, match="gave NaN or infinite values for 2 of 2 images"):
                box.predict(white)
            with pytest.raises(ServiceError, match=r"refuses to answer 2 images.*HTTP 500: RuntimeError: black images"):
                box.predict(black)


def test_a_single_image_is_asked_alone_even_if_its_answer_is_known(
    served: Callable[..., Served], images: Images
) -> None:
    plain = served()
    shy = Served(lambda p: plain.answer(p) if len(p) > 1 else plain.answer(p)[0])
    with OipServer({"m": shy}) as server:
        box = load(server.address("m"), remote=QUICK)
        box.answers.attach(None)
        with pytest.raises(UserError, match="but not a single one"):
            box.prepare(images)


def test_no_image_is_asked_about_twice(
    served: Callable[..., Served], images: Images, local: BlackBox, tmp_path: Path
) -> None:
    file = tmp_path / "answers.sqlite"
    with OipServer({"m": served()}) as server:
        box = load(server.address("m"), remote=QUICK)
        box.answers.attach(None)
        box.prepare(images[:32])
        box.answers.attach(file)
        first = box.predict(np.concatenate([images, images[::-1]]))
        assert len(server.seen) == 64 and server.images == 65  # one was asked about alone
        box.answers.detach()
        again = load(server.address("m"), remote=QUICK)
        again.answers.attach(file)
        again.prepare(images[:32])
        np.testing.assert_array_equal(again.predict(images), first[:64])
        assert again.answers.images_sent == server.images == 65
        np.testing.assert_array_equal(first[64:], first[63::-1])
        with again.answers.bypass("to be sure"):
            again.predict(images[:5])
        assert server.images == 70
        with again.answers.bypass("to be sure"):
            again.predict(images[:6])
        assert server.images == 71
        numeric_noise(again, images)
        assert server.images == 71 + 3 * 64
    np.testing.assert_allclose(first[:64], local.predict(images), atol=2e-6)


def test_nan_is_not_remembered(served: Callable[..., Served], images: Images) -> None:
    plain, bad = served(), [False]
    with OipServer({"m": Served(lambda p: plain.answer(p) * (np.float32("nan") if bad[0] else 1))}) as server:
        box = load(server.address("m"), remote=QUICK)
        box.answers.attach(None)
        box.prepare(images[:32])
        bad[0] = True
        with pytest.raises(RunError, match="NaN"):
            box.predict(images)
        bad[0] = False
        assert np.isfinite(box.predict(images)).all()


@pytest.mark.parametrize("remembers", [False, True])
def test_the_query_budget_is_never_exceeded(
    remembers: bool, served: Callable[..., Served], images: Images, tmp_path: Path
) -> None:
    with OipServer({"m": served()}) as server:
        box = load(server.address("m"), batch_size=16, remote=RemoteConfig(query_budget=80))
        if remembers:
            box.answers.attach(tmp_path / "answers.sqlite")
        box.prepare(images[:16])
        assert box.answers.images_left == 63
        with pytest.raises(
            ServiceError, match=re.escape("query budget of 80 images of model m is spent (65 were sent")
        ):
            box.predict(np.concatenate([255 - images]))
        assert server.images == box.answers.images_sent == 65
        if remembers:
            box.answers.detach()
            later = load(server.address("m"), batch_size=16, remote=RemoteConfig(query_budget=80))
            later.answers.attach(tmp_path / "answers.sqlite")
            assert later.answers.images_left == 15


def test_failed_tries_count(served: Callable[..., Served], images: Images, pauses: list[float]) -> None:
    with (
        OipServer({"m": served()}) as server,
        FaultProxy(f"http://127.0.0.1:{server.port}", rate=0.0, seed=0, kinds=("answer lost",)) as proxy,
    ):
        box = opened(proxy, images, remote=RemoteConfig(query_budget=1000, retries=3))
        before = box.answers.images_sent
        proxy.rate = 1.0
        with pytest.raises(ServiceError, match=r"4 tries.*the connection was lost"):
            box.predict(images)
        assert box.answers.images_sent == before + 4 * 64 == server.images


def test_tries_without_a_connection_do_not_count(
    served: Callable[..., Served], images: Images, pauses: list[float]
) -> None:
    with OipServer({"m": served()}) as server:
        box = opened(server, images, remote=RemoteConfig(query_budget=1000, retries=3))
        server.intercept = lambda handler: setattr(handler, "close_connection", True) or True
    before = box.answers.images_sent
    with pytest.raises(ServiceError, match=r"4 tries.*nothing listens there"):
        box.predict(images)
    assert box.answers.images_sent == before + 64  # over the connection that was still there


@pytest.mark.parametrize("kind", FAULTS)
def test_every_fault_passes_without_a_trace(
    kind: str, served: Callable[..., Served], images: Images, local: BlackBox, pauses: list[float]
) -> None:
    with (
        OipServer({"m": served()}, binary=kind in ("truncated", "garbage")) as server,
        FaultProxy(f"http://127.0.0.1:{server.port}", rate=0.4, seed=3, kinds=(kind,), delay=0.01) as proxy,
    ):
        proxy.rate = 0.1
        box = opened(proxy, images, batch_size=4)
        proxy.rate = 0.4
        found = box.predict(images)
        assert proxy.injected[kind] > 5
        assert kind == "delay" or box.server.retried == proxy.injected[kind]
    np.testing.assert_allclose(found, local.predict(images), atol=2e-6)


@pytest.mark.parametrize(("module", "head"), [(Headed("yolov8"), "yolov8"), (Painter(stride=4), "classes-first")])
def test_boxes_and_maps_behind_an_address_are_as_in_memory(tmp_path: Path, module: Any, head: str) -> None:
    images, _ = pictures(6)
    network = load(module)
    network.prepare(images)
    expected = network.predict(images)
    served = torch_model(module, shape=(-1, 3, 64, 64), outputs={"output0": "FP32"})
    with OipServer({"m": served}) as server:
        box = opened(server, images)
        assert box.preprocessing.head == head
        np.testing.assert_allclose(box.predict(images), expected, atol=1e-4)
        box.answers.attach(tmp_path / "answers.sqlite")
        first, sent = box.predict(images), box.answers.images_sent
        np.testing.assert_array_equal(box.predict(images[::-1])[::-1], first)
        assert box.answers.images_sent == sent
        again = opened(server, images)
        again.answers.attach(tmp_path / "answers.sqlite")
        np.testing.assert_array_equal(again.predict(images), first)
        assert again.answers.images_sent < 2 * sent


@pytest.mark.parametrize("declared", [True, False])
@pytest.mark.parametrize("kind", ["boxes-and-scores", "dets", "ssd", "three outputs"])
def test_several_outputs_of_a_detector_are_read_as_those_of_its_file(kind: str, declared: bool, tmp_path: Path) -> None:
    """Whether the server says beforehand what they are, or its answers alone show it."""
    images, _ = pictures(6)
    file = load(export(kind, tmp_path / "net.onnx"))
    file.prepare(images)
    expected = file.predict(images)
    one = kind == "three outputs"  # with as many boxes as there are, and no axis for images
    served = onnx_model(tmp_path / "net.onnx", shape=(1 if one else -1, 3, 64, 64))
    if not declared:
        served.outputs = {}
    with OipServer({"m": served}, binary=declared) as server:
        box = opened(server, images, batch_size=4)
        assert box.detects and box.preprocessing.head == file.preprocessing.head
        np.testing.assert_array_equal(box.predict(images), expected)
        box.answers.attach(tmp_path / "answers.sqlite")
        box.predict(images)
        sent = box.answers.images_sent
        np.testing.assert_array_equal(box.predict(images[::-1])[::-1], expected)
        assert box.answers.images_sent == sent == server.images
        again = opened(server, images)
        again.answers.attach(tmp_path / "answers.sqlite")
        before = again.answers.images_sent
        np.testing.assert_array_equal(again.predict(images), expected)
        assert again.answers.images_sent == before


def test_of_several_maps_the_usual_one_is_read(tmp_path: Path) -> None:
    images, _ = pictures(6)
    network = load(Painter("dict"))
    network.prepare(images)

    def answer(pixels: Images) -> dict[str, Any]:
        with torch.inference_mode():
            return {name: each.numpy() for name, each in Painter("dict")(torch.from_numpy(pixels)).items()}

    declared = {"out": [-1, 3, 64, 64], "aux": [-1, 3, 32, 32]}
    served = Served(answer, shape=(-1, 3, 64, 64), outputs=dict.fromkeys(declared, "FP32"), shapes=declared)
    with OipServer({"m": served}) as server:
        box = opened(server, images)
        assert box.preprocessing.outputs == "maps"
        np.testing.assert_array_equal(box.predict(images), network.predict(images))


def test_a_map_of_whole_numbers_is_read() -> None:
    images, _ = pictures(6)
    network = load(Painter("map"))
    network.prepare(images)
    served = torch_model(
        Painter("map"), shape=(-1, 3, 64, 64), outputs={"classes": "INT64"}, shapes={"classes": [-1, 64, 64]}
    )
    with OipServer({"m": served}) as server:
        np.testing.assert_array_equal(opened(server, images).predict(images), network.predict(images))


def test_an_output_that_is_left_out_later_on_is_a_fault_of_the_server(tmp_path: Path, pauses: list[float]) -> None:
    images, _ = pictures(4)
    whole = onnx_model(export("dets", tmp_path / "net.onnx"), shape=(-1, 3, 64, 64))
    with OipServer({"m": whole}) as server:
        box = opened(server, images)
        whole_answer, whole.answer = whole.answer, lambda pixels: {"dets": whole_answer(pixels)["dets"]}
        with pytest.raises(ServiceError, match="its answer has no output labels"):
            box.predict(images)
