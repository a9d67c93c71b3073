"""The GAN: its training, its tuning, and a generator of one's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from diffgen.errors import UserError


@dataclass(frozen=True)
class GanConfig:
    """The GAN and its training (paper, sections 3.1 and 3.2). Why these values: docs/decisions/007-the-gan.md.

    Attributes:
        latent_dim: continuous values in a latent vector; 100 in the paper.
        width: channels of the widest feature map are 4 * width (8 * width at 64 pixels), of the narrowest ``width``.
        conditional: train on the labels too, where there are any: every picture then has an intended class.
        schedule: how long to train: for 10,000 images of 28 pixels "quick" takes one or two minutes, "default" five,
            "thorough" fifteen on one core that computes in bfloat16 (benchmarks/results/gan.md); see
            :mod:`diffgen.gan_training.schedule`.
        steps: updates of the generator, or None: as the schedule says.
        batch_size: images in one update.
        learning_rate_generator, learning_rate_discriminator: Adam's step sizes.
        beta1, beta2: Adam's moments.
        ema_decay: decay of the moving average of the generator's weights, which is what is kept.
        augment: add the paper's five transformations of every image to the training set.
        transformed: share of the images of a batch that are transformed ones; 5 / 6 in the paper.
        bfloat16: compute layers in bfloat16, or None: where the hardware does that fast.
        readings: how often the collapse guard measures the generator during training; 0 for never.
        holdout: share of the real images that is kept from training, for the collapse guard and the calibration of the
            filters.
        seed: seed of initial weights, order of images, latent vectors and the choice of the held-out images.
    """

    latent_dim: int = 64
    width: int = 32
    conditional: bool = True
    schedule: Literal["quick", "default", "thorough"] = "default"
    steps: int | None = None
    batch_size: int = 64
    learning_rate_generator: float = 4e-4
    learning_rate_discriminator: float = 4e-4
    beta1: float = 0.0
    beta2: float = 0.9
    ema_decay: float = 0.998
    augment: bool = True
    transformed: float = 0.5
    bfloat16: bool | None = None
    readings: int = 12
    holdout: float = 0.1
    seed: int = 0


PixelRange = Literal["-1..1", "0..1", "0..255"]


@dataclass(frozen=True)
class GeneratorConfig:
    """A generator of the user's own, in place of the GAN that is trained otherwise.

    Attributes:
        file: a TorchScript, torch.export or ONNX file that maps latent vectors (N, latent_dim), or
            (N, latent_dim, 1, 1), to images of the data's shape, or None: the GAN.
        latent_dim: length of its latent vector.
        prior: distribution of the latent vector in its training: "normal" is N(0, 1), "uniform" is U(-1, 1).
        pixels: range of the images that it gives; "auto": found out by drawing some.
        discriminator: such a file that maps images of the same range to one score each, higher for more real, for the
            filter; or None: there is no discriminator filter.

    Raises:
        UserError: a value of another kind than these.
    """

    file: str | None = None
    latent_dim: int | None = None
    prior: Literal["normal", "uniform"] = "normal"
    pixels: Literal["auto", "-1..1", "0..1", "0..255"] = "auto"
    discriminator: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("prior", ("normal", "uniform")), ("pixels", ("auto", "-1..1", "0..1", "0..255"))):
            if getattr(self, name) not in allowed:
                raise UserError(f"The generator has {name} {getattr(self, name)!r}; give {', '.join(allowed)}.")


@dataclass(frozen=True)
class TuningConfig:
    """How the settings of a GAN are searched for: one trial trains one GAN (:mod:`diffgen.gan_training.tuning`).

    The first trial is the GAN as it is configured; its own values belong to the space even where they lie outside of
    these.

    Attributes:
        trials: finished trials that the study shall have, those of other processes included; 0 for no tuning.
        storage: where the study is kept: a file, or a database's URL as Optuna takes it; None: beside the GAN.
        learning_rates: least and largest of both rates, searched on a logarithmic scale.
        batch_sizes, widths, latent_dims: what may be chosen.
        shortest: least share of the schedule's updates; the longest is all of them.
        averaging: least and largest of 1 - ``ema_decay``, on a logarithmic scale.
        transformed: least and largest share of transformed images in a batch.
        startup: trials drawn at random before the sampler learns from them, and before any is pruned.
        warmup: readings that a trial gets before it may be pruned.
        draws, images: how often and with how many generated images a trial's GAN is scored.
    """

    trials: int = 0
    storage: str | None = None
    learning_rates: tuple[float, float] = (5e-5, 2e-3)
    batch_sizes: tuple[int, ...] = (32, 64, 128)
    widths: tuple[int, ...] = (16, 32, 48)
    latent_dims: tuple[int, ...] = (32, 64, 100)
    shortest: float = 0.5
    averaging: tuple[float, float] = (5e-4, 1e-2)
    transformed: tuple[float, float] = (0.0, 0.8)
    startup: int = 4
    warmup: int = 2
    draws: int = 2
    images: int = 5_000


@dataclass(frozen=True)
class TrainGanConfig:
    """Everything that the training of a GAN needs besides the data.

    Attributes:
        gan: the GAN.
        tuning: whether and how its settings are searched for.
        device: "auto" takes a GPU when there is one.
        resize: side of the square that real images are brought to on reading, or None: they keep their size.
        draws, images: how often and with how many generated images, at most as many as there are real ones, the
            finished GAN is scored; as published.
        features: what the images are compared by in the scores of the finished GAN; "domain" is the data set's own
            encoder, which tuning and the collapse guard use in any case. Published scores are those of "inception".
        features_weights: file with the weights of "inception" or "vgg16", or None: torchvision's.
    """

    gan: GanConfig = field(default_factory=GanConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    device: str = "auto"
    resize: int | None = None
    draws: int = 10
    images: int = 10_000
    features: Literal["domain", "inception", "vgg16"] = "domain"
    features_weights: str | None = None
