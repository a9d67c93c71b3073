"""Keras networks: the answers are Keras' own, files of Keras 2 too, and nothing in a file is run."""

from __future__ import annotations

import io
import json
import os
import zipfile

import numpy as np
import pytest
import torch

from diffgen.config import Preprocessing
from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.sniffing import FileKind, sniff

HINT = "needs Keras; 'pip install diffgen[keras]' brings it"
# Keras' advice for those who build networks
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
GREY_LEVELS = Preprocessing(scale="0..255")


@pytest.fixture(scope="module")
def keras():
    os.environ["KERAS_BACKEND"] = "torch"
    pytest.importorskip("h5py", reason=HINT)
    return pytest.importorskip("keras", reason=HINT)


def with_random_weights(model):
    rng = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(rng.uniform(0.2, 1, weight.shape) if "variance" in weight.path else rng.normal(size=weight.shape))
    return model


@pytest.fixture(scope="module")
def branched(keras):
    from benchmarks.keras_files import branched_network

    return with_random_weights(branched_network((28, 28, 1), 10))


@pytest.mark.parametrize("ending", ["keras", "h5"])
@pytest.mark.parametrize("bits", [32, 8])
def test_the_answers_are_those_of_keras_itself(ending, bits, keras, branched, images, tmp_path):
    path = tmp_path / f"model.{ending}"
    model = keras.models.clone_model(branched)
    model.set_weights(branched.get_weights())
    if bits == 8:
        model.quantize("int8")
    model.save(path)
    box = load(path, preprocessing=GREY_LEVELS)
    box.prepare(images)
    assert (box.preprocessing.layout, box.preprocessing.outputs, box.format) == (
        "nhwc",
        "probabilities",
        "a Keras model",
    )
    expected = model.predict(images.transpose(0, 2, 3, 1).astype(np.float32), verbose=0)
    np.testing.assert_allclose(box.predict(images), expected, atol=1e-6)
    assert expected.std(axis=0).max() > 1e-3  # they depend on the image


def test_a_file_of_keras_2_and_its_own_meaning_of_words(keras, net_of, images, expected, tmp_path):
    from benchmarks.keras_files import keras_network, save_as_keras2

    net = net_of()
    path = tmp_path / "old"
    save_as_keras2(keras_network(net, (1, 28, 28)), path)
    assert sniff(path) is FileKind.KERAS_HDF5
    with pytest.raises(Exception):  # noqa: B017
        keras.models.load_model(path)  # Keras 3 itself cannot
    box = load(path)
    box.prepare(images)
    np.testing.assert_allclose(box.predict(images), expected(net, images), atol=1e-5)

    one = keras.Sequential([keras.layers.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(3)])
    one.layers[-1].activation = keras.activations.hard_sigmoid
    save_as_keras2(with_random_weights(one), path)
    box = load(path)
    box.prepare(images)
    kernel, bias = one.get_weights()
    sums = images.reshape(len(images), -1) / 255 @ kernel + bias
    scores = np.clip(0.2 * sums + 0.5, 0, 1)  # Keras 3: clip(sums / 6 + 0.5)
    np.testing.assert_allclose(box.predict(images), scores / scores.sum(axis=1, keepdims=True), atol=1e-5)


