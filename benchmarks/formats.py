"""Real models in every format that diffgen opens: the same accuracy, and no disagreement of a model with itself.

    python -m benchmarks.formats MNIST CIFAR MODELS

MNIST is a folder of idx files, CIFAR a zip or folder of CIFAR-10's test images, MODELS a folder with published models:
cifar10-resnet-he/ with resnet20.state_dict.th and resnet32.state_dict.th of
github.com/akamaster/pytorch_resnet_cifar10, cifar10-resnet8-tiny/ with the float32.tflite and int8.tflite of
github.com/mlcommons/tiny, mnist-lenet5-family/ with the .h5 and .tflite files of github.com/youhanmo/DRFuzz. Needs the
extras ``keras`` and ``tflite``. A LeNet-5 is trained on MNIST for a moment and saved in every format. Then each file is
opened, asked about the test images, and compared by ``diffgen.compare`` with the same network in another format, or
with itself where there is no other: every trigger would be a false one. Writes benchmarks/results/formats.md.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.ao.quantization import get_default_qconfig_mapping
from torch.ao.quantization.quantize_fx import convert_fx, prepare_fx

import diffgen
from benchmarks import cifar_resnets
from benchmarks.lenet_pair import train
from benchmarks.quick import add_quick, trained_as_asked
from benchmarks.tflite_files import tflite_file
from diffgen.config import Budget, CompareConfig, GanConfig, ModelSpec, Opening, Preprocessing, QuantizeConfig, replace
from diffgen.data import load as load_data
from diffgen.models import load as load_model
from diffgen.sampling import random_rows
from diffgen.types import Float32Array, ImageSet, Int64Array
from diffgen.workflows.demo import save_torchscript
from diffgen.workflows.quantize import quantize

RESULT = Path(__file__).parent / "results" / "formats.md"
_TRAINED_ON, _CALIBRATED_ON = 20_000, 512
# as published for all 10,000 test images
_PUBLISHED = {
    "base.h5": 0.9807,
    "adversarially-trained-cw.h5": 0.9830,
    "retrained.h5": 0.9783,
    "quantized.tflite": 0.9796,
}
_FIXED = 16  # batch size of the files that take one only


@dataclass(frozen=True)
class Case:
    """A file, and what must be said to open it.

    Attributes:
        name: of the format, for the table.
        options: as on the command line, for the table.
        opening, preprocessing: the same for Python.
        ask: the labels of float32 (N, C, H, W) images in 0..1, asked without diffgen, one at a time; None: they must be
            those of the network in memory.
    """

    name: str
    path: Path
    options: str = ""
    opening: Opening = field(default_factory=Opening)
    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    ask: Callable[[Float32Array], Int64Array] | None = None


def with_arch(name: str, path: Path, arch: str, preprocessing: Preprocessing | None = None) -> Case:
    """Weights, and the factory of their network."""
    return Case(name, path, f"--arch {arch}", Opening(arch=arch), preprocessing or Preprocessing())


def write_everywhere(network: nn.Module, folder: Path) -> list[Case]:
    """The network in a file of every format."""
    files = {name: folder / name for name in ("a.pt", "b.pt2", "c.pt2", "d.onnx", "e.onnx", "f.pth", "g.pth", "h.pkl")}
    example = torch.zeros(_FIXED, 1, 28, 28)
    save_torchscript(network, files["a.pt"])
    torch.export.save(torch.export.export(network, (example,)), files["b.pt2"])
    batch = ({0: torch.export.Dim("batch")},)
    torch.export.save(torch.export.export(network, (example,), dynamic_shapes=batch), files["c.pt2"])
    write_onnx(network, files["d.onnx"], example, dynamic=False)
    write_onnx(network, files["e.onnx"], example, dynamic=True)
    torch.save(network.state_dict(), files["f.pth"])
    save_file(network.state_dict(), files["g.pth"])
    torch.save(network, files["h.pkl"])
    return [
        Case("TorchScript", files["a.pt"]),
        Case(f"torch.export `.pt2`, batch of {_FIXED} only", files["b.pt2"]),
        Case("torch.export `.pt2`, any batch", files["c.pt2"]),
        Case(f"ONNX, batch of {_FIXED} only", files["d.onnx"]),
        Case("ONNX, any batch", files["e.onnx"]),
        with_arch("state_dict", files["f.pth"], "benchmarks.lenet_pair:lenet5"),
        with_arch("safetensors", files["g.pth"], "benchmarks.lenet_pair:lenet5"),
        Case("pickled module", files["h.pkl"], "--allow-pickle", Opening(allow_pickle=True)),
    ]


def write_extras(network: nn.Sequential, folder: Path) -> list[Case]:
    """The same in the formats of the extras."""
    from benchmarks.keras_files import keras_network, save_as_keras2

    files = {name: folder / name for name in ("i.tflite", "j.tflite", "k.keras", "l.h5", "m.h5")}
    files["i.tflite"].write_bytes(tflite_file(network, (1, 28, 28)))
    files["j.tflite"].write_bytes(tflite_file(network, (1, 28, 28), reshape_to=_FIXED))
    model = keras_network(network, (1, 28, 28))
    model.save(files["k.keras"])
    model.save(files["l.h5"])
    save_as_keras2(model, files["m.h5"])
    return [
        Case("TensorFlow Lite", files["i.tflite"]),
        Case(f"TensorFlow Lite, batch of {_FIXED} only", files["j.tflite"]),
        Case("Keras `.keras`", files["k.keras"]),
        Case("Keras `.h5`", files["l.h5"]),
        Case("Keras 2 `.h5`", files["m.h5"]),
    ]


def write_quantized(network: nn.Sequential, onnx: Path, training: ImageSet, test: ImageSet, folder: Path) -> list[Case]:
    """8-bit versions of the network, each with a way to ask it without diffgen."""
    pixels = torch.from_numpy(training.images[random_rows(len(training), _CALIBRATED_ON)]).float() / 255
    files = {name: folder / name for name in ("n.onnx", "o.onnx", "p.tflite", "q.pt")}
    for name, config in (("n.onnx", QuantizeConfig(format="qdq")), ("o.onnx", QuantizeConfig(format="qoperator"))):
        quantize(onnx, data=test, calibration_data=training, output=files[name], config=config)
    files["p.tflite"].write_bytes(tflite_file(network, (1, 28, 28), calibration=pixels))
    prepared = prepare_fx(network, get_default_qconfig_mapping(), (pixels[:4],))
    prepared(pixels)
    quantized = convert_fx(prepared)
    torch.jit.save(torch.jit.trace(quantized, pixels[:4]), str(files["q.pt"]))

    def by_torch(images: Float32Array) -> Int64Array:
        script = torch.jit.load(str(files["q.pt"]))
        return np.array([int(script(torch.from_numpy(each[None])).argmax()) for each in images])

    return [
        Case("ONNX int8 (QDQ)", files["n.onnx"], ask=lambda images: asked_onnx(files["n.onnx"], images)),
        Case("ONNX int8 (QOperator)", files["o.onnx"], ask=lambda images: asked_onnx(files["o.onnx"], images)),
        Case("TensorFlow Lite int8", files["p.tflite"], ask=lambda images: asked_tflite(files["p.tflite"], images)),
        Case("quantized TorchScript", files["q.pt"], ask=by_torch),
    ]


def asked_onnx(path: Path, images: Float32Array) -> Int64Array:
    """Labels by onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.array([session.run(None, {name: each[None]})[0].argmax() for each in images])


