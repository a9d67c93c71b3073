"""The family ``gan``: the GAN of a data set, trained once, then found in the cache; a source of images and a scorer."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from diffgen.config import CompareConfig, GanConfig, SplitConfig
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import Progress
from diffgen.features.base import FeatureExtractor
from diffgen.gan_training import checkpoint
from diffgen.gan_training.checkpoint import class_labels, read_header
from diffgen.gan_training.monitor import GanMonitor, Measurement, collapse, draws_one_picture
from diffgen.gan_training.networks import (
    DcganDiscriminator,
    DcganGenerator,
    check_count,
    check_image_shape,
    check_resize,
    folded,
    to_uint8,
    to_unit,
)
from diffgen.gan_training.trainer import TrainedGan, train
from diffgen.models.loading import file_digest
from diffgen.numerics import seeded
from diffgen.origins import Origins
from diffgen.parts import Needs
from diffgen.runs.artifacts import Artifact
from diffgen.sources import gan as gan_loader
from diffgen.sources.base import Family, FamilyContext, ImageSource, Source
from diffgen.sources.learned.inversion import Inversion, InversionLesson, descended, inverted
from diffgen.sources.learned.kept import Recipe, obtain, planned
from diffgen.sources.space import latent_space, random_genes
from diffgen.types import ImageSet, Scorer
from diffgen.wording import percent

_ON_CPU = 32  # pictures drawn at once
_ENCODING_STEPS, _ENCODING_RATE = 30, 0.1
_TRIED = 64  # random pictures of each class that descent may begin with


class GanSource:
    """Generator half; see :class:`diffgen.sources.base.Source`.

    Args:
        network: latent vector -> image; moved to ``device`` and put into eval mode.
        device: where it computes.
        class_labels: the label that each class of a conditional one stands for; empty: its own number.

    Attributes:
        network: in eval mode.
        encoder: finds genes of images, or None: descent does it from random ones.
    """

    encoder: Inversion | None = None

    def __init__(self, network: DcganGenerator, *, device: torch.device, class_labels: tuple[int, ...] = ()) -> None:
        self.network = network.to(device).eval()
        self._drawing = folded(self.network)
        self._device = device
        self._class_labels = class_labels
        self.space = latent_space(network.latent_dim, "normal", network.classes, class_labels)
        self.image_shape = network.image_shape

    @torch.inference_mode()
    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, latent_dim), or (N, latent_dim + 1) when conditional."""
        values = genes.to(self._device, torch.float32)
        # on a CPU larger feature maps leave the cache (docs/decisions/009)
        size = _ON_CPU if self._device.type == "cpu" else max(1, len(values))
        return torch.cat([to_uint8(self._drawing(part)) for part in values.split(size)])

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Genes whose pictures come near to images: descent on the squared difference (Zhu et al. 2016, section 4).

        It begins with what the encoder finds, or without one with the nearest of some random pictures.

        Args:
            images: uint8 (N, C, H, W).
            labels: int64 (N,), the class that a conditional generator is asked for; None, or a label that none of its
                classes stands for: that of the encoder, or of the nearest random picture.

        Returns:
            float32 (N, space.length) on the CPU.
        """
        if len(images) == 0:
            return torch.empty(0, self.space.length)
        wanted = to_unit(images.to(self._device))
        classes = None if labels is None or not self.network.classes else self._classes_of(labels)
        if self.encoder is not None:
            return inverted(self.encoder, self.network, wanted, classes)
        genes = self._nearest_random(wanted, classes)
        return descended(self.network, genes, wanted, steps=_ENCODING_STEPS, rate=_ENCODING_RATE).cpu()

    def _classes_of(self, labels: torch.Tensor) -> torch.Tensor:
        """int64 (N,): the class that stands for each label, or -1: none does."""
        stands_for = torch.tensor(self._class_labels or tuple(range(self.network.classes)))
        same = labels.cpu()[:, None] == stands_for
        return torch.where(same.any(dim=1), same.int().argmax(dim=1), -1)

    @torch.no_grad()
    def _nearest_random(self, wanted: torch.Tensor, classes: torch.Tensor | None) -> torch.Tensor:
        """For each image float32 (N, C, H, W) the random genes whose picture is nearest, float32 (N, space.length)."""
        rng = torch.Generator().manual_seed(0)
        own = max(1, self.network.classes)
        genes = random_genes(self.space, _TRIED * own, rng).to(self._device)
        if self.network.classes:
            genes[:, -1] = torch.arange(own, device=self._device).repeat_interleave(_TRIED)
        far = torch.cdist(wanted.flatten(1), self.network(genes).flatten(1))
        if classes is not None:
            asked = classes.to(self._device)[:, None]
            far = far.masked_fill((asked >= 0) & (asked != genes[:, -1].long()), torch.inf)
        return genes[far.argmin(dim=1)].clone()

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """None: no real image goes into it."""
        return None


class DiscriminatorScorer:
    """Discriminator half; see :class:`diffgen.types.Scorer`. Scores are the raw hinge scores.

    That of a conditional discriminator is its score for the class that suits the image best.
    """

    def __init__(self, network: DcganDiscriminator, *, device: torch.device) -> None:
        self._network = network.to(device).eval()
        self._device = device

    @torch.inference_mode()
    def score(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N,) for uint8 (N, C, H, W)."""
        scores: torch.Tensor = self._network(to_unit(images.to(self._device)))
        return scores