def test_a_graph_as_keras_2_describes_it(keras, images):
    """Layers name the calls that they take their inputs from; a layer that is called twice has two entries."""
    from diffgen.models.untrusted.keras_network import KerasBuilder

    def layer(kind, name, *calls, **config):
        nodes = [[[source, call, 0, {}] for source, call in places] for places in calls]
        return {"class_name": kind, "name": name, "config": {"name": name, **config}, "inbound_nodes": nodes}

    depthwise = {
        "kernel_size": [3, 3],
        "padding": "same",
        "groups": 1,
        "depthwise_initializer": {"class_name": "Zeros"},
    }
    description = {
        "class_name": "Model",
        "config": {
            "name": "model_1",
            "layers": [  # in no order that they could be called in
                layer("Add", "sum", [("twice", 1), ("image", 0), ("twice", 0)]),
                layer("InputLayer", "image", batch_input_shape=[None, 28, 28, 1], dtype="float32", sparse=False),
                layer("DepthwiseConv2D", "twice", [("image", 0)], [("twice", 0)], **depthwise),
                layer("BatchNormalization", "norm", [("sum", 0)], axis=[3], epsilon=0.001),
                layer("LeakyReLU", "leaky", [("norm", 0)], alpha=0.1),
                layer("Flatten", "flat", [("leaky", 0)]),
                layer("Dense", "dense", [("flat", 0)], units=3, activation="softmax"),
            ],
            "input_layers": [["image", 0, 0]],
            "output_layers": [["dense", 0, 0]],
        },
    }
    model = with_random_weights(KerasBuilder("2.3.1", 10_000).model(description))

    layers = keras.layers
    image = layers.Input((28, 28, 1))
    twice = layers.DepthwiseConv2D(3, padding="same")
    first = twice(image)
    x = layers.BatchNormalization()(layers.Add()([twice(first), image, first]))
    x = layers.Dense(3, activation="softmax")(layers.Flatten()(layers.LeakyReLU(0.1)(x)))
    expected = keras.Model(image, x)
    for one in expected.layers:
        if one.weights:
            name = {"DepthwiseConv2D": "twice", "BatchNormalization": "norm", "Dense": "dense"}[type(one).__name__]
            one.set_weights(model.get_layer(name).get_weights())
    pixels = images.transpose(0, 2, 3, 1) / np.float32(255)
    answers = model.predict(pixels, verbose=0)
    np.testing.assert_allclose(answers, expected.predict(pixels, verbose=0), atol=1e-6)
    assert answers.std(axis=0).max() > 1e-3


def test_what_could_run_code_or_reach_for_files_is_refused(keras, images, tmp_path, told):
    import h5py

    layers = keras.layers
    mark = tmp_path / "mark"
    harmless = [layers.Input((28, 28, 1)), layers.Flatten(), layers.Dense(10)]
    plain = tmp_path / "plain.keras"
    keras.Sequential(harmless).save(plain)
    keras.Sequential(harmless).save(tmp_path / "plain.h5")

    @keras.saving.register_keras_serializable("mine")
    class Mine(layers.Dense):
        pass

    keras.Sequential([*harmless[:2], Mine(10)]).save(tmp_path / "own.keras")
    command = f"__import__('os').mkdir({str(mark)!r})"
    evil = keras.Sequential([harmless[0], layers.Lambda(eval("lambda x: (" + command + ", x)[1]")), *harmless[1:]])
    os.rmdir(mark)  # building it has run it
    evil.save(tmp_path / "lambda.keras")
    evil.save(tmp_path / "lambda.h5")

    def changed(name, change):
        """The harmless archive with another description."""
        with zipfile.ZipFile(plain) as old, zipfile.ZipFile(tmp_path / name, "w") as new:
            for member in old.namelist():
                content = old.read(member)
                if member == "config.json":
                    description = json.loads(content)
                    change(description["config"]["layers"][-1])
                    content = json.dumps(description)
                new.writestr(member, content)

    other = {"module": "os", "class_name": "system", "config": "touch x", "registered_name": "system"}
    changed("activation.keras", lambda dense: dense["config"].update(activation=other))
    changed("module.keras", lambda dense: dense.update(module="subprocess", class_name="Popen"))
    changed("larger.keras", lambda dense: dense["config"].update(units=10**9))
    changed("setting.keras", lambda dense: dense["config"].update(name={"class_name": "x"}))

    def linked(name, put):
        (tmp_path / name).write_bytes((tmp_path / "plain.h5").read_bytes())
        with h5py.File(tmp_path / name, "a") as file:
            put(file["model_weights"])

    layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
    layout[:] = h5py.VirtualSource(str(tmp_path / "plain.h5"), "x", shape=(4,))
    linked("link.h5", lambda group: group.__setitem__("x", h5py.ExternalLink(str(tmp_path / "plain.h5"), "/")))
    linked("external.h5", lambda group: group.create_dataset("x", (4,), "f4", external=[("/etc/passwd", 0, 16)]))
    linked("virtual.h5", lambda group: group.create_virtual_dataset("x", layout))
    linked("bomb.h5", lambda group: group.create_dataset("x", (10**9,), "f8", chunks=True, compression="gzip"))
    linked("words.h5", lambda group: group.create_dataset("x", data=np.array([b"a" * 9])))
    for name, words in [
        ("lambda.keras", "layer 'Lambda'"),
        ("lambda.h5", "layer 'Lambda'"),
        ("own.keras", "'mine>Mine' that is not of Keras itself"),
        ("activation.keras", "the activation 'touch x'"),
        ("module.keras", "'Popen' that is not of Keras itself"),
        ("larger.keras", "larger than its weights"),
        ("setting.keras", "more than a number or a word"),
        ("link.h5", "link to somewhere else"),
        ("external.h5", "lies in another file"),
        ("virtual.h5", "lies in another file"),
        ("bomb.h5", "many times its size"),
        ("words.h5", "not of numbers"),
    ]:
        with pytest.raises(UserError) as caught:
            load(tmp_path / name)
        text = str(caught.value)
        assert words in text and "\n" not in text and text.endswith("."), text
        told("Model files", f"`{name}`", text)
    assert not mark.exists() and not (tmp_path / "x").exists()
    load(plain).prepare(images)


