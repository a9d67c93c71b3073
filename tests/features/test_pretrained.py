"""diffgen.features: VGG16 and Inception v3, with random weights: what they compute, and where weights come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from diffgen.data import load as load_data
from diffgen.errors import UserError
from diffgen.features import encoder as encoders
from diffgen.features import loading
from diffgen.features.pretrained import MEAN, STD, InceptionV3, Vgg16
from diffgen.types import ImageSet


@pytest.fixture(scope="module")
def vgg_state() -> dict[str, torch.Tensor]:
    """VGG16's convolutions with random weights; its classifier, of 120 million, is left out."""
    with torch.device("meta"):
        convolutions = torchvision.models.vgg16(weights=None, init_weights=False).features
    convolutions.to_empty(device="cpu")
    torch.manual_seed(0)
    for layer in convolutions:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.uniform_(layer.bias, -0.1, 0.1)
    return {f"features.{name}": value for name, value in convolutions.state_dict().items()}


@pytest.fixture(scope="module")
def inception() -> nn.Module:
    """A whole Inception v3 with random weights, as torchvision's users have it."""
    torch.manual_seed(0)
    network = torchvision.models.inception_v3(weights=None, init_weights=False, transform_input=True).eval()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
        elif isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
    return network


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, vgg_state: dict[str, torch.Tensor], inception: nn.Module) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    save_file(vgg_state, folder / "vgg16.safetensors")
    torch.save(vgg_state, folder / "vgg16.pth")
    torch.save(inception.state_dict(), folder / "inception.pth")
    return folder


