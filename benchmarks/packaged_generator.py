"""A generator of others, from a public wheel, as ``--source file:FILE``: exported to ONNX, and searched with.

    python -m benchmarks.packaged_generator OUT [--wheel FILE] [--budget 500q]

gan-face-generate 1.1.1 (MIT) holds the weights of a DCGAN that was trained on synthetic faces (DigiFace-1M): (N, 100,
1, 1) from N(0, 1) to 64x64 pictures in colour. pip brings the wheel; where it cannot, this says so, and that is all.
Nothing of the wheel is installed or run: the weights alone are read, and the network is made from their shapes.

OUT gets the ONNX file, a sheet of its pictures, and a run. Pictures without labels need classifiers of something else:
two small ones tell 64x64 pieces of scikit-learn's two photographs apart, and the search looks for faces of which one
says building and the other flower. What that finds says nothing of any model; it shows that the file works as a source.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_sample_image
from torch import nn
from torchvision.utils import save_image

from diffgen.cli import main as diffgen
from diffgen.config import GeneratorConfig
from diffgen.data import load
from diffgen.sources.file import FileSource
from diffgen.sources.space import random_genes
from diffgen.workflows.demo import train_classifier

WHEEL = "gan-face-generate==1.1.1"
_WEIGHTS = "gan_face_generate/weights.tar"
_SIDE, _SHOWN = 64, 40


def brought(folder: Path) -> Path | None:
    """The wheel, fetched by pip, or None: it could not."""
    words = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), WHEEL]
    if subprocess.run([sys.executable, "-m", "pip", *words], check=False).returncode:
        return None
    return next(folder.glob("*.whl"))


def generator_in(wheel: Path) -> nn.Sequential:
    """The DCGAN of the PyTorch tutorial, in eval mode, of as many channels as the weights in the wheel have."""
    with zipfile.ZipFile(wheel) as archive:
        stored = torch.load(BytesIO(archive.read(_WEIGHTS)), map_location="cpu", weights_only=True)["netG_state_dict"]
    weights = {name.removeprefix("main."): value for name, value in stored.items()}
    layers: list[nn.Module] = []
    for place in (0, 3, 6, 9, 12):
        before, after, _, _ = weights[f"{place}.weight"].shape
        stride, padding = (1, 0) if place == 0 else (2, 1)
        layers += [nn.ConvTranspose2d(before, after, 4, stride, padding, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()] if place < 12 else [nn.Tanh()]
    network = nn.Sequential(*layers)
    network.load_state_dict(weights)
    return network.eval().requires_grad_(False)


def save_onnx(network: nn.Module, shape: tuple[int, ...], path: Path) -> None:
    """For batches of any size."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        torch.onnx.export(
            network,
            (torch.zeros(2, *shape),),
            str(path),
            dynamo=False,
            dynamic_axes={"input": {0: "n"}, "output": {0: "n"}},
            input_names=["input"],
            output_names=["output"],
        )


def pieces(path: Path) -> None:
    """A file of 64x64 pieces of two photographs, labelled by photograph."""
    photographs = [load_sample_image(name).transpose(2, 0, 1) for name in ("china.jpg", "flower.jpg")]
    cut = [
        each[:, y : y + _SIDE, x : x + _SIDE]
        for each in photographs
        for y in range(0, 427 - _SIDE, 40)
        for x in range(0, 640 - _SIDE, 40)
    ]
    np.savez(path, images=np.stack(cut), labels=np.repeat([0, 1], len(cut) // 2))


def classifiers() -> dict[str, nn.Sequential]:
    """One with a convolution, one that sees mean colours of 8x8 pixels alone."""
    first = (nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.AvgPool2d(7), nn.Flatten(), nn.Linear(128, 2))
    return {"a.onnx": nn.Sequential(*first), "b.onnx": nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(192, 2))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--wheel", type=Path, help="that was fetched before")
    parser.add_argument("--budget", default="500q")
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    wheel = arguments.wheel or brought(out)
    if wheel is None:
        print(f"pip cannot bring {WHEEL} here; nothing was measured.")
        return
    network, file = generator_in(wheel), out / "generator.onnx"
    first = network[0]
    assert isinstance(first, nn.ConvTranspose2d)
    latent_dim = first.in_channels
    save_onnx(network, (latent_dim, 1, 1), file)
    source = FileSource(
        GeneratorConfig(file=str(file), latent_dim=latent_dim), (3, _SIDE, _SIDE), device=torch.device("cpu")
    )
    genes = random_genes(source.space, _SHOWN, torch.Generator().manual_seed(0))
    started = time.process_time()
    drawn = source.draw(genes)
    spent = 1000 * (time.process_time() - started) / _SHOWN
    wanted = ((network(genes[:, :, None, None]) + 1) * 127.5).round().clamp(0, 255)
    print(
        f"{wheel.name}: latent vectors of {latent_dim}, pixels {source.pixels}, {spent:.1f} ms of processor time a "
        f"picture; ONNX and torch differ by {int((drawn - wanted).abs().max())} grey levels at most."
    )
    save_image(drawn / 255, out / "pictures.png", nrow=10)
    pieces(out / "pieces.npz")
    data = load(out / "pieces.npz")
    for name, classifier in classifiers().items():
        save_onnx(train_classifier(classifier, data, seed=0), (3, _SIDE, _SIDE), out / name)
    words = ["compare", out / "a.onnx", out / "b.onnx", "--data", out / "pieces.npz", "--source", f"file:{file}"]
    words += [
        "--latent-dim",
        latent_dim,
        "--filters",
        "none",
        "--budget",
        arguments.budget,
        "-o",
        out / "run",
        "--force",
    ]
    sys.exit(diffgen([str(each) for each in words]))


if __name__ == "__main__":
    main()
