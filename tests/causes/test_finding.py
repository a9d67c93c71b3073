"""Faults are planted into a deployment by NumPy and Pillow, and named by answers alone; without a fault nothing is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from diffgen.causes import CAUSES, Explanation, explain_models
from diffgen.causes.asking import Asked, Purse
from diffgen.causes.base import all_changes
from diffgen.causes.finding import QUERIES
from diffgen.causes.geometry import Geometry
from diffgen.causes.measures import Unseen, correlation_lost
from diffgen.causes.wording import options_of, verdict
from diffgen.config import Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import Stopped
from diffgen.events import Progress, StopToken
from diffgen.models import BlackBox, load
from diffgen.sampling import random_rows
from diffgen.types import Float32Array, UInt8Array

ASSETS = Path(__file__).parents[1] / "assets"
ORDER = np.array([3, 0, 2, 1, 4, 5, 6, 9, 8, 7])


@pytest.fixture(scope="module")
def images() -> UInt8Array:
    data = load_data("digits:test")
    return data.images[random_rows(len(data), 512)]


@pytest.fixture(scope="module")
def model(images: UInt8Array) -> BlackBox:
    box = load(ASSETS / "a.onnx", isolate="off")
    box.prepare(images[:64])
    return box


Fault = Callable[[Float32Array], Float32Array]


def deployed(model: BlackBox, images: UInt8Array, fault: Fault, answer: Fault = lambda said: said) -> BlackBox:
    """A function around a model that is handed grey levels 0..255 and makes what the model takes of them."""

    def function(pixels: Float32Array) -> Float32Array:
        inputs = torch.from_numpy(np.ascontiguousarray(fault(np.array(pixels)), dtype=np.float32))
        with model.feeding(lambda some: inputs):
            return answer(model.predict(pixels.astype(np.uint8)))

    box = load(function, name="deployed", preprocessing=Preprocessing(scale="0..255", outputs="probabilities"))
    box.lenient = True
    box.prepare(images[:64])
    return box


def explained(a: BlackBox, b: BlackBox, images: UInt8Array, **more: Any) -> Explanation:
    return explain_models(a, b, images, Progress(), **more)


def off_by_one(pixels: Float32Array) -> Float32Array:
    return np.pad(pixels, ((0, 0), (0, 0), (0, 1), (0, 1)), mode="edge")[:, :, 1:, 1:] / 255


def softmax(said: Float32Array) -> Float32Array:
    powers = np.exp(said)
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def as_jpeg(pixels: Float32Array) -> Float32Array:
    import io

    made = []
    for image in pixels.astype(np.uint8):
        buffer = io.BytesIO()
        Image.fromarray(image[0]).save(buffer, "JPEG", quality=20)
        made.append(np.asarray(Image.open(buffer))[None])
    return np.stack(made).astype(np.float32) / 255


PLANTED: dict[str, tuple[Fault, Fault]] = {
    "inverted": (lambda x: 1 - x / 255, lambda said: said),
    "scale": (lambda x: x, lambda said: said),
    "mean and std": (lambda x: (x / 255 - 0.1307) / 0.3081, lambda said: said),
    "layout": (lambda x: x.transpose(0, 1, 3, 2) / 255, lambda said: said),
    "crop offset": (off_by_one, lambda said: said),
    "orientation": (lambda x: x[:, :, ::-1] / 255, lambda said: said),
    "order of classes": (lambda x: x / 255, lambda said: said[:, ORDER]),
    "softmax twice": (lambda x: x / 255, softmax),
}


@pytest.mark.parametrize("cause", PLANTED)
def test_a_planted_fault_is_named(cause: str, model: BlackBox, images: UInt8Array) -> None:
    found = explained(model, deployed(model, images, *PLANTED[cause]), images)
    assert [each.cause for each in found.found] == [cause]
    named = found.found[0]
    assert named.role == "B" and named.share > 0.99 and named.low > 0.9
    assert named.labels[1] == 0
    assert 0 < found.queries <= 1000
    assert found.shown is not None and len(found.shown.plain) == len(found.shown.said)


def test_two_faults_at_once(model: BlackBox, images: UInt8Array) -> None:
    b = deployed(model, images, lambda x: off_by_one(255 - x), lambda said: said[:, ORDER])
    causes = {each.cause for each in explained(model, b, images).found}
    assert {"inverted", "order of classes"} <= causes or {"order of classes", "crop offset"} <= causes
    b = deployed(model, images, lambda x: x[:, :, ::-1] / 255, softmax)
    assert {each.cause for each in explained(model, b, images).found} == {"orientation", "softmax twice"}


def test_other_weights_are_no_fault(model: BlackBox, images: UInt8Array) -> None:
    other = load(ASSETS / "b.onnx", isolate="off")
    other.prepare(images[:64])
    found = explained(model, other, images)
    assert found.differing > 0 and not found.found and found.shown is None and found.mend is None
    assert found.queries <= QUERIES
    assert verdict(found).startswith(f"The weights differ: no pipeline fault of the {found.tried} that were tried")
    assert verdict(replace(found, most=0.0)).endswith("brings the answers nearer.")  # nothing was tested


def test_where_all_agree_there_is_nothing_to_explain(model: BlackBox, images: UInt8Array) -> None:
    found = explained(model, deployed(model, images, lambda x: x / 255), images)
    assert not found.found and found.tried == 0 and found.queries == 2 * found.images
    assert verdict(found).endswith("there is nothing to explain.")


def test_few_images_say_how_sure(model: BlackBox, images: UInt8Array) -> None:
    found = explained(model, deployed(model, images, off_by_one), images[:60])
    assert [each.cause for each in found.found] == ["crop offset"]
    assert found.found[0].tested == 30
    assert "on 30 pictures" in verdict(found)
    # of five pictures two are left to test on, and two prove nothing
    assert explained(model, deployed(model, images, as_jpeg), images[:5]).found == ()
    found = explained(model, deployed(model, images, as_jpeg), images[:3])
    assert found.most == 1 and "3 pictures are too few" in verdict(found)


def test_one_picture_that_differs_is_no_unsteady_model(model: BlackBox, images: UInt8Array) -> None:
    """The half on which causes are tested has no difference then, and no movement either."""

    def one(pixels: Float32Array) -> Float32Array:
        same = (pixels == images[0]).all(axis=(1, 2, 3), keepdims=True)
        return np.asarray(np.where(same, 255 - pixels, pixels) / 255)

    found = explained(deployed(model, images, lambda x: x / 255), deployed(model, images, one), images)
    assert found.distance > 0 and found.found == ()


def test_it_can_be_stopped(model: BlackBox, images: UInt8Array) -> None:
    stop = StopToken()
    progress = Progress(lambda event: stop.stop(), stop)  # while the first faults are tried
    with pytest.raises(Stopped):
        explain_models(model, deployed(model, images, PLANTED["inverted"][0]), images, progress)


def test_two_classes_have_one_other_order() -> None:
    def bright(pixels: Float32Array) -> Float32Array:
        values = 20 * (pixels.mean(axis=(1, 2, 3)) - 0.5)
        return np.stack([values, -values], axis=1)

    images = (np.random.default_rng(0).random((80, 1, 1, 1)) * np.ones((1, 1, 8, 8)) * 255).astype(np.uint8)
    a, b = load(bright), load(lambda pixels: bright(pixels)[:, ::-1].copy())
    for each in (a, b):
        each.prepare(images)
    seen = Asked(a, images, Purse(1000)).seen(a.predict(images), b.predict(images))
    names = [each.name for each in all_changes(seen) if each.cause == "order of classes"]
    assert names[0] == "order of classes: reversed"


def test_queries_are_kept(model: BlackBox, images: UInt8Array) -> None:
    found = explained(model, deployed(model, images, off_by_one), images, queries=450)
    assert found.cut_short and not found.found and found.queries <= 450
    assert "not all were tried" in verdict(found)
    # fewer than both would take for the first pictures
    assert 0 < explained(model, deployed(model, images, off_by_one), images, queries=200).queries <= 200


def test_a_model_that_moves_by_itself(model: BlackBox, images: UInt8Array) -> None:
    noise = np.random.default_rng(0)
    b = deployed(model, images, lambda x: x / 255 + noise.normal(0, 0.4, x.shape))
    assert [each.cause for each in explained(model, b, images).found] == ["non-determinism"]
    b = deployed(model, images, lambda x: (0.6 * x + 0.4 * np.roll(x, 1, axis=0)) / 255)
    assert [each.cause for each in explained(model, b, images).found] == ["batch dependence"]


def test_numbers_that_overflow(model: BlackBox, images: UInt8Array) -> None:
    def overflown(said: Float32Array) -> Float32Array:
        said[said.argmax(axis=1) == 3] = np.nan
        return said

    b = deployed(model, images, lambda x: x / 255, overflown)
    found = explained(model, b, images).found
    assert [each.cause for each in found] == ["overflow"] and found[0].share > 0.99


def test_a_wrong_option_is_named_with_the_right_one(model: BlackBox, images: UInt8Array) -> None:
    b = load(ASSETS / "a.onnx", isolate="off", preprocessing=Preprocessing(scale="0..255", mean=(40.0,), std=(90.0,)))
    b.prepare(images[:64])
    found = explained(model, b, images)
    assert found.mend is not None
    b.set_preprocessing(found.mend.over(b.preprocessing))
    b.prepare(images[:64])
    assert np.abs(model.predict(images) - b.predict(images)).max() < 0.05


def test_options_in_words() -> None:
    mend = Preprocessing(channels="bgr", mean=(), std=(0.5, 1.0, 2.0), size=(32, 48), antialias=False, invert=True)
    assert options_of("B", mend) == (
        "--b-channels bgr --b-invert --b-size 32x48 --no-b-antialias --b-mean 0 --b-std 0.5 1 2"
    )


@pytest.mark.parametrize(
    "fed",
    [
        Preprocessing(),
        Preprocessing(size=(20, 24), interpolation="bicubic", mean=(0.3,), std=(0.2,)),
        Preprocessing(size=(20, 20), crop=0.875, antialias=False, scale="0..255"),
        Preprocessing(size=(40, 20), interpolation="nearest", invert=True, layout="nhwc"),
        Preprocessing(layout="flat"),
    ],
)
def test_without_a_change_a_model_is_fed_as_always(fed: Preprocessing, images: UInt8Array) -> None:
    handed: list[Float32Array] = []

    def model(pixels: Float32Array) -> Float32Array:
        handed.append(pixels.copy())
        return np.asarray(pixels.reshape(len(pixels), -1)[:, :10])

    box = load(model, preprocessing=fed)
    box.prepare(images[:8])
    handed.clear()
    box.predict(images[:8])
    made = Asked(box, images, Purse(100)).inputs((), np.arange(8))
    assert np.abs(handed[0] - made.numpy()).max() < 1e-4


def test_changes_have_names_of_their_own_and_keep_shapes(model: BlackBox) -> None:
    images = np.random.default_rng(0).integers(0, 256, (4, 3, 30, 40), dtype=np.uint8)
    fed = Preprocessing(size=(24, 24), crop=0.9, outputs="logits")
    box = load(lambda pixels: pixels.reshape(len(pixels), -1)[:, :10], preprocessing=fed)
    box.prepare(images)
    asked = Asked(box, images, Purse(1000))
    said = asked.as_is(np.arange(4))
    changes = all_changes(asked.seen(said, said[:, ::-1].copy()))
    names = [each.name for each in changes]
    assert len(names) == len(set(names)) > 50
    plain = asked.inputs((), np.arange(4))
    for each in changes:
        assert each.says and each.advice
        answers = asked.changed((each,), np.arange(4))
        assert answers.shape == said.shape and np.isfinite(answers).all(), each.name
        assert asked.inputs((each,), np.arange(4)).shape == plain.shape
        for near in each.nearby():
            assert near.cause == each.cause and near.name != each.name
    assert set(CAUSES.names()) >= {"channels", "levels", "layout", "resizing", "cropping", "letterbox", "classes"}


@pytest.mark.parametrize("kernel", ["bilinear", "bicubic", "nearest"])
def test_resizing_is_that_of_pillow(kernel: Any) -> None:
    plane = np.random.default_rng(1).uniform(40, 200, (33, 47)).astype(np.float32)
    wanted = np.asarray(Image.fromarray(plane).resize((20, 16), Image.Resampling[kernel.upper()]))
    made = Geometry((16, 20), kernel)(torch.from_numpy(plane)[None, None])[0, 0].numpy()
    assert np.abs(made - wanted).max() < 0.01


def test_a_letterbox_keeps_proportions() -> None:
    made = Geometry((20, 20), fill=114)(torch.full((1, 1, 10, 40), 7.0))[0, 0]
    assert (made == 114).sum() == 20 * 15 and (made[8:12] == 7).all()


def test_intervals_hold() -> None:
    """Of many samples of a known population the interval misses the true share hardly more often than it says."""
    generator = np.random.default_rng(3)
    before = generator.gamma(0.5, 0.2, 20_000).astype(np.float32)
    after = np.where(generator.random(20_000) < 0.6, 0, before).astype(np.float32)
    true, missed = 1 - float(after.sum() / before.sum()), 0
    for _ in range(300):
        rows = generator.choice(20_000, 96, replace=False)
        tested = Unseen.among(rows, before[rows])
        low, _, high = tested.interval(before[tested.rows], after[tested.rows], 1)
        missed += not low <= true <= high
    assert missed <= 0.1 * 300


def test_two_sure_answers_are_no_evidence() -> None:
    sure = np.eye(4, dtype=np.float32)
    assert np.allclose(correlation_lost(sure, sure), correlation_lost(sure, sure).min())
    assert (correlation_lost(sure, sure[::-1]) > correlation_lost(sure, sure)).all()
