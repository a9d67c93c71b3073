"""What people really have passes: networks of torchvision, scripted, traced and exported."""

from __future__ import annotations

import warnings

import pytest
import torch
import torchvision

from diffgen.models.exported import open_program
from diffgen.models.torchscript import open_torchscript

QUICK = ("squeezenet1_1", "mobilenet_v3_small")
SLOW = (
    *("alexnet", "convnext_tiny", "densenet121", "efficientnet_b0", "googlenet", "inception_v3", "maxvit_t"),
    *("mnasnet0_5", "mobilenet_v2", "regnet_y_400mf", "resnet18", "shufflenet_v2_x0_5", "swin_t", "vgg11", "vit_b_16"),
)
SIDES = {"inception_v3": 299}


@pytest.fixture(params=[*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def network(request):
    """Random weights, and an image of the size that it takes."""
    special = {"init_weights": False} if request.param in ("googlenet", "inception_v3") else {}
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        made = getattr(torchvision.models, request.param)(weights=None, **special).eval()
        side = SIDES.get(request.param, 224)
        yield made, torch.rand(1, 3, side, side)


@pytest.mark.parametrize("way", ["traced", "scripted"])
@torch.no_grad()
def test_torchscript(network, way, tmp_path):
    net, image = network
    made = torch.jit.trace(net, image, check_trace=False, strict=False) if way == "traced" else torch.jit.script(net)
    made.save(str(tmp_path / "net.pt"))
    opened = open_torchscript(tmp_path / "net.pt", torch.device("cpu"))
    assert not opened.trusted
    answers = [each if isinstance(each, torch.Tensor) else each[0] for each in (opened.module(image), made(image))]
    assert torch.equal(*answers)


def test_exported(network, tmp_path):
    net, image = network
    torch.export.save(torch.export.export(net, (image,)), tmp_path / "net.pt2")
    program, trusted = open_program(tmp_path / "net.pt2", allow_pickle=False)
    assert not trusted
    with torch.no_grad():
        assert torch.equal(program.module()(image), net(image))


class Resizing(torch.nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(images, size=(8, 8), mode="bilinear", align_corners=False).flatten(1)


def test_one_that_resizes_its_images(tmp_path):
    """Scripted, it names every way to resize that its torch has, and not only the one that it goes."""
    made, image = torch.jit.script(Resizing()), torch.rand(2, 3, 20, 20)
    made.save(str(tmp_path / "net.pt"))
    opened = open_torchscript(tmp_path / "net.pt", torch.device("cpu"))
    assert not opened.trusted
    assert torch.equal(opened.module(image), made(image))