def load(path: Path, *, device: torch.device) -> tuple[Source, Scorer | None, checkpoint.GanCheckpoint]:
    """A source and, when the file has one, a scorer; the search and the filters know no more of a GAN than this.

    Raises:
        UserError: the checkpoint cannot be read.
    """
    stored = checkpoint.load(path, device=device)
    return (
        GanSource(stored.generator, device=device, class_labels=class_labels(stored.header)),
        DiscriminatorScorer(stored.discriminator, device=device),
        stored,
    )


_FORMAT = "diffgen-gan-encoder-1"
_BATCH, _STEPS = 64, 1_000  # of the encoder's training
_MEND = "Search from encoded images with --source vae or vq, which draw them again as they are."


class GanFamily(Family):
    """A GAN that is trained on the data once, or one that was trained before and is named by ``gan_file``."""

    name = "gan"

    def gives(self, config: CompareConfig) -> Needs:
        return super().gives(config) | {"encoder", "discriminator"}

    def check(self, config: CompareConfig) -> None:
        super().check(config)
        check_resize(config.resize)

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        check_image_shape(image_shape)

    def check_count(self, config: CompareConfig, images: int) -> None:
        if config.gan_file is None:
            check_count(images)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        if config.gan_file is None:
            made = prepare_gan(split, config.gan, context)
        else:
            path = Path(config.gan_file)
            found = gan_loader.load(path, device=context.device)
            context.progress.say(f"Pictures come from the GAN {path.name}; nothing to train.")
            made = _image_source(path, found, split, context.progress)
        return prepare_encoder(made, split, context) if context.encoding else made


def prepare_encoder(made: ImageSource, split: DataSplit, context: FamilyContext) -> ImageSource:
    """The same with an encoder for the generator, from the cache or newly trained.

    Raises:
        RunError: the training diverged.
        Stopped: the work was stopped.
    """
    source = made.source
    assert isinstance(source, gan_loader.GanSource) and made.artifact is not None
    generator = source.network
    with seeded(0):
        encoder = Inversion(source.image_shape, latent_dim=generator.latent_dim, classes=generator.classes)
    encoder.to(context.device)
    plan = planned("the GAN's encoder", split, None, _BATCH, _STEPS)
    recipe = Recipe(_FORMAT, {"gan": file_digest(made.artifact)}, plan, _MEND)
    lesson = partial(InversionLesson, encoder, generator, device=context.device)
    kept = obtain(recipe, split, context, {"encoder": encoder}, lesson, dict)
    source.encoder = encoder
    found = f"trained for {kept.header['steps']:,} updates; draws held-out images again within {kept.decibels:.1f} dB"
    return replace(made, facts={**made.facts, "encoder": f"{found}, before its descent"})


_Loaded = tuple[Source, Scorer | None, checkpoint.GanCheckpoint]


def prepare_gan(split: DataSplit, config: GanConfig, context: FamilyContext) -> ImageSource:
    """The GAN of a data set, from the cache or newly trained.

    Raises:
        UserError: no network fits the image size, or the GAN collapsed to a single picture.
        RunError: the training diverged.
    """
    check_image_shape(split.data.image_shape)
    progress = context.progress

    def load(file: Path) -> _Loaded:
        found = gan_loader.load(file, device=context.device)
        progress.say(f"The GAN for this data set is in the cache ({file.name}); nothing to train.")
        return found

    def make(file: Path) -> _Loaded:
        count = len(split.rows[0])
        progress.say(f"Training a GAN on {count:,} images and their transformations (kept for the next run).")
        train_and_save(split, config, context, file)
        return gan_loader.load(file, device=context.device)

    artifact = gan_artifact(split, config, context.device)
    found = artifact.obtain(load, make, progress)
    check_draws(found[2].header)
    return _image_source(artifact.path, found, split, progress)


def _image_source(path: Path, found: _Loaded, split: DataSplit, progress: Progress) -> ImageSource:
    source, scorer, stored = found
    if wrong := stored.header["wrong"]:
        progress.warn(complaint(wrong))
    facts = gan_facts(stored.header, real=len(split.rows[0]), held_out=len(split.rows[1]))
    return ImageSource(source, scorer, path, {**facts, "checkpoint": path.name})


def split_of_gan(file: str | Path, data: ImageSet, config: SplitConfig, progress: Progress) -> SplitConfig:
    """The split that a GAN's file was trained with, so that no held-out image trained it.

    Raises:
        UserError: the file is no such checkpoint, its images have another shape than the data's, or it is of a GAN that
            collapsed to a single picture.
    """
    path = Path(file)
    if not path.is_file():
        raise UserError(f"There is no GAN {path}; make one with 'diffgen train-gan DATA --output {path.name}'.")
    header = read_header(path)
    made, wanted = header.get("image_shape"), list(data.image_shape)
    if made != wanted:
        raise UserError(f"The GAN {path} draws images of {made}, but the data are {wanted}; give the one of this data.")
    check_draws(header)
    if header.get("data") != data.digest:
        progress.warn(
            f"The GAN {path.name} was trained on other images than {data.source}; some of those that the filters are "
            "calibrated on may have trained it."
        )
        return config
    try:
        return split_in_header(header)
    except (KeyError, TypeError, ValueError, UserError) as error:
        raise UserError(f"The GAN {path} does not say which images it was trained on; train it anew.") from error


