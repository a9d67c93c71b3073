"""What files of other libraries beside a model, and the model's own metadata, say of its pre-processing."""

from __future__ import annotations

import json
import os

import numpy as np
import onnx
import pytest

from diffgen.config import Preprocessing, replace
from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.onnx_graph import _declared
from diffgen.models.sidecar import read_processor_file
from diffgen.models.tflite_graph import declared_normalization
from diffgen.workflows.inspect import inspect

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TIMM = {
    "architecture": "resnet50",
    "pretrained_cfg": {
        "input_size": [3, 224, 224],
        "interpolation": "bicubic",
        "crop_pct": 0.875,
        "crop_mode": "center",
        "mean": [*MEAN],
        "std": [*STD],
    },
}
VIT = {
    "do_normalize": True,
    "do_resize": True,
    "do_rescale": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "image_processor_type": "ViTImageProcessor",
    "resample": 2,
    "rescale_factor": 0.00392156862745098,
    "size": {"height": 224, "width": 224},
}
CLIP = {
    **VIT,
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "size": {"shortest_edge": 256},
    "resample": 3,
}
PLAIN = {"do_normalize": False}
HALVES = {"scale": "0..1", "mean": (0.5,) * 3, "std": (0.5,) * 3}


CASES = {
    "timm": (
        TIMM,
        Preprocessing(size=(224, 224), crop=0.875, interpolation="bicubic", scale="0..1", mean=MEAN, std=STD),
    ),
    "timm, squashed": (
        {**TIMM["pretrained_cfg"], "crop_mode": "squash", "crop_pct": 1.0, "interpolation": "random"},
        Preprocessing(size=(224, 224), crop=0.0, scale="0..1", mean=MEAN, std=STD),
    ),
    "ViT": (VIT, Preprocessing(size=(224, 224), crop=0.0, interpolation="bilinear", **HALVES)),
    "CLIP": (CLIP, Preprocessing(size=(224, 224), crop=0.875, interpolation="bicubic", **HALVES)),
    "CLIP, older": (
        {**CLIP, "size": 224, "crop_size": 224},
        Preprocessing(size=(224, 224), crop=1.0, interpolation="bicubic", **HALVES),
    ),
    "ConvNeXt": (
        {"image_processor_type": "ConvNextImageProcessor", "crop_pct": 0.9, "size": {"shortest_edge": 224}, **PLAIN},
        Preprocessing(size=(224, 224), crop=0.9, scale="0..1", mean=(), std=()),
    ),
    "grey levels": (
        {"do_rescale": False, "do_resize": False, "do_flip_channel_order": True, **PLAIN},
        Preprocessing(channels="bgr", scale="0..255", mean=(), std=()),
    ),
    "EfficientNet": (
        {"do_rescale": True, "rescale_factor": 1 / 127.5, "rescale_offset": True, **PLAIN},
        Preprocessing(scale="0..1", mean=(0.5,), std=(0.5,)),
    ),
    "torchvision": (
        {"categories": ["a", "b"], "transforms": {"crop_size": 192}},
        Preprocessing(
            size=(192, 192), crop=0.75, interpolation="bilinear", antialias=True, scale="0..1", mean=MEAN, std=STD
        ),
    ),
}


@pytest.mark.parametrize(("values", "said"), CASES.values(), ids=CASES)
def test_what_each_library_means(values, said, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    name, found = read_processor_file(tmp_path / "net.onnx")
    assert name == "preprocessor_config.json"
    assert (found.mean, found.std) == (pytest.approx(said.mean), pytest.approx(said.std))
    assert replace(found, mean=said.mean, std=said.std) == said


@pytest.mark.parametrize("name", ["ResNet50_Weights.IMAGENET1K_V2", "EfficientNet_V2_S_Weights.IMAGENET1K_V1"])
def test_torchvisions_own_transforms(name, tmp_path):
    """The keywords of a weights' transforms, written as JSON, feed a model as torchvision does."""
    import torchvision.models

    weights = torchvision.models.get_weight(name)
    own = weights.transforms()
    keywords = json.dumps({"transforms": weights.transforms.keywords}, default=str)
    (tmp_path / "net.pt.json").write_text(keywords)
    beside, found = read_processor_file(tmp_path / "net.pt")
    assert (beside, found.size) == ("net.pt.json", (own.crop_size[0],) * 2)
    assert found.crop == own.crop_size[0] / own.resize_size[0]
    assert found.interpolation == own.interpolation.value
    assert (found.mean, found.std) == (tuple(own.mean), tuple(own.std))


def test_what_comes_first(net, save_onnx, images, tmp_path):
    path = save_onnx(net)
    assert load(path).fed_by == ""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "resnet"}))  # of a model, and not of its images
    assert load(path).fed_by == ""
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**VIT, "image_mean": [0.4], "image_std": [0.3]}))
    for isolate in ("on", "off"):
        box = load(path, isolate=isolate)
        assert box.fed_by == "preprocessor_config.json"
        assert (box.preprocessing.mean, box.preprocessing.std) == ((0.4,), (0.3,))
        assert box.preprocessing.size == () and box.input_size == (28, 28)  # the file's own goes before
        box.prepare(images)
    said = load(path, preprocessing=Preprocessing(scale="0..255")).preprocessing
    assert (said.scale, said.mean, said.std) == ("0..255", (), ())  # a mean holds for a scale
    (tmp_path / "net.onnx.toml").write_text("mean = 0.1\n")
    assert load(path).preprocessing.mean == (0.1,) and load(path).preprocessing.std == ()
    assert load(path, sidecar=False).preprocessing.mean == ()