def asked_tflite(path: Path, images: Float32Array) -> Int64Array:
    """Labels by LiteRT; a file whose integers have steps of 1, or that is named float32, is handed grey levels."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(path))
    interpreter.allocate_tensors()
    taken, given = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
    scale, zero_point = taken["quantization"]
    values = images.transpose(0, 2, 3, 1)
    if scale == 1.0 or path.name == "float32.tflite":
        values = np.rint(values * 255)
    if scale:
        values = np.clip(np.floor(values / scale + 0.5) + zero_point, -128, 127)
    labels = []
    for each in values.astype(taken["dtype"]):
        interpreter.set_tensor(taken["index"], each[None])
        interpreter.invoke()
        labels.append(int(interpreter.get_tensor(given["index"]).argmax()))
    return np.array(labels)


def write_onnx(network: nn.Module, path: Path, example: torch.Tensor, *, dynamic: bool) -> None:
    """The network as ONNX."""
    axes = {"images": {0: "batch"}, "logits": {0: "batch"}} if dynamic else None
    names: dict[str, Any] = {"input_names": ["images"], "output_names": ["logits"], "dynamo": False}
    torch.onnx.export(network, (example,), str(path), dynamic_axes=axes, **names)


@torch.inference_mode()
def eager_accuracy(network: nn.Module, data: ImageSet, standardise: Callable[[torch.Tensor], torch.Tensor]) -> float:
    """Share of right answers of the source model, asked without diffgen."""
    assert data.labels is not None
    pixels = torch.from_numpy(data.images)
    answers = [network(standardise(each.float() / 255)).argmax(dim=1) for each in pixels.split(256)]
    return float((torch.cat(answers).numpy() == data.labels).mean())


def row(
    case: Case, other: Case, data: ImageSet, source: float, config: CompareConfig, folder: Path
) -> tuple[str, bool]:
    """One line of the table, and whether all is as it must be."""
    box = load_model(
        case.path, arch=case.opening.arch, allow_pickle=case.opening.allow_pickle, preprocessing=case.preprocessing
    )
    box.prepare(data.images)
    assert data.labels is not None
    labels = box.predict(data.images).argmax(axis=1)
    accuracy = float((labels == data.labels).mean())
    if case.ask is not None:
        source = float((case.ask(data.images.astype(np.float32) / np.float32(255)) == data.labels).mean())
    settings = replace(
        config,
        models=tuple(ModelSpec(preprocessing=each.preprocessing, opening=each.opening) for each in (case, other)),
    )
    found = diffgen.compare(case.path, other.path, data=data, config=settings, output=folder / "run", force=True)
    print(f"{case.name}: {box.format}, {accuracy:.4f}, {found.triggers} in {found.queries}", flush=True)
    line = (
        f"| {case.name} | {f'`{case.options}`' if case.options else ''} | {box.format} | {accuracy:.4f} | {source:.4f} "
        f"| {other.name} | {found.queries:,} | {found.triggers:,} |"
    )
    return line, abs(accuracy - source) < 5e-5 and found.triggers == 0


def lenet_rows(mnist: str, folder: Path, queries: int, quick: bool) -> list[tuple[str, bool]]:
    """Every format, on MNIST."""
    training, test = load_data(f"{mnist}:train"), load_data(mnist)
    assert training.labels is not None
    rows = random_rows(len(training), _TRAINED_ON)
    network = train(torch.from_numpy(training.images[rows]), torch.from_numpy(training.labels[rows]), seed=0, epochs=1)
    cases = [*write_everywhere(network, folder), *write_extras(network, folder)]
    source = eager_accuracy(network, test, lambda pixels: pixels)
    config = trained_as_asked(CompareConfig(budget=Budget(queries=queries), device="cpu"), quick=quick)
    scripted, onnx = cases[0], cases[4]
    found = [row(case, onnx if case is scripted else scripted, test, source, config, folder) for case in cases]
    quantized = write_quantized(network, onnx.path, training, test, folder)
    return found + [row(case, replace(case, name="itself"), test, source, config, folder) for case in quantized]


def published_rows(
    mnist: str, cifar: ImageSet, published: Path, folder: Path, queries: int, quick: bool
) -> list[tuple[str, bool]]:
    """Keras and TensorFlow Lite files that were not made for diffgen."""
    test = load_data(mnist)
    config = trained_as_asked(CompareConfig(budget=Budget(queries=queries), device="cpu"), quick=quick)
    found = []
    for name, accuracy in _PUBLISHED.items():
        case = Case(f"`{name}`", published / "mnist-lenet5-family" / name)
        found.append(row(case, replace(case, name="itself"), test, accuracy, config, folder))
    for name, grey in (("float32.tflite", Preprocessing(scale="0..255")), ("int8.tflite", Preprocessing())):
        path = published / "cifar10-resnet8-tiny" / name
        option = "--scale 0..255" if grey.scale else ""
        case = Case(f"ResNet-8, `{name}`", path, option, preprocessing=grey, ask=partial(asked_tflite, path))
        hasty = replace(config, gan=GanConfig(steps=50))
        found.append(row(case, replace(case, name="itself"), cifar, 0.0, hasty, folder))
    return found


def some_of(cifar: str, images: int) -> ImageSet:
    """So many images, spread over all."""
    whole = load_data(cifar)
    assert whole.labels is not None
    chosen = np.linspace(0, len(whole) - 1, min(images, len(whole))).astype(np.int64)
    return ImageSet(whole.images[chosen], whole.labels[chosen], whole.class_names, f"{len(chosen)} of CIFAR-10")


def resnet_rows(data: ImageSet, published: Path, folder: Path, queries: int) -> list[tuple[str, bool]]:
    """Two published networks that were not made for diffgen, on CIFAR-10."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (cifar_resnets.MEAN, cifar_resnets.STD))
    said = Preprocessing(mean=cifar_resnets.MEAN, std=cifar_resnets.STD)
    # what the GAN draws does not matter here, so that it is hardly trained
    config = CompareConfig(budget=Budget(queries=queries), device="cpu", gan=GanConfig(steps=50))
    found = []
    for name in ("resnet20", "resnet32"):
        weights = torch.load(published / f"{name}.state_dict.th", map_location="cpu", weights_only=True)["state_dict"]
        network = getattr(cifar_resnets, name)().eval()
        network.load_state_dict({key.removeprefix("module."): value for key, value in weights.items()})
        onnx = folder / f"{name}.onnx"
        write_onnx(network, onnx, torch.zeros(2, 3, 32, 32), dynamic=True)
        case = with_arch(
            f"{name}, state_dict", published / f"{name}.state_dict.th", f"benchmarks.cifar_resnets:{name}", said
        )
        source = eager_accuracy(network, data, lambda pixels: (pixels - mean) / std)
        found.append(row(case, Case("ONNX, any batch", onnx, preprocessing=said), data, source, config, folder))
    return found


