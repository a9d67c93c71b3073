"""What is trained for a source once for a data set, and kept in the cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from diffgen.config import CompareConfig
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.parts import Needs
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from diffgen.sampling import random_rows
from diffgen.sources.base import Family, FamilyContext
from diffgen.sources.learned.training import Lesson, Plan, train
from diffgen.wording import percent

KIND = "sources"  # folder of the cache
_USEFUL = 0.5  # share of the real images' variance that is drawn again, at least
_LEAST = 1e-9  # error or variance; images that are all alike have none
_LARGEST = 64  # pixels a side
_LOOKED_AT = 2_000  # real images whose variance is measured
_EPOCHS, _FEWEST = 150, 600  # of a small data set: more would be learning by heart; fewer steps are no training


@dataclass(frozen=True)
class Recipe:
    """What is trained, and of what it is made.

    Attributes:
        format: of the networks; another one is another file.
        settings: all that decides about the weights; JSON values.
        mend: what to do where it is of little use.
    """

    format: str
    settings: dict[str, Any]
    plan: Plan
    mend: str = "Give it more images, or more updates under [source.*] steps."


@dataclass(frozen=True)
class Kept:
    """What was found or trained.

    Attributes:
        header: what was written with it: "steps", "error", "explained".
        tensors: what was written besides the networks.
    """

    path: Path
    header: dict[str, Any]
    tensors: dict[str, torch.Tensor]

    @property
    def decibels(self) -> float:
        """How near held-out images come to themselves when they are drawn again."""
        return float(10 * np.log10(4 / max(self.header["error"], _LEAST)))  # pixels go from -1 to 1

    def facts(self, split: DataSplit) -> dict[str, str]:
        """What a report says, name -> text."""
        return {
            "trained on": f"{len(split.rows[0]):,} real images",
            "updates": f"{self.header['steps']:,}",
            "drawn again": f"held-out images, within {self.decibels:.1f} dB of themselves",
            "held out": f"{len(split.rows[1]):,} real images",
            "checkpoint": self.path.name,
        }


def planned(what: str, split: DataSplit, steps: int | None, batch: int, most: int, *, ends_early: bool = True) -> Plan:
    """How long something is trained.

    Args:
        what: see :class:`Plan`.
        steps: updates, or None: as many as a large set takes (``most``), and no more than 150 times all images.
        most: see ``steps``.
        ends_early: whether training that stands still ends, where nobody set its updates.
    """
    if steps is not None:
        return Plan(what, steps, batch, 0, ends_early=False)
    return Plan(what, min(most, max(_FEWEST, _EPOCHS * len(split.rows[0]) // batch)), batch, 0, ends_early)


class LearnedFamily(Family):
    """A family that is trained on the data once, then found in the cache."""

    def gives(self, config: CompareConfig) -> Needs:
        return super().gives(config) | {"encoder"}

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        channels, height, width = image_shape
        wrong = f"The images are {channels}x{height}x{width}, but the source {self.name}"
        if channels not in (1, 3):
            raise UserError(f"{wrong} can draw images with 1 or 3 channels only; give grey or RGB images.")
        if not min(height, width) >= 8 or max(height, width) > _LARGEST:
            near = 32 if max(height, width) < _LARGEST else _LARGEST
            raise UserError(
                f"{wrong} can draw 8 to {_LARGEST} pixels a side only; add --resize {near} (in Python resize={near}) "
                "to have them resized on reading."
            )


def obtain(
    recipe: Recipe,
    split: DataSplit,
    context: FamilyContext,
    networks: dict[str, nn.Module],
    lesson: Callable[[], Lesson],
    finish: Callable[[], dict[str, torch.Tensor]],
) -> Kept:
    """Give networks the weights that are in the cache, or train them now.

    Args:
        networks: what is kept, by name, on the context's device, fresh.
        finish: what is kept besides, measured on the trained networks.

    Raises:
        RunError: the training diverged.
        Stopped: the work was stopped.
    """
    device, progress, what = context.device, context.progress, recipe.plan.what

    def load(file: Path) -> Kept:
        found = _read(file, recipe, networks, device)
        progress.say(f"{_capital(what)} for this data set is in the cache ({file.name}); nothing to train.")
        return found

    def make(file: Path) -> Kept:
        progress.say(f"Training {what} on {len(split.rows[0]):,} images (kept for the next run).")
        own = lesson()
        training = train(
            own,
            split.reference,
            split.held_out,
            recipe.plan,
            device=device,
            state=file.with_suffix(".unfinished"),
            progress=progress,
        )
        error = training.readings[-1].error
        header = {
            **_made_from(recipe, split, device),
            "steps": training.step,
            "readings": [asdict(each) for each in training.readings],
            "error": error,
            "explained": 1 - error / _variance(split.reference),
            "torch": torch.__version__,
            "source": split.data.source,
        }
        tensors = finish()
        for role, network in networks.items():
            tensors |= {f"{role}.{name}": value for name, value in network.state_dict().items()}
        write_tensors(file, tensors, header)
        return _read(file, recipe, networks, device)

    kept = Artifact(KIND, _made_from(recipe, split, device)).obtain(load, make, progress)
    if kept.header["explained"] < _USEFUL:
        progress.warn(
            f"{_capital(what)} is of little use: it draws {percent(max(0.0, kept.header['explained']), 0)} again of "
            f"what tells real images apart. {recipe.mend}"
        )
    return kept


def _made_from(recipe: Recipe, split: DataSplit, device: torch.device) -> dict[str, Any]:
    return {
        "data": split.data.digest,
        "held out": split.key,
        "device": device.type,
        "format": recipe.format,
        "settings": recipe.settings,
        "plan": asdict(recipe.plan),
    }


def _read(file: Path, recipe: Recipe, networks: dict[str, nn.Module], device: torch.device) -> Kept:
    """Read a file into the networks. UserError if it cannot be read."""
    what = _capital(recipe.plan.what)
    try:
        header, tensors = read_tensors(file)
        if header.get("format") != recipe.format:
            raise ValueError(f"its format is {header.get('format')!r}")
        for role, network in networks.items():
            names = [name for name in tensors if name.startswith(f"{role}.")]
            network.load_state_dict({name.removeprefix(f"{role}."): tensors.pop(name) for name in names})
            network.eval().requires_grad_(False).to(device)
        known = {name: float(header[name]) for name in ("steps", "error", "explained")}
    except (OSError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise unreadable(what, file, error) from error
    return Kept(file, {**header, **known, "steps": int(known["steps"])}, tensors)


def _variance(images: torch.Tensor) -> float:
    """Mean square of the difference in [-1, 1] between images uint8 (N, C, H, W) and their mean."""
    some = images[random_rows(len(images), _LOOKED_AT)].to(torch.float32) / 127.5
    return max(float((some - some.mean(dim=0)).square().mean()), _LEAST)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
