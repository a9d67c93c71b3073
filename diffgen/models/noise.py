"""How much a model's answers move although nothing that matters has changed; docs/decisions/017-always-there.md."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from diffgen.errors import RunError, ServiceError, UserError
from diffgen.models.base import BlackBox
from diffgen.models.outputs import to_probabilities
from diffgen.models.panel import Member
from diffgen.types import BoolArray, Float32Array, Int64Array, UInt8Array

NOTICEABLE = 0.01  # more than rounding, also that of 16 bits, does to a probability
# images that noise is measured on, of each kind: the most, and the fewest of large images
_MOST, _FEWEST = 64, 32
_SMALL = 64 * 64  # pixels up to which there are the most
_ODD_BATCH = 7
# the largest batch: what a GPU is handed at once, of large images fewer, as all have to be in memory
_LARGEST, _PIXELS = 2_048, 128 * 224 * 224
_PATIENCE = 20.0  # seconds that it may take; an isolated model is ended after 120
_SEED = 0


@dataclass(frozen=True)
class NumericNoise:
    """What the answers of one model move by; probabilities, 0..1.

    Attributes:
        repeat: when the same images are handed over again in the same batches.
        batches: when they are handed over in batches of other sizes.
        alone: the model is asked one image at a time for that reason, so that ``batches`` is past.
        relabelled: how many real images then get another label than in batches.
        flipped, drawn: of so many real images, drawn at random, how many get another label in a batch of another size.
        refused: size of a batch that it failed on, larger than it is asked about; 0 for none.
    """

    repeat: float
    batches: float
    alone: bool = False
    relabelled: int = 0
    flipped: int = 0
    drawn: int = 0
    refused: int = 0

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
    return np.unique(np.concatenate([drawn_rows(len(probabilities), of_each), uncertain]))


def drawn_rows(count: int, of_each: int = _MOST) -> Int64Array:
    """Those of the rows of :func:`probe_rows` that are drawn at random from ``count``."""
    return np.random.default_rng(_SEED).choice(count, size=min(count, of_each), replace=False)


def settle_batches(black_box: BlackBox, images: UInt8Array, drawn: BoolArray | None = None) -> NumericNoise:
    """Measure the noise; a model whose answers depend on what else is in the batch is asked one image at a time then.

    Such a model, as with onnxruntime's dynamic quantization, whose scales follow the batch, has no answer to an image:
    it has one for each batch that holds the image. Alone in its batch the image has one.

    Args:
        black_box: a prepared model.
        images, drawn: as for :func:`numeric_noise`.

    Raises:
        UserError, RunError: as :func:`numeric_noise`; also when it may not be asked about so many images again.
    """
    noise = numeric_noise(black_box, images, drawn)
    if noise.batches < NOTICEABLE or not noise.deterministic:
        return noise
    black_box.ask_alone()
    # one at a time, whatever the batch: what moves now, moves from call to call
    again = numeric_noise(black_box, images, drawn)
    return replace(noise, repeat=again.remaining, alone=True)


def numeric_noise(black_box: BlackBox, images: UInt8Array, drawn: BoolArray | None = None) -> NumericNoise:
    """What asking again, and other batch sizes, change in the answers.

    The images are asked about all at once, again all at once, in batches of 7 and one at a time; then in a batch of
    2,048 (of images beyond 55x55 pixels fewer), each image at many places of it, whatever a device is usually handed at
    once. What such a batch changes counts from :data:`NOTICEABLE` on. Of a model that gives
    logits these are compared, since softmax hides all that moves where one logit is far above the others. A change of
    the logits is given as the largest change of a probability that it makes on an image on which the model is least
    sure: when the differences between logits change by up to r, the log-odds of no class change by more, and no
    probability by more than tanh(r / 4).

    Args:
        black_box: a prepared model.
        images: uint8 (N, C, H, W), N >= 1, real ones; see :func:`probe_rows`.
        drawn: bool (N,), which of them were drawn at random; None: all.

    Raises:
        UserError, RunError: as ``predict`` raises them; also for no images.
    """
    if len(images) == 0:
        raise UserError(f"The numeric noise of model {black_box.name} cannot be measured without images.")
    began = time.monotonic()
    together = _in_batches(black_box, images, len(images))
    pace = (time.monotonic() - began) / len(images)
    moved, flipped = [], np.zeros(len(images), dtype=np.bool_)
    for size in (len(images), _ODD_BATCH, 1):
        occasion = f"numeric noise in batches of {size}" + (", one at a time" if black_box.alone else "")
        with black_box.answers.bypass(occasion):
            answers = _in_batches(black_box, images, size)
        by, others = _changed(black_box, together, answers)
        moved.append(by)
        flipped |= others
    noise = NumericNoise(repeat=moved[0], batches=max(moved[1:]))
    places = _places(black_box, images, pace)
    if places > len(images):
        rows = np.random.default_rng(_SEED).permutation(np.resize(np.arange(len(images)), places))
        large = _at_once(black_box, images[rows])
        if large is None:
            noise = replace(noise, refused=places)
        elif (change := _changed(black_box, together[rows], large))[0] >= NOTICEABLE:
            noise = replace(noise, batches=max(noise.batches, change[0]))
            flipped[rows[change[1]]] = True
    counted = flipped if drawn is None else flipped[drawn]
    return replace(noise, flipped=int(counted.sum()), drawn=len(counted))


def _places(black_box: BlackBox, images: UInt8Array, pace: float) -> int:
    """How large a batch can be tried, of a model that takes ``pace`` seconds for an image; 0: no other than the usual.

    What a server is sent may be paid for, so it is sent no more for this.
    """
    if black_box.alone or black_box.fixed_batch is not None or black_box.url is not None:
        return 0
    height, width = black_box.input_size or images.shape[2:]
    largest = min(_LARGEST, _PIXELS // (height * width), black_box.largest_batch or _LARGEST)
    return min(largest, int(_PATIENCE / pace)) if pace > 0 else largest


def _at_once(black_box: BlackBox, images: UInt8Array) -> Float32Array | None:
    """The raw outputs of all images in one batch; None: the model fails on so many."""
    usual = black_box.batch_size
    black_box.batch_size = len(images)
    try:
        return black_box.raw_outputs(images)
    except ServiceError:
        raise
    except (RunError, UserError):
        if len(images) <= usual:
            raise
        return None  # how many it takes is its own affair, as long as it is not asked about more
    finally:
        black_box.batch_size = usual


def _probabilities(black_box: BlackBox, raw: Float32Array) -> torch.Tensor:
    logits = black_box.preprocessing.outputs == "logits"
    return to_probabilities(torch.tensor(raw), "logits" if logits else "probabilities")


def _labels(black_box: BlackBox, raw: Float32Array) -> Int64Array:
    """int64 (N,): what raw outputs say, in the model's own order of classes."""
    return _probabilities(black_box, raw).argmax(dim=1).numpy()


def _changed(black_box: BlackBox, first: Float32Array, second: Float32Array) -> tuple[float, BoolArray]:
    """By how much raw outputs, float32 (N, columns), have changed, and which of them say something else, bool (N,)."""
    if isinstance(black_box, Member):
        return black_box.panel.apart(first, second)
    return _moved(black_box, first, second), np.not_equal(_labels(black_box, first), _labels(black_box, second))


def _moved(black_box: BlackBox, first: Float32Array, second: Float32Array) -> float:
    """Of raw outputs, float32 (N, columns)."""
    if black_box.preprocessing.outputs != "logits":
        one, other = (_probabilities(black_box, each) for each in (first, second))
        return float((one - other).abs().max())
    change = second.astype(np.float64) - first
    if change.shape[1] == 1:  # the logit of the second of two classes is a difference already
        change = np.column_stack([np.zeros(len(change)), change])
    return float(np.tanh(np.ptp(change, axis=1).max() / 4))


def _in_batches(black_box: BlackBox, images: UInt8Array, size: int) -> Float32Array:
    return np.concatenate(
        [black_box.raw_outputs(images[start : start + size]) for start in range(0, len(images), size)]
    )