def split_in_header(header: dict[str, Any]) -> SplitConfig:
    """The split that a GAN was trained with.

    Raises:
        KeyError, TypeError, ValueError, UserError: the header does not say it.
    """
    return SplitConfig(**header["split"])


def gan_artifact(split: DataSplit, config: GanConfig, device: torch.device) -> Artifact:
    """A data set's GAN in the cache."""
    return Artifact("gan", made_from(split, config, device))


def made_from(split: DataSplit, config: GanConfig, device: torch.device) -> dict[str, Any]:
    """What decides about a GAN's weights; its place in the cache follows from it."""
    return {
        "data": split.data.digest,
        "split": asdict(split.config),
        "gan": asdict(config),
        "format": checkpoint.FORMAT,
        "device": device.type,
    }


def train_and_save(
    split: DataSplit,
    config: GanConfig,
    context: FamilyContext,
    path: Path,
    *,
    monitor: GanMonitor | None = None,
    after_measurement: Callable[[Measurement], None] | None = None,
) -> TrainedGan:
    """Train a GAN on a data set and write its checkpoint; unfinished training beside it is taken up.

    Args:
        monitor: the collapse guard, if not one made for this training.
        after_measurement: is told every measurement of the guard, and may raise to end the training.

    Raises:
        RunError: the training diverged.
    """
    trained = train(
        split.reference,
        config,
        labels=None if split.labels is None else split.labels[0],
        monitor=monitor or make_monitor(split, context.encoder, GanMonitor),
        device=context.device,
        state=path.with_suffix(".unfinished"),
        progress=context.progress,
        after_measurement=after_measurement,
    )
    header = {
        **made_from(split, config, context.device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "source": split.data.source,
        "seed": config.seed,
        "wrong": None if trained.kept is None else collapse(trained.kept),
    }
    checkpoint.save(path, trained, width=config.width, about=header)
    return trained


_Monitor = TypeVar("_Monitor", bound=GanMonitor)


def make_monitor(split: DataSplit, encoder: FeatureExtractor, kind: type[_Monitor]) -> _Monitor:
    """The collapse guard of a data set: it knows which images train the GAN and which are held out."""
    return kind(encoder, split.reference, split.held_out, *(split.labels or ()))


def complaint(wrong: str) -> str:
    """What to say of a GAN that is no good, and what to do about it."""
    return (
        f"The GAN is of little use: {wrong}. Train it longer (--gan-schedule thorough), with another seed "
        "(--gan-seed), or give it more images; few triggers are to be expected from this one."
    )


def check_draws(header: dict[str, Any]) -> None:
    """See that a GAN draws more than one picture; a worse one than it should be is warned of (:func:`complaint`).

    Raises:
        UserError: by the collapse guard's reading of what was kept, it does not.
    """
    kept = _kept_reading(header)
    if kept is not None and draws_one_picture(Measurement.from_dict(kept)):
        raise UserError(
            "The GAN has collapsed: it draws the same picture whatever it is asked for, so that no search and no "
            "filter can use it; train it anew with smaller steps (gan.learning_rate_generator) or another seed "
            "(--gan-seed), or do without it (--preset default)."
        )


def _kept_reading(header: dict[str, Any]) -> dict[str, float] | None:
    return next((each for each in header.get("readings", ()) if each["step"] == header["kept_step"]), None)


def gan_facts(header: dict[str, Any], *, real: int, held_out: int) -> dict[str, str]:
    """What a report says about a GAN, name -> text."""
    kind = "class-conditional DCGAN" if header["classes"] else "DCGAN"
    facts = {
        "kind": f"{kind}, hinge loss, spectral norm, moving average",
        "latent vector": f"{header['latent_dim']} values, normal"
        + (f", and one of {header['classes']} classes" if header["classes"] else ""),
        "trained on": f"{header['training_images']:,} images ({real:,} real, and transformed)",
        "updates": f"{header['steps']:,}, kept as it was after {header['kept_step']:,}",
        "held out": f"{held_out:,} real images",
    }
    kept = _kept_reading(header)
    if kept is not None:
        facts["recognised"] = f"{percent(kept['recognised'])} of its images (by the data set's own encoder)"
        worst = percent(kept["least_covered"])
        facts["covered"] = f"{percent(kept['covered'])} of the real images, {worst} in the worst class"
    if tuning := header.get("tuning"):
        fid, kid = (tuning["scores"][name] for name in ("fid", "kid"))
        facts["tuned"] = f"best of {len(tuning['trials'])} trials of Optuna: FID {fid:.2f}, KID {kid:.5f}"
    if header["wrong"]:
        facts["warning"] = header["wrong"]
    return facts
