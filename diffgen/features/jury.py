"""The jury: three small classifiers of different kinds, trained on the real images, that say what a picture shows.

A picture is recognised when the entropy of the jury's mean answer is low. Of all cheap scores that were compared with
what people say of generated digits, this one agrees with them best (Dola et al., ICSE 2024, judge validity by such
networks too); how much the members contradict each other says nothing. The members share nothing with the models under
test, nor with any judge of the results.

Beside real images changed a little, the members are shown fragments, of which every label is to be as likely as any
other (outlier exposure, Hendrycks et al. 2019): classifiers that know whole pictures only are sure of fragments too.
Mirrored images join where the members name them as well as the others: most photographs may be mirrored, and digits may
not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import nn

from diffgen.events import Progress
from diffgen.features import variations
from diffgen.features.one_cycle import OneCycleAdam
from diffgen.features.shrinking import shrunk, shrunk_sides
from diffgen.numerics import seeded
from diffgen.runs.artifacts import read_tensors, tensors_digest, unreadable, write_tensors
from diffgen.side_by_side import SideBySide
from diffgen.types import Float32Array, Int64Array

FORMAT = "diffgen-jury-5"
_GREY, _COLOUR = (32, 6e-3), (64, 3e-3)  # images of a batch, and learning rate at the height of its one cycle
_FRAGMENTS = 0.125  # share of what members are shown
_MIRROR_FROM = 0.4  # of the training: whether mirrored images join is decided then
_MIRRORED_AS_WELL = 0.95  # of the images that the members name right, share that they must name right mirrored
_ASKED = 1000  # images that they name for that


class Jury(nn.Module):
    """The members and the labels that they tell apart; it can be asked at once, and learns in :func:`train`.

    Args:
        image_shape: (C, H, W) of the pictures.
        labels: int64 (L,), ascending: the labels that occur among the real images, 2 at least.
    """

    small = True

    def __init__(self, image_shape: tuple[int, int, int], labels: Int64Array) -> None:
        super().__init__()
        self.image_shape = image_shape
        self.labels = labels
        channels, height, width = image_shape
        side = shrunk_sides(height, width)
        self.members = nn.ModuleList(
            [_strided(channels, side, len(labels)), _dense(channels, side, len(labels)), _pooled(channels, len(labels))]
        )
        self.eval()

    def prepared(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N, C, h, w) in [-1, 1] for uint8 (N, C, H, W): no side is longer than 32 pixels."""
        return shrunk(images).to(torch.float32) / 127.5 - 1

    def ready(self) -> Jury:
        """Itself, when it has learned all that it will; with channels last a CPU asks it in two fifths of the time."""
        return self.eval().requires_grad_(False).to(memory_format=torch.channels_last)

    @torch.inference_mode()
    def answers(self, images: torch.Tensor, *, batch_size: int = 512) -> torch.Tensor:
        """What the jury says of uint8 (N, C, H, W): float32 (N, L) on the CPU, the mean of the members' probabilities.

        The answer to an image depends on no other image.
        """
        device = self.device
        parts = [torch.empty(0, len(self.labels))]
        for batch in images.split(batch_size) if len(images) else ():
            values = self.prepared(batch.to(device)).contiguous(memory_format=torch.channels_last)
            parts.append(torch.stack([member(values).softmax(dim=1) for member in self.members]).mean(dim=0).cpu())
        return torch.cat(parts)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @property
    def digest(self) -> str:
        """Of its weights."""
        return tensors_digest(self.state_dict())

    @property
    def in_words(self) -> str:
        """What it is."""
        return f"a jury of {len(self.members)} small classifiers"


def best_names(jury: Names, answers: torch.Tensor) -> Int64Array:
    """int64 (N,): the label that a jury gives, for its float32 (N, L) answers."""
    return np.asarray(jury.labels[answers.argmax(dim=1).numpy()])


def certainty(answers: torch.Tensor) -> Float32Array:
    """Minus the entropy of each answer, in nats.

    Args:
        answers: float32 (N, L), probabilities.

    Returns:
        float32 (N,), from -log L (every label alike) to 0 (one label for sure).
    """
    return np.asarray(torch.special.entr(answers).sum(dim=1).neg().numpy(), dtype=np.float32)


