"""TensorFlow Lite files: the answers are LiteRT's own, one image at a time, in float32 and in int8."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from diffgen.config import Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import load, read_class_names
from diffgen.models.model_settings import ModelSettings
from diffgen.models.sniffing import FileKind, sniff
from diffgen.models.tflite import TfliteModel
from diffgen.types import ImageSet

litert = pytest.importorskip(
    "ai_edge_litert.interpreter", reason="needs LiteRT; 'pip install diffgen[tflite]' brings it"
)
FILES = {
    "float32": {},
    "float32, open batch": {"open_batch": True},
    "float32, fixed batch": {"reshape_to": 3},
    "int8": {"calibration": True},
    "int8, fixed batch": {"calibration": True, "reshape_to": 3},
}


@pytest.fixture
def network():
    torch.manual_seed(0)
    layers = torch.nn
    network = layers.Sequential(
        *(layers.Conv2d(1, 4, 5, padding=2), layers.ReLU(), layers.MaxPool2d(2)),
        *(layers.Flatten(), layers.Linear(784, 16), layers.ReLU(), layers.Linear(16, 10)),
    )
    with torch.no_grad():
        network[-1].weight.mul_(6)
    return network.eval()


def asked_directly(path, pixels):
    """What LiteRT gives for values (N, H, W, C), quantized and back by hand, in batches of the declared size."""
    interpreter = litert.Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    taken, given = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    count, rows = taken["shape"][0], []
    for start in range(0, len(pixels), count):
        values = pixels[np.arange(start, start + count) % len(pixels)]
        if taken["dtype"] is np.int8:
            scale, zero_point = taken["quantization"]
            values = np.clip(np.floor(values / scale + 0.5) + zero_point, -128, 127).astype(np.int8)
        interpreter.set_tensor(taken["index"], values.astype(taken["dtype"]))
        interpreter.invoke()
        rows.append(interpreter.get_tensor(given["index"]))
    answers = np.concatenate(rows)[: len(pixels)].astype(np.float64)
    scale, zero_point = given["quantization"]
    return (answers - zero_point) * scale if scale else answers


@pytest.mark.parametrize("name", FILES)
def test_the_answers_are_those_of_litert_itself(name, network, images, tmp_path):
    from benchmarks.tflite_files import tflite_file

    settings = dict(FILES[name])
    pixels = torch.from_numpy(images).float() / 255
    if "calibration" in settings:
        settings["calibration"] = pixels
    path = tmp_path / "net"
    path.write_bytes(tflite_file(network, (1, 28, 28), **settings))
    assert sniff(path) is FileKind.TFLITE
    box = load(path)
    box.prepare(images)
    assert (box.preprocessing.layout, box.preprocessing.outputs) == ("nhwc", "logits")
    assert (box.fixed_batch, box.preprocessing.scale) == (3 if "fixed" in name else None, "0..1")
    assert box.format == "a TensorFlow Lite model" + (" (int8)" if "int8" in name else "")
    logits = asked_directly(path, images.transpose(0, 2, 3, 1) / 255)
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    answers = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(box.predict(images), answers, atol=1e-5)
    np.testing.assert_allclose(box.predict(images[:1]), answers[:1], atol=1e-5)
    with torch.no_grad():
        torch_answers = network(pixels).softmax(dim=1).numpy()
    assert np.abs(torch_answers - answers).max() < (0.1 if "int8" in name else 1e-5)
    with pytest.raises(UserError, match="takes 1x28x28 images but the data has 3x28x28"):
        load(path).prepare(np.zeros((2, 3, 28, 28), dtype=np.uint8))
    resized = load(path)
    assert resized.input_size == (28, 28)
    resized.prepare(np.zeros((2, 1, 32, 32), dtype=np.uint8))
    assert resized.preprocessing.size == (28, 28)


def test_integers_that_reach_far_are_grey_levels(network, images, tmp_path):
    """A file whose input has the scale 1 was made for 0..255, unless somebody says otherwise."""
    from benchmarks.tflite_files import tflite_file

    with torch.no_grad():
        network[0].weight.div_(255)
    grey = torch.from_numpy(images).float()
    path = tmp_path / "net.tflite"
    path.write_bytes(tflite_file(network, (1, 28, 28), calibration=grey))
    assert load(path).preprocessing.scale == "0..255"
    assert load(path, preprocessing=Preprocessing(scale="0..1")).preprocessing.scale == "0..1"


@pytest.mark.parametrize("isolate", ["on", "off"])
def test_integers_from_minus_one_to_one_are_the_grey_levels(network, images, tmp_path, isolate):
    """A file that was calibrated on pixels from -1 to 1 gets each grey level as its integer, unless told."""
    from benchmarks.tflite_files import tflite_file

    centred = torch.from_numpy(np.stack([np.zeros_like(images[0]), np.full_like(images[0], 255), *images[:6]])).float()
    path = tmp_path / "net.tflite"
    path.write_bytes(tflite_file(network, (1, 28, 28), calibration=centred / 127.5 - 1))
    taken = litert.Interpreter(model_path=str(path)).get_input_details()[0]
    (scale, zero_point), levels = taken["quantization"], np.arange(256)
    box = load(path, isolate=isolate)
    assert box.preprocessing.scale == "0..1" and box.preprocessing.mean and box.preprocessing.std
    values = (levels / 255 - box.preprocessing.mean[0]) / box.preprocessing.std[0]
    assert np.array_equal(np.floor(values / scale + zero_point + 0.5), levels - 128)
    box.prepare(images)
    assert len(box.predict(images[:5])) == 5
    for said in (Preprocessing(scale="0..1"), Preprocessing(mean=(), std=()), Preprocessing(mean=(0.25,))):
        other = load(path, isolate=isolate, preprocessing=said).preprocessing
        assert (other.mean, other.std) == (said.mean or (), said.std or ())


def test_published_imagenet_nets_get_the_pixels_as_they_are(shared_folder):
    """Two nets of 8 bits and 1,001 outputs on photographs: exactly what LiteRT says of the bytes themselves."""
    folder = shared_folder / "models" / "imagenet-mobilenet-quant"
    names = read_class_names(folder / "imagenet_labels.txt")
    small = torch.from_numpy(load_data(shared_folder / "data" / "sign-digits" / "test.zip", resize=64).images[::100])
    for name, side in (("mobilenet_v1_0.75_192_quant", 192), ("mobilenet_v2_1.0_224_quant", 224)):
        path = folder / f"{name}.tflite"
        larger = torch.nn.functional.interpolate(small.float(), size=(side, side), mode="bilinear").round()
        photographs = larger.to(torch.uint8).numpy()
        box = load(path, class_names=names)
        box.prepare(photographs)
        assert box.preprocessing.background == "first"
        assert box.num_classes == len(box.class_names) == 1000 and box.class_names[0].startswith("tench")
        interpreter = litert.Interpreter(model_path=str(path))
        interpreter.allocate_tensors()
        answers = []
        for pixels in photographs.transpose(0, 2, 3, 1):
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], np.ascontiguousarray(pixels[None]))
            interpreter.invoke()
            answers.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"])[0, 1:])
        by_hand = np.stack(answers).astype(np.float32)
        np.testing.assert_allclose(box.predict(photographs), by_hand / by_hand.sum(axis=1, keepdims=True), atol=1e-6)


def test_nothing_is_written_past_python_and_damaged_files_are_refused(network, images, tmp_path, capfd, told):
    from benchmarks.tflite_files import tflite_file

    contents = tflite_file(network, (1, 28, 28), reshape_to=3)
    path = tmp_path / "cut.tflite"
    path.write_bytes(contents)
    box = TfliteModel(path, ModelSettings(name="cut", device=torch.device("meta")))
    assert box.remarks == ("Model cut runs on the CPU, where LiteRT computes.",)
    box.prepare(images)
    box.predict(images)
    path.write_bytes(contents[: len(contents) // 2])
    with pytest.raises(UserError, match=r"that LiteRT cannot read \(.*\); convert it again\.$") as caught:
        load(path)
    told("Model files", "`cut.tflite`", caught.value)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "data", "accuracy"),
    [
        ("mnist-lenet5-family/quantized", "mnist", 0.9796),
        ("cifar10-resnet8-tiny/float32", "cifar10/test.zip", None),
        ("cifar10-resnet8-tiny/int8", "cifar10/test.zip", None),
    ],
)
def test_published_files_are_as_good_as_published(name, data, accuracy, shared_folder):
    """The accuracy that is published on CIFAR-10 is that of the lossless images; on others, LiteRT itself is asked."""
    path = shared_folder / "models" / f"{name}.tflite"
    images = load_data(shared_folder / "data" / data)
    said = Preprocessing(scale="0..255") if "float32" in name else None
    box = load(path, preprocessing=said)
    if accuracy is None:
        rows = np.linspace(0, len(images) - 1, 500).astype(int)
        images = ImageSet(images.images[rows], images.labels[rows], None, "some")
    box.prepare(images.images[:256])
    labels = box.predict(images.images).argmax(axis=1)
    if accuracy is None:
        direct = asked_directly(path, images.images.transpose(0, 2, 3, 1).astype(np.float64))
        np.testing.assert_array_equal(labels, direct.argmax(axis=1))
        assert (labels == images.labels).mean() > 0.7
    else:
        assert round(float((labels == images.labels).mean()), 4) == accuracy
