"""Small valid files of every kind that diffgen opens, and the door that each of them is brought to."""

from __future__ import annotations

import gzip
import io
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

IMAGES = np.random.default_rng(0).integers(0, 256, (52, 1, 8, 8), dtype=np.uint8)
LABELS = np.arange(52) % 3
ARCH = "benchmarks.fuzz_corpus:network"
_SIDECAR = """\
channels = "rgb"
scale = "0..1"
mean = [0.5]
std = [0.25]
layout = "nchw"
outputs = "logits"
class_names = ["ant", "bee", "cat"]
"""


def network() -> nn.Module:
    """A classifier of 1x8x8 images into three classes, the same each time."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)
        layers = nn.Conv2d(1, 2, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3)
        return nn.Sequential(*layers).eval()


def model_files(folder: Path) -> dict[str, list[bytes]]:
    """Format -> contents of model files, of the same network in each."""
    from safetensors.torch import save

    example = torch.zeros(2, 1, 8, 8)
    weights = network().state_dict()
    made = programs(folder)

    def written(write: Callable[[Path], object]) -> bytes:
        path = folder / "written"
        write(path)
        return path.read_bytes()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated but still about
        names: dict[str, Any] = {"input_names": ["images"], "output_names": ["logits"], "dynamo": False}
        dynamic = {"images": {0: "batch"}, "logits": {0: "batch"}}
        made["onnx"] = [
            written(lambda path: torch.onnx.export(network(), (example,), str(path), dynamic_axes=dynamic, **names)),
            written(lambda path: torch.onnx.export(network(), (example,), str(path), **names)),
        ]
        made["weights"] = [
            save(weights),
            written(lambda path: torch.save(weights, path)),
            written(lambda path: torch.save(weights, path, _use_new_zipfile_serialization=False)),
            written(lambda path: torch.save({"state_dict": weights, "epoch": 3}, path)),
        ]
        made["module"] = [written(lambda path: torch.save(network(), path))]
        made |= _other_files(folder)
    return made


def programs(folder: Path) -> dict[str, list[bytes]]:
    """The formats that hold code: format -> contents of model files."""
    example = torch.zeros(2, 1, 8, 8)
    scripts = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is deprecated but still about
        for script in (torch.jit.trace(network(), example), torch.jit.script(network())):
            script.save(folder / "written")
            scripts.append((folder / "written").read_bytes())
        batch = torch.export.Dim("batch", min=1, max=64)
        exported = torch.export.export(network(), (example,), dynamic_shapes=({0: batch},))
    return {"torchscript": scripts, "export": [_exported(exported)]}


def _other_files(folder: Path) -> dict[str, list[bytes]]:
    """Those of the extras ``tflite`` and ``keras`` where they are installed."""
    layers = nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 3)
    small = nn.Sequential(*layers).eval()
    made: dict[str, list[bytes]] = {}
    try:
        from benchmarks.tflite_files import tflite_file

        pixels = torch.from_numpy(IMAGES).float() / 255
        ways: list[dict[str, Any]] = [{}, {"open_batch": True}, {"reshape_to": 2}, {"calibration": pixels}]
        made["tflite"] = [tflite_file(small, (1, 8, 8), **way) for way in ways]
    except ImportError:
        print("ai-edge-litert is not installed: no TensorFlow Lite files are tried.")
    try:
        from benchmarks.keras_files import branched_network, keras_network, save_as_keras2

        models = keras_network(small, (1, 8, 8)), branched_network((8, 8, 1), 3)
        for ending in ("keras", "h5"):
            made[ending] = []
            for model in models:
                model.save(folder / f"written.{ending}")
                made[ending].append((folder / f"written.{ending}").read_bytes())
        save_as_keras2(models[0], folder / "written.h5")
        made["h5"].append((folder / "written.h5").read_bytes())
    except ImportError:
        print("Keras is not installed: none of its files are tried.")
    return made


def data_files(folder: Path) -> dict[str, list[bytes]]:
    """Kind of data -> contents of files."""
    header = b"\0\0\x08\x03" + struct.pack(">3I", *IMAGES[:, 0].shape)
    idx = header + IMAGES.tobytes()
    pictures = _pictures()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, image in enumerate(IMAGES):
            archive.writestr(f"set/{'ab'[number % 2]}/{number}.png", _encoded(Image.fromarray(image[0]), "PNG"))
    made = {
        "idx": [idx, gzip.compress(idx, mtime=0)],
        "picture": pictures,
        "zip": [stream.getvalue()],
        "npz": [_npz(np.savez), _npz(np.savez_compressed)],
    }
    try:
        made["parquet"] = _tables(folder)
    except ImportError:
        print("pyarrow is not installed: no tables are tried.")
    return made


def sidecars() -> list[bytes]:
    """Contents of sidecar files."""
    return [_SIDECAR.encode(), b'size = [8, 8]\nantialias = false\nscale = "0..255"\n']


def _exported(program: torch.export.ExportedProgram) -> bytes:
    stream = io.BytesIO()
    torch.export.save(program, stream)
    return stream.getvalue()


def _npz(save: Callable[..., object]) -> bytes:
    stream = io.BytesIO()
    save(stream, images=IMAGES / np.float32(255), labels=LABELS, class_names=np.array(["ant", "bee", "cat"]))
    return stream.getvalue()


def _tables(folder: Path) -> list[bytes]:
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    encoded = [_encoded(Image.fromarray(image[0]), "PNG") for image in IMAGES]
    features = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": ["ant", "bee", "cat"]}}
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    columns = {"image": [{"bytes": each, "path": "x.png"} for each in encoded], "label": LABELS}
    described = pa.table(columns).replace_schema_metadata(about)
    plain = pa.table({"image": encoded, "label": [f"class {label}" for label in LABELS]})
    made = []
    for table, compression in ((described, "snappy"), (plain, "zstd"), (plain, "none"), (described, "gzip")):
        pq.write_table(table, folder / "table", compression=compression, row_group_size=30)
        made.append((folder / "table").read_bytes())
    return made


def _pictures() -> list[bytes]:
    grey = Image.fromarray(IMAGES[0, 0])
    colour = Image.merge("RGB", [Image.fromarray(image[0]) for image in IMAGES[:3]])
    clear = colour.copy()
    clear.putalpha(grey)
    deep = Image.fromarray((IMAGES[0, 0].astype(np.uint16) << 8) + 5)
    made = [_encoded(image, kind) for image in (grey, colour) for kind in ("PNG", "JPEG", "BMP", "PPM", "TIFF", "WEBP")]
    made += [_encoded(image, "PNG") for image in (clear, deep, colour.quantize(16), grey.convert("1"))]
    made += [_encoded(colour.quantize(16), "GIF"), _encoded(colour.convert("CMYK"), "JPEG")]
    made += [_encoded(grey, "TIFF", compression=how) for how in ("tiff_lzw", "tiff_deflate", "packbits", "jpeg")]
    return made


def _encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=kind, **options)
    return stream.getvalue()