def write(arguments: argparse.Namespace, rows: list[str]) -> None:
    """The page."""
    command = shlex.join(["python", "-m", "benchmarks.formats", "MNIST", "CIFAR", "MODELS", *sys.argv[4:]])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(
        f"""# Every format of a model

    {command}

Made on {datetime.now(UTC):%Y-%m-%d} with Python {sys.version.split()[0]}, torch {torch.__version__}, \
{os.cpu_count()} cores.

The first thirteen rows are one LeNet-5, trained for one pass over {_TRAINED_ON:,} images of MNIST (its accuracy does
not matter here), saved in each format and asked about all 10,000 test images; "source" is the accuracy of the network
in memory, asked without diffgen. The four after them are its 8-bit versions, made by onnxruntime (`diffgen quantize`),
by [benchmarks/tflite_files.py](../tflite_files.py) and by torch; "source" is what onnxruntime, LiteRT and torch give
when they are asked without diffgen, one image at a time. The models after those are published ones. The CIFAR ResNets
are asked about {arguments.images:,} of CIFAR-10's test images as JPEG (in place of all 10,000, to save time; all of
them lose points on JPEG), the first two opened with `--mean 0.485 0.456 0.406 --std 0.229 0.224 0.225`; their GAN was
hardly trained. "Source" of the LeNet-5 files is the accuracy that was published with them, of the ResNet-8 files what
LiteRT gives without diffgen. The last three columns: `diffgen compare` of the file with the same network in another
format, or with itself, where any trigger is a false one.

| file | options | recognised as | accuracy | source | compared with | queries | triggers |
|---|---|---|---:|---:|---|---:|---:|
"""
        + "\n".join(rows)
        + "\n",
        encoding="utf-8",
    )


