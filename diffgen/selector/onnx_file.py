"""The selector as one ONNX file: features and forest in one graph, and what it was made for as JSON beside them.

The graph takes grey levels 0..255 as float32 (N, C, H, W) and gives ``probabilities`` (N, kinds): that each of the
models that it may trust is right. ``kinds`` in the JSON names these by number. The file is data, never a pickle;
onnxruntime runs it.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from diffgen.config import MAX_MODELS, Preprocessing, from_dict, roles
from diffgen.errors import UserError
from diffgen.features.pretrained import MEAN, STD, VGG_SIDE, Vgg16
from diffgen.models import BlackBox
from diffgen.models import load as load_model
from diffgen.models.untrusted import external_files
from diffgen.runs.files import write_whole
from diffgen.types import Float32Array, Int64Array, UInt8Array

_BATCH = 512
_KEPT_AS = "vgg16-397923af.pth"  # the name under which torchvision keeps a download of IMAGENET1K_V1


class PixelNetwork(nn.Module):
    """Grey levels 0..255, (N, C, H, W), to float32 (N, C * H * W) in [0, 1]."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images.to(torch.float32).flatten(1) / 255


class Vgg16Network(nn.Module):
    """Grey levels 0..255, (N, 1 or 3, H, W), to float32 (N, 512), as the paper's selector sees them (section 5.4).

    Images are scaled to 48x48 without a low-pass filter, which ONNX files of this kind cannot have; it would make a
    difference only where images are larger than that.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, extractor: Vgg16) -> None:
        super().__init__()
        self.network = extractor.network
        self.register_buffer("mean", torch.tensor(MEAN).reshape(3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).reshape(3, 1, 1))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pixels = images.to(torch.float32) / 255
        if pixels.shape[1] == 1:
            pixels = pixels.expand(-1, 3, -1, -1)
        pixels = F.interpolate(pixels, (VGG_SIDE, VGG_SIDE), mode="bilinear", align_corners=False)
        features: torch.Tensor = self.network((pixels - self.mean) / self.std)
        return features.flatten(1)


def downloaded_vgg16() -> Path | None:
    """Where torchvision keeps the weights of VGG16 after a download, or None; nothing is downloaded."""
    path = Path(torch.hub.get_dir()) / "checkpoints" / _KEPT_AS
    return path if path.is_file() else None


def extract(network: nn.Module, images: UInt8Array, *, device: torch.device) -> Float32Array:
    """Features float32 (N, D) of uint8 (N, C, H, W)."""
    network.to(device)
    with torch.inference_mode():
        parts = [network(batch.to(device).float()).cpu() for batch in torch.from_numpy(images).split(_BATCH)]
    network.cpu()
    return torch.cat(parts).numpy()


METADATA = "diffgen.selector"
SCHEMA_VERSION = 1
_LARGEST_SIDE = 1024  # of images; the file is not asked for more memory than these take
_OPSET, _IR = 17, 8  # read by every onnxruntime since 1.13


class Selector:
    """Tells for each image which model to trust.

    Attributes:
        metadata: what the file says of itself: models, classes, image shape, features, figures.
        image_shape: (C, H, W) of the images that it takes.
    """

    def __init__(self, graph: BlackBox, metadata: dict[str, Any]) -> None:
        self.metadata = metadata
        channels, height, width = (int(side) for side in metadata["image_shape"])
        self.image_shape = (channels, height, width)
        self._graph = graph
        self.models = len(metadata["models"])
        self._kinds = metadata["kinds"]
        graph.prepare(np.zeros((1, *self.image_shape), dtype=np.uint8))

    def probabilities(self, images: UInt8Array) -> Float32Array:
        """float32 (N, kinds): that A is the right one, that B is, ...; for uint8 (N, C, H, W)."""
        return self._graph.predict(images)

    def choose(self, images: UInt8Array) -> Int64Array:
        """int64 (N,): 0 to trust A, 1 to trust B, ...; a tie goes to the first."""
        return np.asarray(self._kinds, dtype=np.int64)[self.probabilities(images).argmax(axis=1)]


def save_selector(
    path: Path, network: nn.Module, forest: Any, image_shape: tuple[int, int, int], metadata: dict[str, Any]
) -> None:
    """Write a feature network and a fitted forest as one file.

    Args:
        path: the file to make or to replace.
        network: from grey levels 0..255, float32 (N, C, H, W), to features (N, D).
        forest: scikit-learn's, on those features.
        image_shape: (C, H, W).
        metadata: JSON values; schema_version, image_shape and kinds are added.

    Raises:
        RunError: the disk is full or the folder cannot be written.
    """
    import onnx
    from onnx import compose

    features = _features_graph(network, image_shape)
    trees = _forest_graph(forest, forest.n_features_in_)
    trees.ir_version = features.ir_version = _IR
    graph = compose.merge_models(
        compose.add_prefix(features, "features_", rename_inputs=False, rename_outputs=False),
        compose.add_prefix(trees, "forest_", rename_inputs=False, rename_outputs=False),
        io_map=[("features", "forest_input")],
        outputs=["probabilities"],
    )
    kinds = [int(kind) for kind in forest.classes_]
    values = {**metadata, "schema_version": SCHEMA_VERSION, "image_shape": list(image_shape), "kinds": kinds}
    onnx.helper.set_model_props(graph, {METADATA: json.dumps(values)})
    onnx.checker.check_model(graph)
    content = graph.SerializeToString()
    write_whole(path, lambda temporary: temporary.write_bytes(content))


def _features_graph(network: nn.Module, image_shape: tuple[int, int, int]) -> Any:
    import onnx

    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        # the number of channels is the same for every image that the file will see
        warnings.filterwarnings("ignore", message="Converting a tensor to a Python boolean", category=Warning)
        file = Path(folder) / "features.onnx"
        torch.onnx.export(
            network.cpu().eval(),
            (torch.zeros(2, *image_shape),),
            str(file),
            dynamo=False,
            opset_version=_OPSET,
            input_names=["images"],
            output_names=["features"],
            dynamic_axes={"images": {0: "n"}, "features": {0: "n"}},
        )
        return onnx.load(file)


def _forest_graph(forest: Any, features: int) -> Any:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType

    return to_onnx(
        forest,
        initial_types=[("forest_input", FloatTensorType([None, features]))],
        options={id(forest): {"zipmap": False}},
        target_opset={"": _OPSET, "ai.onnx.ml": 3},
    )


def load_selector(path: str | Path, *, device: torch.device | str = "cpu", batch_size: int = 256) -> Selector:
    """Read what :func:`save_selector` wrote. UserError if there is no such file, or it holds no selector."""
    import onnx

    path = Path(path)
    if not path.is_file():
        raise UserError(f"There is no selector {path}; train one with 'diffgen select RUN'.")
    try:
        stored = {each.key: each.value for each in onnx.load(path, load_external_data=False).metadata_props}
        metadata = json.loads(stored[METADATA])
        version = int(metadata["schema_version"])
        _check_metadata(metadata)
        if external_files(path):
            raise ValueError("it keeps weights in other files")
    except Exception as error:  # protobuf has exceptions of its own for what is no ONNX
        raise UserError(f"The file {path} holds no selector; train one with 'diffgen select RUN'.") from error
    if version > SCHEMA_VERSION:
        raise UserError(f"The selector {path} was written by a newer diffgen; upgrade diffgen to use it.")
    preprocessing = Preprocessing(scale="0..255", layout="nchw", outputs="probabilities", output="probabilities")
    graph = load_model(path, device=device, batch_size=batch_size, preprocessing=preprocessing, sidecar=False)
    selector = Selector(graph, metadata)
    if graph.num_classes != len(metadata["kinds"]):
        raise UserError(f"The file {path} holds no selector; train one with 'diffgen select RUN'.")
    return selector


def _check_metadata(metadata: Any) -> None:
    """See that a selector says what its users rely on; it may come from a stranger.

    Raises:
        KeyError, TypeError, ValueError: it does not.
    """
    shape, names, models = metadata["image_shape"], metadata.get("class_names", []), metadata["models"]
    sides = [side for side in shape if type(side) is int and 1 <= side <= _LARGEST_SIDE]
    if len(shape) != 3 or len(sides) != 3 or shape[0] not in (1, 3):
        raise ValueError("it is for no images")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("it names no classes")
    letters = roles(len(models))
    kinds = metadata["kinds"]
    if not 2 <= len(models) <= MAX_MODELS or sorted(models) != list(letters):
        raise ValueError("it names no models")
    if not isinstance(kinds, list) or kinds != sorted({kind for kind in kinds if type(kind) is int}):
        raise ValueError("its kinds are none")
    if len(kinds) < 2:
        raise ValueError("it tells no models apart")
    if not 0 <= kinds[0] <= kinds[-1] < len(models):
        raise ValueError("it trusts models that it does not name")
    for role in letters:
        entry = models[role]
        order = entry.get("class_order", [])
        if not isinstance(entry.get("name"), str | None) or not isinstance(entry.get("sha256"), str | None):
            raise ValueError("it names no models")
        if not isinstance(order, list) or (order and sorted(order) != list(range(len(names)))):
            raise ValueError("its order of the classes is none")
        from_dict(Preprocessing, entry.get("preprocessing", {}))
