"""diffgen.gan_training.checkpoint"""

from __future__ import annotations

import json
import resource
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from diffgen.config import GanConfig
from diffgen.errors import RunError, UserError
from diffgen.gan_training import checkpoint
from diffgen.gan_training.checkpoint import class_labels
from diffgen.gan_training.networks import to_uint8, to_unit
from diffgen.gan_training.trainer import TrainedGan, train

ABOUT = {"data": "0" * 64, "gan": {"seed": 3, "steps": None}, "source": "Zahlen für alle"}


@pytest.fixture
def stored(trained: TrainedGan, tmp_path: Path) -> Path:
    path = tmp_path / "gan.safetensors"
    checkpoint.save(path, trained, width=8, about=ABOUT)
    return path


def refused(path: Path) -> str:
    """Expects a UserError that names the file and says what to do about it."""
    with pytest.raises(UserError) as caught:
        checkpoint.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "delete it and it is trained anew" in message
    return message


def rewritten(path: Path, header: Any = None, leave_out: str = "") -> Path:
    """The same tensors, without those whose name begins so, under another header."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        header = json.loads(file.metadata()["diffgen"]) if header is None else header
    kept = {name: value for name, value in tensors.items() if not leave_out or not name.startswith(leave_out)}
    save_file(kept, path, metadata={"diffgen": json.dumps(header)})
    return path


def test_round_trip_gives_the_same_images_and_scores(stored: Path, trained: TrainedGan, images: torch.Tensor) -> None:
    found = checkpoint.load(stored)
    latents = torch.randn(64, 16, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        assert torch.equal(to_uint8(found.generator(latents)), to_uint8(trained.generator(latents)))
        assert torch.equal(found.generator(latents), trained.generator(latents))
        unit = to_unit(images[:64])
        assert torch.equal(found.discriminator(unit), trained.discriminator(unit))
    assert torch.equal(found.losses, trained.losses)
    for network in (found.generator, found.discriminator):
        assert not any(module.training for module in network.modules())
        assert not any(parameter.requires_grad for parameter in network.parameters())


def test_the_header_says_what_it_was_told_and_what_it_holds(stored: Path, trained: TrainedGan) -> None:
    assert checkpoint.load(stored).header == {
        **ABOUT,
        "format": "diffgen-dcgan-2",
        "image_shape": [1, 28, 28],
        "latent_dim": 16,
        "prior": "normal",
        "classes": 0,
        "width": 8,
        "steps": 60,
        "kept_step": 60,
        "readings": [],
        "training_images": 6 * 898,
        "bfloat16": trained.bfloat16,
    }


def test_labels_with_gaps_are_kept(tmp_path: Path) -> None:
    noise = torch.randint(256, (20, 1, 28, 28), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    labels = torch.tensor([3, 7]).repeat(10)
    made = train(noise, GanConfig(latent_dim=5, width=4, steps=1, augment=False), labels=labels)
    assert made.generator.classes == 2
    checkpoint.save(tmp_path / "gan", made, width=4, about={})
    found = checkpoint.load(tmp_path / "gan")
    assert class_labels(found.header) == (3, 7)
    unit = to_unit(noise)
    for shown in (None, labels // 4):
        assert torch.equal(found.discriminator(unit, shown), made.discriminator(unit, shown))
    assert class_labels({"classes": 3}) == (0, 1, 2)


def test_torchs_compiler_is_not_imported_to_load_it(stored: Path, repository: Path) -> None:
    """Two seconds of the processor for a user whose GAN is in the cache."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from diffgen.gan_training import checkpoint\n"
        "checkpoint.load(Path(sys.argv[1]))\n"
        "sys.exit('torch._dynamo' in sys.modules or 'sympy' in sys.modules)\n"
    )
    words = [sys.executable, "-c", code, str(stored)]
    done = subprocess.run(words, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_it_is_told_cannot_change_what_it_holds(trained: TrainedGan, tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "gan", trained, width=8, about={"width": 5, "format": "other"})
    assert checkpoint.load(tmp_path / "gan").header["width"] == 8


def test_a_place_that_cannot_be_written_is_a_run_error(trained: TrainedGan, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        checkpoint.save(tmp_path / "missing" / "gan", trained, width=8, about={})
    (tmp_path / "folder").mkdir()
    with pytest.raises(RunError, match="cannot be written"):
        checkpoint.save(tmp_path / "folder", trained, width=8, about={})
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


# -- files that are none ---------------------------------------------------------------------------------------------


def test_missing_and_folder(tmp_path: Path) -> None:
    refused(tmp_path / "none")
    refused(tmp_path)


def test_truncated_at_any_length(stored: Path) -> None:
    whole = stored.read_bytes()
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    lengths = {
        *range(0, 16),
        *np.linspace(16, header + 8, 30, dtype=int),
        *np.linspace(header, len(whole) - 1, 60, dtype=int),
    }
    for length in sorted(lengths):
        stored.write_bytes(whole[:length])
        refused(stored)
    stored.write_bytes(whole + b"\0")
    refused(stored)


def test_damaged_header(stored: Path) -> None:
    """One byte of the header at a time: it loads the same networks, or it is refused; nothing else."""
    whole = stored.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.integers(0, struct.unpack("<Q", whole[:8])[0], 150):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << int(rng.integers(0, 8))
        stored.write_bytes(damaged)
        try:
            checkpoint.load(stored)
        except UserError as error:
            assert str(stored) in str(error)


def test_other_files_of_tensors(stored: Path) -> None:
    save_file({"x": torch.zeros(3)}, stored)
    assert "None" in refused(stored)
    save_file({"x": torch.zeros(3)}, stored, metadata={"diffgen": "{}"})
    refused(stored)
    save_file({"x": torch.zeros(3)}, stored, metadata={"diffgen": "{"})
    refused(stored)


def test_a_later_format_is_refused_by_name(stored: Path) -> None:
    message = refused(rewritten(stored, {**checkpoint.load(stored).header, "format": "diffgen-dcgan-3"}))
    assert "diffgen-dcgan-3" in message
    assert "diffgen-dcgan-2" in message


@pytest.mark.parametrize("header", [[], 5, None, "text", [["format", "diffgen-dcgan-2"]]])
def test_a_header_that_is_no_table(stored: Path, header: Any) -> None:
    whole = stored.read_bytes()
    save_file({"x": torch.zeros(3)}, stored, metadata={"diffgen": json.dumps(header)})
    refused(stored)
    stored.write_bytes(whole)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 16},
        {"width": "8"},
        {"latent_dim": 17},
        {"latent_dim": None},
        {"image_shape": [3, 28, 28]},
        {"image_shape": [1, 32, 32]},
        {"image_shape": [1, 28]},
        {"image_shape": "abc"},
        {"image_shape": None},
        {"width": -1},
    ],
)
def test_a_header_that_does_not_fit_its_weights(stored: Path, changes: dict[str, Any]) -> None:
    refused(rewritten(stored, {**checkpoint.load(stored).header, **changes}))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is counted in other units elsewhere")
def test_a_header_that_speaks_of_huge_networks_takes_no_memory(stored: Path) -> None:
    """Such networks would take 5 GB, the file holds next to nothing."""
    header = {**checkpoint.load(stored).header, "width": 2000}
    rewritten(stored, header, leave_out="generator.")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "do not belong together" in refused(stored)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


@pytest.mark.parametrize("name", ["width", "latent_dim", "image_shape", "format"])
def test_a_header_with_a_gap(stored: Path, name: str) -> None:
    header = checkpoint.load(stored).header
    header.pop(name)
    refused(rewritten(stored, header))


@pytest.mark.parametrize("prefix", ["losses", "generator.", "discriminator.look.0.bias"])
def test_missing_weights(stored: Path, prefix: str) -> None:
    refused(rewritten(stored, leave_out=prefix))