def main() -> int:
    """Make the table; ends with 1 when an accuracy differs or a model disagrees with itself."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("mnist", metavar="MNIST")
    parser.add_argument("cifar", metavar="CIFAR")
    parser.add_argument("models", metavar="MODELS", type=Path)
    parser.add_argument("--queries", type=int, default=20_000, help="for each format (default: %(default)s)")
    parser.add_argument("--images", type=int, default=2_000, help="of CIFAR-10 (default: %(default)s)")
    parser.add_argument(
        "--resnet-queries", type=int, default=1_000, help="for each published model (default: %(default)s)"
    )
    add_quick(parser)
    parser.add_argument("--out", type=Path, default=RESULT, help="page to write (default: %(default)s)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # of exporters that are deprecated but still about
    with tempfile.TemporaryDirectory(prefix="formats-") as name:
        folder = Path(name)
        rows = lenet_rows(arguments.mnist, folder, arguments.queries, arguments.quick)
        data = some_of(arguments.cifar, arguments.images)
        rows += resnet_rows(data, arguments.models / "cifar10-resnet-he", folder, arguments.resnet_queries)
        rows += published_rows(
            arguments.mnist, data, arguments.models, folder, arguments.resnet_queries, arguments.quick
        )
    write(arguments, [line for line, _ in rows])
    return int(not all(good for _, good in rows))


if __name__ == "__main__":
    sys.exit(main())