def test_other_networks_and_damaged_files_are_refused(keras, images, tmp_path):
    layers = keras.layers
    keras.Sequential([layers.Input((28, 28)), layers.Dense(10)]).save(tmp_path / "flat.keras")
    with pytest.raises(UserError, match=r"takes 1 input of shape \(\?, 28, 28\), not images alone"):
        load(tmp_path / "flat.keras")
    keras.Sequential([layers.Input((32, 32, 3)), layers.Flatten(), layers.Dense(10)]).save(tmp_path / "colour.h5")
    with pytest.raises(UserError, match="takes 3x32x32 images but the data has 1x28x28"):
        load(tmp_path / "colour.h5").prepare(images)
    contents = (tmp_path / "colour.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(contents[: len(contents) // 2])
    with pytest.raises(UserError, match=r"that Keras .* cannot read \(.*\); save it again"):
        load(tmp_path / "cut.h5")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("config.json", "{}")
        archive.writestr("metadata.json", "{}")
    (tmp_path / "half.keras").write_bytes(buffer.getvalue())
    with pytest.raises(UserError, match="cannot read"):
        load(tmp_path / "half.keras")


def test_keras_on_something_else_than_torch_is_refused(keras, tmp_path, monkeypatch):
    keras.Sequential([keras.layers.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]).save(
        tmp_path / "m.keras"
    )
    monkeypatch.setattr(keras.config, "backend", lambda: "jax")
    with pytest.raises(UserError, match="imported on jax before; set the environment variable KERAS_BACKEND"):
        load(tmp_path / "m.keras", isolate="off")  # a process of its own has its own Keras


@pytest.mark.parametrize(
    ("name", "accuracy"), [("base", 0.9807), ("adversarially-trained-cw", 0.9830), ("retrained", 0.9783)]
)
def test_published_networks_of_keras_2_are_as_good_as_published(name, accuracy, keras, shared_folder):
    box = load(shared_folder / "models" / "mnist-lenet5-family" / f"{name}.h5")
    data = load_data(shared_folder / "data" / "mnist")
    box.prepare(data.images[:256])
    assert round(float((box.predict(data.images).argmax(axis=1) == data.labels).mean()), 4) == accuracy


def test_tensors_stay_torch_tensors(keras, images, tmp_path):
    keras.Sequential([keras.layers.Input((28, 28, 1)), keras.layers.Flatten(), keras.layers.Dense(3)]).save(
        tmp_path / "m.keras"
    )
    box = load(tmp_path / "m.keras")
    box.prepare(images)
    answers = box.predict(torch.from_numpy(images))
    assert isinstance(answers, torch.Tensor) and answers.device.type == "cpu"