def train(
    images: torch.Tensor,
    labels: torch.Tensor,
    *,
    image_shape: tuple[int, int, int] | None = None,
    shown: int = 45_000,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> Jury:
    """Train a jury on labelled real images, each changed a little (:mod:`diffgen.features.variations`).

    Args:
        images: uint8 (N, C, H, W), or what :func:`diffgen.features.shrinking.shrunk` made of them.
        labels: int64 (N,).
        image_shape: (C, H, W) of the images that it will be asked about; None: as those that are given.
        shown: how many images every member is shown, each of the N as often as any other on average.
        seed: of initial weights, the order of the images and what is done to them.
        device: where to train.

    Raises:
        ValueError: the labels are all alike, so that there is nothing to tell apart.
    """
    present, targets = np.unique(labels.numpy(), return_inverse=True)
    if len(present) < 2:
        raise ValueError("a jury needs images of two labels at least")
    image_shape = (images.shape[1], images.shape[2], images.shape[3]) if image_shape is None else image_shape
    with seeded(seed):
        # with channels last a CPU trains in four fifths of the time
        jury = Jury(image_shape, present).train().to(device).to(memory_format=torch.channels_last)
    size, rate = _GREY if image_shape[0] == 1 else _COLOUR
    steps = max(1, shown // size)
    pupils = [_Pupil(each, rate, steps) for each in jury.members]
    rng = torch.Generator().manual_seed(seed)
    lessons = _lessons(jury, shrunk(images), torch.from_numpy(targets.astype(np.int64)), size, steps, rng)
    progress = progress or Progress()
    with progress.stage("Training the jury", total=steps) as task, SideBySide(torch.device(device), progress) as side:
        lesson = next(lessons)
        for step in range(steps):
            # the last member takes as long as the others and a lesson together
            learned = [side.begin(partial(each.learn, lesson)) for each in reversed(pupils)]
            # the lesson that begins with a question to the members waits until they have learned this one
            early = step + 1 not in (_decided_at(steps), steps)
            coming = next(lessons) if early else None
            for result in reversed(learned):
                result()
            lesson = next(lessons, lesson) if coming is None else coming
            task.advance()
    return jury.ready()


@dataclass(frozen=True, eq=False)
class _Lesson:
    """What the members are shown at a time.

    Attributes:
        values: float32 (N, C, h, w).
        answers: float32 (N, L), what they are to say.
        kept: of each layer of dropout, see there.
    """

    values: torch.Tensor
    answers: torch.Tensor
    kept: dict[_Dropout, torch.Tensor]


class _Pupil:
    """A member and what trains it: members have no weights in common, and can learn at the same time."""

    def __init__(self, member: nn.Module, rate: float, steps: int) -> None:
        self._member = member
        self._cycle = OneCycleAdam(member.parameters(), rate, steps)

    def learn(self, lesson: _Lesson, progress: Progress) -> None:
        """One update; ``progress`` hears nothing of it."""
        for layer in self._member.modules():
            if isinstance(layer, _Dropout):
                layer.kept = lesson.kept[layer]
        self._cycle.update(F.cross_entropy(self._member(lesson.values), lesson.answers))


def _decided_at(steps: int) -> int:
    return int(_MIRROR_FROM * steps)


def _lessons(
    jury: Jury, images: torch.Tensor, wanted: torch.Tensor, size: int, steps: int, rng: torch.Generator
) -> Iterator[_Lesson]:
    """One for each step; all that is drawn at random comes from one generator, whoever learns when."""
    device = next(jury.parameters()).device
    dropouts = [layer for layer in jury.modules() if isinstance(layer, _Dropout)]
    mirror = False
    for step in range(steps):
        if step == _decided_at(steps):
            mirror = _may_be_mirrored(jury, images, wanted, rng)
        rows = torch.randint(len(images), (size,), generator=rng)
        values, answers = _shown(jury.prepared(images[rows]), wanted[rows], len(jury.labels), rng, mirror=mirror)
        values = values.to(device).contiguous(memory_format=torch.channels_last)
        kept = {layer: layer.draw(size, rng).to(device) for layer in dropouts}
        yield _Lesson(values, answers.to(device), kept)


def _shown(
    images: torch.Tensor, wanted: torch.Tensor, labels: int, rng: torch.Generator, *, mirror: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the members are shown, and what they are to answer, float32 (N, L)."""
    if mirror:
        images = torch.where(torch.rand(len(images), 1, 1, 1, generator=rng) < 0.5, images.flip(3), images)
    values, answers = variations.varied(images, rng), F.one_hot(wanted, labels).to(torch.float32)
    whole, some = values.tensor_split([len(values) - round(_FRAGMENTS * len(values))])
    answers[len(whole) :] = 1 / labels
    return torch.cat([whole, variations.fragments(some, rng)]), answers


def _may_be_mirrored(jury: Jury, images: torch.Tensor, wanted: torch.Tensor, rng: torch.Generator) -> bool:
    """Whether the members, which have seen no mirrored image yet, name such images as well as the others."""
    rows = torch.randint(len(images), (_ASKED,), generator=rng)
    jury.eval()
    right, mirrored = (
        jury.answers(shown).argmax(dim=1) == wanted[rows] for shown in (images[rows], images[rows].flip(3))
    )
    jury.train()
    return float(mirrored.float().mean()) >= _MIRRORED_AS_WELL * float(right.float().mean())


def save(jury: Jury, path: Path) -> None:
    """Write weights and labels to a safetensors file."""
    write_tensors(path, jury.state_dict(), {"labels": jury.labels.tolist()})


def load(path: Path, image_shape: tuple[int, int, int], *, device: torch.device | str = "cpu") -> Jury:
    """Read what :func:`save` wrote.

    Raises:
        UserError: the file is missing, truncated, or holds no jury for images of this shape.
    """
    try:
        header, tensors = read_tensors(path)
        with torch.device("meta"):  # no first weights, for which random numbers would be taken from another thread
            jury = Jury(image_shape, np.asarray(header["labels"], dtype=np.int64))
        jury.load_state_dict(tensors, assign=True)
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise unreadable("The jury", path, error) from error
    return jury.to(device).ready()


class _Dropout(nn.Module):
    """Dropout (Srivastava et al. 2014) whose masks are handed to it: torch's draws from the generator of all threads.

    Args:
        length: number of values of a picture.
        share: of the values that are left out in training.

    Attributes:
        kept: bool (N, length), the values of the next pictures to learn from that are not left out.
    """

    def __init__(self, length: int, share: float) -> None:
        super().__init__()
        self.length, self.share = length, share
        self.kept: torch.Tensor | None = None

    def draw(self, count: int, rng: torch.Generator) -> torch.Tensor:
        """bool (count, length): which values are not left out."""
        return torch.rand(count, self.length, generator=rng) >= self.share

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        if not self.training:
            return values
        if self.kept is None:
            raise RuntimeError("a member that learns must be told first which values are left out")
        return values * self.kept / (1 - self.share)


def _strided(channels: int, side: tuple[int, int], labels: int) -> nn.Module:
    """Convolutions that step over the picture: edges and where they lie."""
    height, width = (-(-length // 4) for length in side)
    return nn.Sequential(
        nn.Conv2d(channels, 16, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Flatten(),
        _Dropout(32 * height * width, 0.3),
        nn.Linear(32 * height * width, labels),
    )


def _dense(channels: int, side: tuple[int, int], labels: int) -> nn.Module:
    """Dense layers alone: the whole picture at once."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(channels * side[0] * side[1], 256),
        nn.ReLU(),
        _Dropout(256, 0.3),
        nn.Linear(256, 128),
        nn.ReLU(),
        nn.Linear(128, labels),
    )


def _pooled(channels: int, labels: int) -> nn.Module:
    """Small convolutions with pooling, and at the end the mean over the picture: parts, wherever they lie."""
    return nn.Sequential(
        nn.Conv2d(channels, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4, labels),
    )


NO_LABEL = -1  # in place of a label that nobody knows


class Names(Protocol):
    """Says what pictures show: the jury that diffgen trains, or a classifier of the user's own.

    Attributes:
        labels: int64 (L,), what each of its values stands for.
        device: where it is best asked.
        digest: tells it from any other.
        small: it shrinks pictures before it looks at them, and says next to at once what they show.
    """

    labels: Int64Array
    small: bool

    @property
    def in_words(self) -> str: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def digest(self) -> str: ...

    def answers(self, images: torch.Tensor, *, batch_size: int = 512) -> torch.Tensor:
        """float32 (N, L) on the CPU, probabilities, for uint8 (N, C, H, W)."""
        ...


@dataclass(frozen=True, eq=False)
class Reading:
    """What the jury says of N pictures.

    Attributes:
        named: int64 (N,), the label that it gives.
        certainty: float32 (N,), minus the entropy of its mean answer, in nats; at most 0. Above 0 no jury has said it,
            but a mask that is known.
        recognised: bool (N,): it is sure enough, and contradicts no label that is known.
    """

    named: Int64Array
    certainty: Float32Array
    recognised: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Recogniser:
    """A jury, and how sure it has to be.

    Attributes:
        threshold: lowest certainty that counts where the jury names the label of the real image that a picture was made
            from.
        unaided: lowest certainty that counts for a picture that the jury has to name with no such help; None for the
            same.
    """

    jury: Names
    threshold: float
    unaided: float | None = None

    @property
    def needs_help(self) -> bool:
        """Whether it can be relied on less where it does not know the label of the real image."""
        return self.unaided is not None and self.unaided > self.threshold

    def read(self, images: torch.Tensor, labels: Int64Array | None = None, *, batch_size: int = 512) -> Reading:
        """What pictures show. What is said of one depends on no other.

        Args:
            images: uint8 (N, C, H, W).
            labels: int64 (N,), the label of the real image that each was made from, or ``NO_LABEL``; None for none.
            batch_size: images asked about at once.
        """
        answers = self.jury.answers(images, batch_size=batch_size)
        named, sure = best_names(self.jury, answers), certainty(answers)
        recognised = sure >= np.float32(self.threshold if self.unaided is None else self.unaided)
        if labels is not None:
            helped = (sure >= np.float32(self.threshold)) & (named == labels)
            recognised = np.where(labels == NO_LABEL, recognised, helped)
        return Reading(named, sure, np.asarray(recognised))
