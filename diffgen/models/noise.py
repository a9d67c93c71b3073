"""How much a model's answers move although nothing that matters has changed; docs/decisions/017-always-there.md."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from diffgen.errors import UserError
from diffgen.models.base import BlackBox
from diffgen.models.outputs import to_probabilities
from diffgen.types import Float32Array, Int64Array, UInt8Array

NOTICEABLE = 0.01  # more than rounding, also that of 16 bits, does to a probability
# images that noise is measured on, of each kind: the most, and the fewest of large images
_MOST, _FEWEST = 64, 32
_SMALL = 64 * 64  # pixels up to which there are the most
_ODD_BATCH = 7
_SEED = 0


@dataclass(frozen=True)
class NumericNoise:
    """What the answers of one model move by; probabilities, 0..1.

    Attributes:
        repeat: when the same images are handed over again in the same batches.
        batches: when they are handed over in batches of other sizes.
        alone: the model is asked one image at a time for that reason, so that ``batches`` is past.
        relabelled: how many real images then get another label than in batches.
    """

    repeat: float
    batches: float
    alone: bool = False
    relabelled: int = 0

    @property
    def remaining(self) -> float:
        """What is left of it in the answers that the model gives from now on."""
        return self.repeat if self.alone else max(self.repeat, self.batches)

    @property
    def deterministic(self) -> bool:
        """Whether asking twice gives the same answer, but for rounding."""
        return self.repeat < NOTICEABLE


def probed(image_shape: tuple[int, int, int]) -> int:
    """How many images of each kind noise is measured on: 64, of images (C, H, W) beyond 64x64 pixels fewer, down to 32.

    A model is asked about each of them four times over, at 224 pixels otherwise for as long as about all of a small
    test set.
    """
    _, height, width = image_shape
    return min(_MOST, max(_FEWEST, _MOST * _SMALL // (height * width)))


def probe_rows(probabilities: Float32Array, of_each: int = _MOST) -> Int64Array:
    """Rows of the images that noise is measured on: some at random, and as many that the model is least sure of.

    The first ones of a folder of classes would all show one class, and all could be certain ones, on which softmax
    hides what moves.

    Args:
        probabilities: float32 (N, K), what the model says of all real images.
        of_each: how many of each kind at most, see :func:`probed`.
    """
    best = np.partition(probabilities, -2, axis=1)[:, -2:]
    uncertain = np.argsort(best[:, 1] - best[:, 0], kind="stable")[:of_each]
    count = len(probabilities)
    spread = np.random.default_rng(_SEED).choice(count, size=min(count, of_each), replace=False)
    return np.unique(np.concatenate([spread, uncertain]))


def settle_batches(black_box: BlackBox, images: UInt8Array) -> NumericNoise:
    """Measure the noise; a model whose answers depend on what else is in the batch is asked one image at a time then.

    Such a model, as with onnxruntime's dynamic quantization, whose scales follow the batch, has no answer to an image:
    it has one for each batch that holds the image. Alone in its batch the image has one.

    Args:
        black_box: a prepared model.
        images: as for :func:`numeric_noise`.

    Raises:
        UserError, RunError: as :func:`numeric_noise`; also when it may not be asked about so many images again.
    """
    noise = numeric_noise(black_box, images)
    if noise.batches < NOTICEABLE or not noise.deterministic:
        return noise
    black_box.ask_alone()
    # one at a time, whatever the batch: what moves now, moves from call to call
    again = numeric_noise(black_box, images)
    return replace(noise, repeat=again.remaining, alone=True)


def numeric_noise(black_box: BlackBox, images: UInt8Array) -> NumericNoise:
    """What asking again, and other batch sizes, change in the answers.

    The images are asked about all at once, again all at once, in batches of 7 and one at a time. Of a model that gives
    logits these are compared, since softmax hides all that moves where one logit is far above the others. A change of
    the logits is given as the largest change of a probability that it makes on an image on which the model is least
    sure: when the differences between logits change by up to r, the log-odds of no class change by more, and no
    probability by more than tanh(r / 4).

    Args:
        black_box: a prepared model.
        images: uint8 (N, C, H, W), N >= 1, real ones; see :func:`probe_rows`.

    Raises:
        UserError, RunError: as ``predict`` raises them; also for no images.
    """
    if len(images) == 0:
        raise UserError(f"The numeric noise of model {black_box.name} cannot be measured without images.")
    together = _in_batches(black_box, images, len(images))
    moved = []
    for size in (len(images), _ODD_BATCH, 1):
        occasion = f"numeric noise in batches of {size}" + (", one at a time" if black_box.alone else "")
        with black_box.answers.bypass(occasion):
            moved.append(_moved(black_box, together, _in_batches(black_box, images, size)))
    return NumericNoise(repeat=moved[0], batches=max(moved[1:]))


def _moved(black_box: BlackBox, first: Float32Array, second: Float32Array) -> float:
    """Of raw outputs, float32 (N, columns)."""
    if black_box.preprocessing.outputs != "logits":
        one, other = (to_probabilities(torch.tensor(each), "probabilities") for each in (first, second))
        return float((one - other).abs().max())
    change = second.astype(np.float64) - first
    if change.shape[1] == 1:  # the logit of the second of two classes is a difference already
        change = np.column_stack([np.zeros(len(change)), change])
    return float(np.tanh(np.ptp(change, axis=1).max() / 4))


def _in_batches(black_box: BlackBox, images: UInt8Array, size: int) -> Float32Array:
    return np.concatenate(
        [black_box.raw_outputs(images[start : start + size]) for start in range(0, len(images), size)]
    )
