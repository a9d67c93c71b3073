"""A trained GAN on disk: one safetensors file with a JSON header. Opening one runs no code."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from diffgen.errors import UserError
from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator, normalised_weights
from diffgen.gan_training.trainer import TrainedGan
from diffgen.runs.artifacts import read_tensors, unreadable, write_tensors
from diffgen.runs.opening import check_regular


def read_header(path: Path) -> dict[str, Any]:
    """The header of a checkpoint. UserError if the file cannot be read."""
    return _read(path, weights=False)[0]


def add_to_header(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Write JSON values into the header of a checkpoint, whose weights stay as they are; returns the new header.

    Raises:
        UserError: the file cannot be read.
        RunError: it cannot be written.
    """
    header, tensors = _read(path, weights=True)
    header |= values
    write_tensors(path, tensors, header)
    # as it will be read: JSON knows no tuples, and no keys but texts
    changed: dict[str, Any] = json.loads(json.dumps(header))
    return changed


def class_labels(header: dict[str, Any]) -> tuple[int, ...]:
    """The label that each class of a conditional GAN stands for: 0, 1, 2, ... unless the data's labels have gaps."""
    return tuple(int(label) for label in header.get("class_labels", range(header["classes"])))


def _read(path: Path, *, weights: bool) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    try:
        check_regular(path)
        header, tensors = read_tensors(path, weights=weights)
    except (OSError, ValueError) as error:
        raise unreadable("The GAN checkpoint", path, error, "train it anew") from error
    if not header:
        raise unreadable("The GAN checkpoint", path, "it has no header", "train it anew")
    return header, tensors


FORMAT = "diffgen-dcgan-2"


@dataclass(frozen=True)
class GanCheckpoint:
    """A GAN as read from disk, both networks in eval mode; ``header`` says what it was made from.

    The discriminator has plain layers: it is there to score, not to be trained on.
    """

    generator: DcganGenerator
    discriminator: DcganDiscriminator
    losses: torch.Tensor
    header: dict[str, Any]


def save(path: Path, trained: TrainedGan, *, width: int, about: dict[str, Any]) -> None:
    """Write a trained GAN; the file appears whole or not at all.

    Args:
        width: their width, as in :class:`diffgen.config.GanConfig`.
        about: what else the header shall say (data digest, settings, versions); JSON values.
    """
    header = {
        **about,
        "format": FORMAT,
        "image_shape": list(trained.generator.image_shape),
        "latent_dim": trained.generator.latent_dim,
        "prior": "normal",
        "classes": trained.generator.classes,
        "width": width,
        "steps": trained.steps,
        "kept_step": trained.kept_step,
        "readings": [measurement.as_dict() for measurement in trained.readings],
        "training_images": trained.training_images,
        "bfloat16": trained.bfloat16,
    }
    if trained.class_labels != tuple(range(trained.generator.classes)):
        header["class_labels"] = list(trained.class_labels)
    tensors = {"losses": trained.losses}
    for role, network in (("generator", trained.generator), ("discriminator", trained.discriminator)):
        for name, value in network.state_dict().items():
            tensors[f"{role}.{name}"] = value
    write_tensors(path, tensors, header)


def load(path: Path, *, device: torch.device | str = "cpu") -> GanCheckpoint:
    """Read what :func:`save` wrote. UserError if the file is missing, truncated, or not such a checkpoint."""
    try:
        header, tensors = read_tensors(path)
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    if header.get("format") != FORMAT:
        raise UserError(
            f"The file {path} is not a GAN checkpoint of this version (format {header.get('format')!r}, "
            f"wanted {FORMAT!r}); delete it and it is trained anew."
        )
    try:
        channels, height, across = header["image_shape"]
        shape = (channels, height, across)
        width, classes = header["width"], header["classes"]
        # without memory for weights: a header may speak of larger ones than the file holds
        with torch.device("meta"):
            generator = DcganGenerator(shape, latent_dim=header["latent_dim"], width=width, classes=classes)
            # plain layers: on "meta" the power iterations of spectral_norm import torch's compiler
            discriminator = DcganDiscriminator(shape, width=width, classes=classes, normalised=False)
        generator.load_state_dict(_state(tensors, "generator"), assign=True)
        discriminator.load_state_dict(normalised_weights(_state(tensors, "discriminator")), assign=True)
        losses = tensors["losses"]
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise _unreadable(path, "its header and its weights do not belong together") from error
    for network in (generator, discriminator):
        network.eval().requires_grad_(False).to(device, torch.float32)
    return GanCheckpoint(generator=generator, discriminator=discriminator, losses=losses, header=header)


def _state(tensors: dict[str, torch.Tensor], role: str) -> dict[str, torch.Tensor]:
    """The weights of one role, in memory of their own: where in a page weights lie changes the last digits of sums."""
    prefix = f"{role}."
    return {name.removeprefix(prefix): value.clone() for name, value in tensors.items() if name.startswith(prefix)}


def _unreadable(path: Path, reason: object) -> UserError:
    return unreadable("The GAN checkpoint", path, reason, "delete it and it is trained anew")