def test_a_model_that_optimum_exported(net, save_onnx, tmp_path):
    (tmp_path / "onnx").mkdir()
    path = save_onnx(net, name="onnx/model.onnx")
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(VIT))
    assert load(path).fed_by == "preprocessor_config.json"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", '{"mean": 3}', "null", '{"pretrained_cfg": 4}'])
def test_a_file_that_says_nothing_of_it(text, tmp_path):
    (tmp_path / "config.json").write_text(text)
    assert read_processor_file(tmp_path / "net.onnx") is None


def test_a_file_that_is_none(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    (tmp_path / "net.json").mkdir()
    assert read_processor_file(tmp_path / "net.onnx") is None


@pytest.mark.parametrize(
    "change",
    [
        {"size": {"height": -5, "width": 4}},
        {"size": "large"},
        {"image_mean": ["x"]},
        {"rescale_factor": 0},
        {"image_std": [float("nan")]},
        {"crop_size": [1, 2, 3], "do_center_crop": True},
    ],
)
def test_what_cannot_be_is_an_error(change, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**VIT, **change}))
    with pytest.raises(UserError, match=r"preprocessor_config.json says of .* what cannot be .*; repair it"):
        read_processor_file(tmp_path / "net.onnx")


@pytest.mark.parametrize("isolate", ["on", "off"])
def test_metadata_of_onnx(net, save_onnx, images, isolate):
    path = save_onnx(net)
    model = onnx.load(path)
    for key, value in {"Image.NominalPixelRange": "Normalized_1_1", "Image.BitmapPixelFormat": "Gray8"}.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    onnx.save(model, path)
    box = load(path, isolate=isolate)
    assert (box.preprocessing.scale, box.preprocessing.mean, box.preprocessing.std) == ("0..1", (0.5,), (0.5,))
    box.prepare(images)
    assert load(path, isolate=isolate, preprocessing=Preprocessing(mean=(0.1,))).preprocessing.std == ()


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"Image.NominalPixelRange": "NominalRange_0_255"}, Preprocessing(scale="0..255", mean=(), std=())),
        ({"Image.BitmapPixelFormat": "BGR8"}, Preprocessing(channels="bgr")),
        ({"task": "classify", "imgsz": "[64, 96]"}, Preprocessing(size=(64, 96), crop=1.0)),
        (
            {"task": "detect", "imgsz": "[64, 96]"},
            Preprocessing(size=(64, 96), fitting="letterbox", antialias=False, outputs="boxes"),
        ),
        ({"task": "classify", "imgsz": "[0, 9999]"}, Preprocessing()),
    ],
)
def test_keys_of_onnx_metadata(metadata, said):
    assert _declared(metadata) == said


def test_metadata_of_tflite_is_read_where_the_integers_say_nothing(shared_folder):
    content = (
        shared_folder / "models" / "imagenet-mobilenet-quant" / "mobilenet_v1_0.75_192_quant.tflite"
    ).read_bytes()
    assert declared_normalization(content) == Preprocessing(scale="0..255", mean=(127.5,), std=(127.5,))
    for cut in range(0, len(content), len(content) // 50):
        declared_normalization(content[:cut])
    noise = np.random.default_rng(0)
    head = np.frombuffer(content, np.uint8).copy()
    for _ in range(200):
        broken = head.copy()
        broken[noise.integers(0, 4096, 8)] = noise.integers(0, 256, 8)
        declared_normalization(broken.tobytes())


def test_inspect_tries_it_first(net, save_onnx, tmp_path):
    from diffgen.data import load as load_data

    path = save_onnx(net)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({**VIT, "image_mean": [0.4], "image_std": [0.3]}))
    found = inspect(path, data=load_data("digits:test"))
    assert found.now is not None and found.now.name == "as preprocessor_config.json says"
    assert (found.now.preprocessing.mean, found.now.preprocessing.std) == ((0.4,), (0.3,))


@pytest.mark.parametrize(
    ("config", "names"),
    [
        ({"id2label": {"0": "cat", "1": "dog"}}, ("cat", "dog")),
        ({**TIMM, "label_names": ["crane", "crane"]}, ("crane (0)", "crane (1)")),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, ()),
        ({"id2label": {"0": "cat", "2": "dog"}}, ()),
        ({"label_names": ["cat", "\x1b[31m"]}, ()),
    ],
)
def test_class_names(config, names, net_of, save_onnx):
    path = save_onnx(net_of(channels=1, size=8, classes=2), (2, 1, 8, 8))
    (path.parent / "config.json").write_text(json.dumps(config))
    assert load(path, isolate="off").class_names == names
    assert load(path, isolate="off", class_names=("a", "b")).class_names == ("a", "b")
    (path.parent / f"{path.name}.toml").write_text('class_names = ["x", "y"]')
    assert load(path, isolate="off").class_names == ("x", "y")
