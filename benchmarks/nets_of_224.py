"""Two of torchvision's networks for photographs of hands of 224 pixels, as a model owner has them.

    python -m benchmarks.nets_of_224 shared/data/sign-digits nets/ [--epochs 15]

Writes ``nets/resnet18.pt`` and ``nets/mobilenet_v2.pt`` (TorchScript), trained from nothing on ``train.zip``, on a GPU
where there is one (a minute or two), and says how often each is right on ``test.zip``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.models import mobilenet_v2, resnet18

from benchmarks.judge_colour import changed
from benchmarks.nets_of_hands import arguments_of, resized
from diffgen.comparison.machine import resolve_device
from diffgen.data import load
from diffgen.types import ImageSet
from diffgen.workflows.demo import save_torchscript

SIDE = 224
_BATCH, _EPOCHS = 32, 15
_NETS: dict[str, Callable[[], nn.Module]] = {
    "resnet18": partial(resnet18, num_classes=10),
    "mobilenet_v2": partial(mobilenet_v2, num_classes=10),
}


def train(network: nn.Module, data: ImageSet, device: torch.device, *, epochs: int) -> None:
    """AdamW on photographs that are changed a little; leaves the network in eval mode, on the device."""
    assert data.labels is not None
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels).to(device)
    network.to(device).train()
    optimiser = torch.optim.AdamW(network.parameters(), lr=1e-3)
    steps = max(1, epochs * -(-len(images) // _BATCH))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-3, total_steps=steps)
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(_BATCH):
            shown = F.interpolate(changed(images[rows].float() / 255).to(device), size=(SIDE, SIDE), mode="bilinear")
            loss = F.cross_entropy(network(shown), labels[rows.to(device)])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
    network.eval()


def make(source: Path, folder: Path, *, epochs: int = _EPOCHS) -> list[Path]:
    """The two files; those that are there already are not made again."""
    files = [folder / f"{name}.pt" for name in _NETS]
    if all(file.is_file() for file in files):
        return files
    folder.mkdir(parents=True, exist_ok=True)
    device = resolve_device("auto")
    training, test = (load(str(source / f"{split}.zip"), resize=100) for split in ("train", "test"))
    for file, build in zip(files, _NETS.values(), strict=True):
        torch.manual_seed(0)
        network = build()
        train(network, training, device, epochs=epochs)
        with torch.inference_mode():
            said = [network(part.to(device)).argmax(dim=1).cpu() for part in resized(test, SIDE).split(100)]
        print(f"{file}: {(torch.cat(said).numpy() == test.labels).mean():.1%} of {len(test)} photographs", flush=True)
        save_torchscript(network.cpu(), file, (3, SIDE, SIDE))
    return files


def main() -> None:
    arguments = arguments_of("nets_of_224", __doc__, epochs=_EPOCHS)
    make(arguments.source, arguments.folder, epochs=arguments.epochs)


if __name__ == "__main__":
    main()