def pictures(*shape: int) -> torch.Tensor:
    return torch.randint(256, shape, generator=torch.Generator().manual_seed(1), dtype=torch.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_vgg16_as_torchvision_computes_it(files: Path, vgg_state: dict[str, torch.Tensor], channels: int) -> None:
    """Built by torchvision, prepared by torchvision's transforms, at the published size of 48x48."""
    convolutions = nn.Sequential(*torchvision.models.vgg.make_layers(torchvision.models.vgg.cfgs["D"], False)).eval()
    convolutions.load_state_dict({name.removeprefix("features."): value for name, value in vgg_state.items()})
    images = pictures(5, channels, 28, 28)
    prepare = torchvision.transforms.Compose(
        [
            torchvision.transforms.Lambda(lambda image: image.expand(3, -1, -1)),
            torchvision.transforms.ConvertImageDtype(torch.float32),
            torchvision.transforms.Resize((48, 48), antialias=True),
            torchvision.transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    with torch.inference_mode():
        prepared = torch.stack([prepare(image) for image in images])
        pooled = convolutions(prepared).flatten(1)
    found = Vgg16(files / "vgg16.safetensors").encode(images)
    assert found.shape == (5, 512)
    assert found.dtype == torch.float32
    assert found.std(dim=0).max() > 0.01  # the images tell
    torch.testing.assert_close(found, pooled, rtol=1e-3, atol=1e-4)


def test_inception_as_torchvision_computes_it(files: Path, inception: nn.Module) -> None:
    """The features before the last layer of the whole network, which normalises as ImageNet's and undoes it."""
    images = pictures(2, 3, 32, 32)
    caught: list[torch.Tensor] = []
    hook = inception.fc.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[0]))
    pixels = nn.functional.interpolate(images.float() / 255, (299, 299), mode="bilinear", align_corners=False)
    with torch.inference_mode():
        inception(torchvision.transforms.functional.normalize(pixels, list(MEAN), list(STD)))
    hook.remove()
    found = InceptionV3(files / "inception.pth").encode(images, batch_size=1)
    assert found.shape == (2, 2048)
    assert found.dtype == torch.float32
    assert (found[0] - found[1]).abs().max() > 1e-3
    torch.testing.assert_close(found, caught[0], rtol=1e-3, atol=1e-4)


def test_features_do_not_depend_on_the_batch_nor_on_the_kind_of_file(files: Path) -> None:
    images = pictures(7, 1, 28, 28)
    extractor = Vgg16(files / "vgg16.safetensors")
    together = extractor.encode(images)
    torch.testing.assert_close(extractor.encode(images, batch_size=2), together, rtol=1e-4, atol=1e-5)
    assert torch.equal(Vgg16(files / "vgg16.pth").encode(images), together)
    assert extractor.encode(images[:0]).shape == (0, 512)


def test_grey_is_the_same_as_three_equal_channels(files: Path) -> None:
    grey = pictures(3, 1, 28, 28)
    extractor = Vgg16(files / "vgg16.pth")
    assert torch.equal(extractor.encode(grey), extractor.encode(grey.expand(-1, 3, -1, -1)))


# -- where weights come from -----------------------------------------------------------------------------------------


def test_weights_in_torchvisions_cache_are_found(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    cached = tmp_path / "hub" / "checkpoints" / "vgg16-397923af.pth"
    cached.parent.mkdir(parents=True)
    cached.write_bytes((files / "vgg16.pth").read_bytes())
    images = pictures(3, 3, 64, 64)
    assert torch.equal(Vgg16().encode(images), Vgg16(files / "vgg16.pth").encode(images))
    cached.write_bytes(cached.read_bytes()[:1000])
    with pytest.raises(UserError, match=r"vgg16-397923af\.pth cannot be read .*delete that file"):
        Vgg16()


@pytest.mark.parametrize("kind", [Vgg16, InceptionV3])
def test_without_weights_and_network(kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(UserError, match=r"cannot be downloaded \(.*https://download.*--features-weights"):
        kind()


def test_files_that_are_no_weights(files: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        Vgg16(tmp_path / "none.pth")
    with pytest.raises(UserError, match="cannot be read"):
        Vgg16(tmp_path)
    whole = (files / "vgg16.safetensors").read_bytes()
    for content in (b"", b"hello", whole[:5000], (files / "vgg16.pth").read_bytes()[:5000]):
        (tmp_path / "broken").write_bytes(content)
        with pytest.raises(UserError, match="broken cannot be read"):
            Vgg16(tmp_path / "broken")
    torch.save(nn.Linear(2, 2), tmp_path / "network.pth")  # a pickle of code
    with pytest.raises(UserError, match="cannot be read as a state_dict"):
        Vgg16(tmp_path / "network.pth")
    torch.save({"epoch": 3}, tmp_path / "checkpoint.pth")
    with pytest.raises(UserError, match="more than the weights"):
        Vgg16(tmp_path / "checkpoint.pth")


def test_weights_of_another_network(files: Path, tmp_path: Path, vgg_state: dict[str, torch.Tensor]) -> None:
    with pytest.raises(UserError, match=r"not those of inception .*Conv2d_1a_3x3\.conv\.weight"):
        InceptionV3(files / "vgg16.pth")
    save_file({**vgg_state, "features.0.weight": torch.zeros(64, 1, 3, 3)}, tmp_path / "grey")
    with pytest.raises(UserError, match=r"1 are missing or have another shape \(features\.0\.weight\)"):
        Vgg16(tmp_path / "grey")
    save_file({**vgg_state, "classifier.0.bias": torch.full((4,), torch.nan)}, tmp_path / "detection")
    with pytest.raises(UserError, match="not finite"):
        Vgg16(tmp_path / "detection")


# -- by option -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load_data("digits:test")


@pytest.mark.parametrize(("name", "length"), [("vgg16", 512), ("inception", 2048)])
def test_by_name(name: str, length: int, files: Path, digits: ImageSet) -> None:
    extractor = loading.load(name, data=digits, weights=files / f"{name}.pth")
    assert extractor.name == name
    assert extractor.encode(torch.from_numpy(digits.images[:2])).shape == (2, length)


def test_the_domain_encoder_is_trained_once(digits: ImageSet, monkeypatch: pytest.MonkeyPatch) -> None:
    digits = ImageSet(images=digits.images[:300], labels=None, class_names=None, source="here")  # no other test's cells
    monkeypatch.setattr(encoders, "_STEPS_GREY", 10)
    monkeypatch.setattr(encoders, "_STEPS_COLOUR", 10)
    images = torch.from_numpy(digits.images)
    first = loading.load("domain", data=digits)
    assert first.name == "domain"
    assert first.encode(images).shape == (len(digits), 64)
    assert torch.equal(loading.load("domain", data=digits).encode(images), first.encode(images))
    with pytest.raises(UserError, match="takes no weights"):
        loading.load("domain", data=digits, weights="some.pth")


def test_a_name_that_is_not_known(digits: ImageSet) -> None:
    with pytest.raises(UserError, match="domain, inception, vgg16"):
        loading.load("vgg19", data=digits)
