"""The GAN: its training, its tuning, and a generator of one's own."""

from __future__ import annotations

from typing import Literal

from diffgen.config.images import SEEDS, ReadingConfig, SplitConfig
from diffgen.config.schema import FileName, Maybe, setting, settings


@settings("gan")
class GanConfig:
    """The GAN and its training (paper, sections 3.1 and 3.2). Why these values: docs/decisions/007-the-gan.md.

    For 10,000 images of 28 pixels the schedule "default" takes four minutes on one core that does not compute in
    bfloat16 (benchmarks/results/gan.md), and by the number of their updates "quick" two and "thorough" some twenty;
    see :mod:`diffgen.gan_training.trainer`.
    """

    latent_dim: int = setting(64, "Continuous values in a latent vector of the GAN; 100 in the paper.", ge=1, le=65_536)
    width: int = setting(
        24,
        "Channels of the narrowest feature map; the widest has four times as many, eight times at 64 pixels.",
        ge=1,
        le=4096,
    )
    conditional: bool = setting(
        True, "Train on the labels too, where there are any: every picture then has an intended class."
    )
    schedule: Literal["quick", "default", "thorough"] = setting(
        "default",
        "How long the GAN is trained; for 10,000 images of 28 pixels some 2, 4 (default) or 20 minutes.",
        option="--gan-schedule",
    )
    steps: Maybe[int] = setting(
        None,
        "Updates of the GAN's training (default: by schedule and size).",
        option="--gan-steps",
        metavar="N",
        ge=1,
        le=10**8,
    )
    batch_size: int = setting(64, "Images in one update of the GAN's training.", ge=2, le=65_536)
    learning_rate_generator: float = setting(4e-4, "Adam's step size for the generator.", gt=0, le=10)
    learning_rate_discriminator: float = setting(4e-4, "Adam's step size for the discriminator.", gt=0, le=10)
    ema_decay: float = setting(
        0.998, "Decay of the moving average of the generator's weights, which is what is kept.", ge=0, lt=1
    )
    augment: bool = setting(True, "Add the paper's five transformations of every image to the training set.")
    transformed: float = setting(
        0.5, "Share of the images of a batch that are transformed ones; 5 / 6 in the paper.", ge=0, le=1
    )
    bfloat16: Maybe[bool] = setting(None, "Compute layers in bfloat16 (default: where the hardware does that fast).")
    monitor_checks: int = setting(
        12, "How often the collapse guard measures the generator during training, at most; 0 for never.", ge=0, le=1000
    )
    seed: int = setting(
        0,
        "Seed of the GAN's training.",
        option="--gan-seed",
        metavar="N",
        ge=0,
        le=SEEDS,
    )


PixelRange = Literal["-1..1", "0..1", "0..255"]


@settings("generator")
class GeneratorConfig:
    """A generator of the user's own, in place of the GAN that is trained otherwise."""

    file: FileName = setting(
        None,
        "TorchScript, torch.export or ONNX file: latent vectors (N, D) or (N, D, 1, 1) to images like the data's.",
        option="--generator",
        metavar="FILE",
    )
    latent_dim: Maybe[int] = setting(
        None,
        "Length of the latent vector of a generator of your own.",
        option="--latent-dim",
        metavar="D",
        ge=1,
        le=65_536,
    )
    prior: Literal["normal", "uniform"] = setting(
        "normal",
        "Distribution of the latent vectors that the generator was trained with: N(0, 1), or U(-1, 1).",
        option="--prior",
    )
    pixels: Literal["auto", "-1..1", "0..1", "0..255"] = setting(
        "auto",
        "Range of the images that it gives; auto: found out by drawing some.",
        option="--generator-pixels",
    )
    discriminator: FileName = setting(
        None,
        "File like the generator's that maps images to one score each, higher for more real (default: no discriminator "
        "filter).",
        option="--discriminator",
        metavar="FILE",
    )
    encoder: FileName = setting(
        None,
        "File like the generator's that maps images to latent vectors, for techniques that begin with real images.",
        option="--generator-encoder",
        metavar="FILE",
    )


@settings("tuning")
class TuningConfig:
    """How the settings of a GAN are searched for: one trial trains one GAN (:mod:`diffgen.gan_training.tuning`)."""

    trials: int = setting(
        0,
        "Search for the GAN's settings until the study has so many finished trials, those of other processes included; "
        "0: no tuning.",
        option="--tune",
        metavar="N",
        ge=0,
        le=10**6,
    )
    seconds: Maybe[float] = setting(
        None,
        "Seconds after which no trial begins, and one that runs ends at its next reading (default: no limit).",
        option="--tune-seconds",
        metavar="S",
        gt=0,
        le=10**9,
    )
    storage: str | None = setting(
        None,
        "Where the study is kept: a file, or a database's URL as Optuna takes it (default: beside the GAN).",
    )


@settings()
class TrainGanConfig(ReadingConfig):
    """Everything that the training of a GAN needs besides the data. Published scores are those of "inception"."""

    split: SplitConfig = setting(factory=SplitConfig)
    gan: GanConfig = setting(factory=GanConfig)
    tuning: TuningConfig = setting(factory=TuningConfig)
    device: str = setting("auto", "Where networks compute: auto (a GPU when there is one), cpu, cuda or mps.")
    draws: int = setting(10, "How often the finished GAN is scored.", ge=1, le=10**7)
    images: int = setting(
        10_000, "Generated images in one score, at most as many as there are real ones.", ge=6, le=10**7
    )
    features: Literal["domain", "inception", "vgg16"] = setting(
        "domain",
        "What the scores of the finished GAN compare images by; domain is an encoder of the data set itself.",
    )
    features_weights: FileName = setting(None, "File with the weights of inception or vgg16 (default: torchvision's).")
