"""The family ``file``: a generator of the user's own, with an encoder and a discriminator where they come with it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import torch

from diffgen.config import CompareConfig, GeneratorConfig, PixelRange
from diffgen.data.split import DataSplit
from diffgen.errors import RunError, UserError
from diffgen.home import expanded
from diffgen.models.network import Network
from diffgen.models.wording import reason, shape_text
from diffgen.origins import Origins
from diffgen.parts import Need, Needs
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.learned.networks import in_equal_parts
from diffgen.sources.space import latent_space, random_genes

_ON_CPU = 64  # pictures drawn at once
_PROBES = 16
_SLACK = 0.01  # of the ends of a range, for rounding
# (scale, offset) that turn a network's pixels into grey levels
_GREY_LEVELS: dict[PixelRange, tuple[float, float]] = {
    "-1..1": (127.5, 127.5),
    "0..1": (255.0, 0.0),
    "0..255": (1.0, 0.0),
}


class FileSource:
    """See :class:`diffgen.sources.base.Source`. Everything that is said of the file is tried out when it is opened.

    Args:
        config: names the file; ``latent_dim`` must be set.
        image_shape: (C, H, W) that it must draw.
        device: where it computes.

    Attributes:
        pixels: range of what the network gives.
        detected: whether that was found out, and not said.

    Raises:
        UserError: the file cannot be read as a network, does not take such latent vectors, draws something else than
            such images, or its images depend on something else than their latent vectors.
    """

    def __init__(self, config: GeneratorConfig, image_shape: tuple[int, int, int], *, device: torch.device) -> None:
        assert config.file is not None and config.latent_dim is not None
        self.network = Network(expanded(config.file), device=device)
        self.latent_dim = config.latent_dim
        self.space = latent_space(config.latent_dim, config.prior)
        self.image_shape = image_shape
        # on a CPU larger feature maps leave the cache (docs/decisions/009)
        self._at_once = _ON_CPU if device.type == "cpu" else None
        latents = random_genes(self.space, _PROBES, torch.Generator().manual_seed(0))
        self._sides = self._find_sides(latents)
        drawn = self._outputs(latents)
        self._check_images(drawn)
        self.detected = config.pixels == "auto"
        self.pixels: PixelRange = self._detect(drawn) if config.pixels == "auto" else config.pixels
        self._check_pure(latents)

    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, latent_dim).

        Raises:
            RunError: the network fails, or gives values that are not finite.
        """
        if len(genes) == 0:
            return torch.empty(0, *self.image_shape, dtype=torch.uint8)
        try:
            drawn = torch.cat([self._outputs(part) for part in genes.split(self._at_once or len(genes))])
        except UserError:
            raise
        except Exception as error:  # whatever a network raises; what it was is the cause
            raise RunError(f"The generator {self.network.name} fails ({reason(error)}).") from error
        if not bool(drawn.isfinite().all()):
            raise RunError(
                f"The generator {self.network.name} gives values that are not finite for some latent vectors."
            )
        scale, offset = _GREY_LEVELS[self.pixels]
        return drawn.mul(scale).add_(offset).round_().clamp_(0, 255).to(torch.uint8)

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """None: no real image goes into it."""
        return None

    def _outputs(self, latents: torch.Tensor) -> torch.Tensor:
        """float32, as the network gives them."""
        return self.network(latents.to(torch.float32).reshape(len(latents), *self._sides)).to(torch.float32)

    def _find_sides(self, latents: torch.Tensor) -> tuple[int, ...]:
        """Shape of one latent vector as the network takes it: (d,) or (d, 1, 1)."""
        flat, map_1x1 = (self.latent_dim,), (self.latent_dim, 1, 1)
        declared = self.network.sides
        if declared is not None:
            for sides in (flat, map_1x1):
                wanted = declared[1:]
                if len(wanted) == len(sides) and all(w in (None, s) for w, s in zip(wanted, sides, strict=True)):
                    return sides
            text = ", ".join("N" if side is None else str(side) for side in declared)
            raise UserError(
                f"The generator {self.network.name} takes an input of shape ({text}), not latent vectors of "
                f"{self.latent_dim} values, (N, {self.latent_dim}) or (N, {self.latent_dim}, 1, 1); check --latent-dim."
            )
        failures = []
        for sides in (flat, map_1x1):
            try:
                self.network(latents.reshape(len(latents), *sides))
            except UserError:
                raise
            except Exception as error:  # whatever a network raises when it is handed another shape
                failures.append(error)
            else:
                return sides
        raise UserError(
            f"The generator {self.network.name} takes latent vectors of {self.latent_dim} values neither as "
            f"(N, {self.latent_dim}) nor as (N, {self.latent_dim}, 1, 1) ({reason(failures[0])}); check --latent-dim."
        )

    def _check_images(self, drawn: torch.Tensor) -> None:
        wanted = shape_text(self.image_shape)
        if drawn.ndim != 4:
            raise UserError(
                f"The generator {self.network.name} gives an output of shape {tuple(drawn.shape)} for {len(drawn)} "
                f"latent vectors; save it so that it gives images (N, C, H, W), here of {wanted}."
            )
        channels, height, width = (int(side) for side in drawn.shape[1:])
        if (channels, height, width) != self.image_shape:
            square = channels == self.image_shape[0] and height == width
            mend = f"add --resize {height}, or give data of that shape" if square else "give data of that shape"
            raise UserError(
                f"The generator {self.network.name} draws {shape_text((channels, height, width))} images but the data "
                f"has {wanted}; {mend}."
            )
        if not bool(drawn.isfinite().all()):
            raise UserError(
                f"The generator {self.network.name} gives values that are not finite; train it again, or check "
                "--latent-dim and --prior."
            )

    def _detect(self, drawn: torch.Tensor) -> PixelRange:
        low, high = float(drawn.min()), float(drawn.max())
        found: dict[PixelRange, bool] = {
            "0..1": low >= -_SLACK and high <= 1 + _SLACK,
            "-1..1": low >= -1 - _SLACK and high <= 1 + _SLACK,
            "0..255": low >= -0.5 and high <= 255.5,
        }
        for pixels, fits in found.items():
            if fits:
                return pixels
        raise UserError(
            f"The generator {self.network.name} gives pixels from {low:.3g} to {high:.3g}, which fits none of -1..1, "
            "0..1 and 0..255; say with --generator-pixels which one it was trained with, and the rest is cut off."
        )

    def _check_pure(self, latents: torch.Tensor) -> None:
        """An image is a function of its latent vector alone, but for one grey level of rounding."""
        drawn = self.draw(latents)
        if _differ(drawn, self.draw(latents)):
            raise UserError(
                f"The generator {self.network.name} draws another image when it is handed the same latent vector "
                "again; save it without dropout and with all noise in the latent vector."
            )
        try:
            alone = torch.cat([self.draw(latent) for latent in latents.split(1)])
        except RunError as error:
            raise UserError(f"{error} It did so on a single latent vector; save it for batches of any size.") from error
        if _differ(drawn, alone) or _differ(drawn.flip(0), self.draw(latents.flip(0))):
            raise UserError(
                f"An image of the generator {self.network.name} depends on the others in its batch, as with batch "
                "normalisation in training mode; save it after network.eval()."
            )
        if not _differ(drawn, drawn[:1].expand_as(drawn)):
            raise UserError(
                f"The generator {self.network.name} draws the same image for every latent vector; check --prior and "
                "--generator-pixels."
            )


class FileScorer:
    """A discriminator from a file; see :class:`diffgen.types.Scorer`.

    Args:
        path: maps images (N, C, H, W), in the pixels of its generator, to one score each, higher for more real.
        image_shape: (C, H, W).
        device: where it computes.

    Raises:
        UserError: the file cannot be read as a network, or does not give one finite score for an image.
    """

    def __init__(
        self, path: Path, *, pixels: PixelRange, image_shape: tuple[int, int, int], device: torch.device
    ) -> None:
        self.network = Network(expanded(path), device=device)
        self._range: PixelRange = pixels
        noise = torch.randint(256, (3, *image_shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        try:
            scores = self.network(in_pixels(noise, pixels))
        except UserError:
            raise
        except Exception as error:  # whatever a network raises
            raise UserError(
                f"The discriminator {self.network.name} does not take images of {shape_text(image_shape)} "
                f"({reason(error)}); give the one that was trained with the generator."
            ) from error
        if scores.numel() != len(noise) or not bool(scores.isfinite().all()):
            raise UserError(
                f"The discriminator {self.network.name} gives an output of shape {tuple(scores.shape)} for "
                f"{len(noise)} images; save it so that it gives one finite score for each."
            )

    def score(self, images: torch.Tensor) -> torch.Tensor:
        """float32 (N,) for uint8 (N, C, H, W)."""
        return self.network(in_pixels(images, self._range)).to(torch.float32).reshape(len(images))


def in_pixels(images: torch.Tensor, pixels: PixelRange) -> torch.Tensor:
    """uint8 (N, C, H, W) to float32 in the range of a network."""
    scale, offset = _GREY_LEVELS[pixels]
    return (images.to(torch.float32) - offset) / scale


def _differ(images: torch.Tensor, others: torch.Tensor) -> bool:
    return bool((images.to(torch.int16) - others.to(torch.int16)).abs().max() > 1)


_ENCODED = 3


class EncodingFileSource(FileSource):
    """A generator's file with its encoder's; see :class:`diffgen.sources.base.EncodingSource`.

    Args:
        image_shape: (C, H, W) that they draw and take.
        device: where they compute.

    Raises:
        UserError: see :class:`FileSource`; or the encoder cannot be read as a network, does not take such images, or
            gives no finite latent vectors of the generator's length for them, or such that depend on more than their
            image.
    """

    def __init__(self, config: GeneratorConfig, image_shape: tuple[int, int, int], *, device: torch.device) -> None:
        super().__init__(config, image_shape, device=device)
        assert config.encoder is not None
        self.encoder = Network(expanded(config.encoder), device=device)
        probes = self.draw(random_genes(self.space, _ENCODED, torch.Generator().manual_seed(0))).cpu()
        try:
            found = self.encoder(in_pixels(probes, self.pixels))
        except UserError:
            raise
        except Exception as error:  # whatever a network raises
            raise UserError(
                f"The encoder {self.encoder.name} does not take images of {shape_text(image_shape)} ({reason(error)}); "
                "give the one that was trained with the generator."
            ) from error
        if tuple(found.shape) not in ((_ENCODED, self.latent_dim), (_ENCODED, self.latent_dim, 1, 1)):
            raise UserError(
                f"The encoder {self.encoder.name} gives an output of shape {tuple(found.shape)} for {_ENCODED} images; "
                f"save it so that it gives the {self.latent_dim} values of the generator's latent vector for each."
            )
        if not bool(found.isfinite().all()):
            raise UserError(
                f"The encoder {self.encoder.name} gives values that are not finite; train it again, or check "
                "--generator-pixels."
            )
        self._check_genes(probes)

    def _check_genes(self, images: torch.Tensor) -> None:
        """Genes are a function of their image alone, but for the last digits, so that a run can be repeated."""
        found = self.encode(images)
        if _genes_differ(found, self.encode(images)):
            raise UserError(
                f"The encoder {self.encoder.name} gives another latent vector when it is handed the same image again; "
                "save it so that it gives the mean, without noise or dropout."
            )
        alone = torch.cat([self.encode(image) for image in images.split(1)])
        if _genes_differ(found, alone) or _genes_differ(found.flip(0), self.encode(images.flip(0))):
            raise UserError(
                f"The latent vector that the encoder {self.encoder.name} gives for an image depends on the others in "
                "its batch, as with batch normalisation in training mode; save it after network.eval()."
            )

    def encode(self, images: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """float32 (N, latent_dim) on the CPU for uint8 (N, C, H, W); the labels are not asked for.

        Raises:
            RunError: the encoder fails, or gives values that are not finite.
        """
        if len(images) == 0:
            return torch.empty(0, self.latent_dim)
        try:
            genes = in_equal_parts(self._genes, images)
        except UserError:
            raise
        except Exception as error:  # whatever a network raises; what it was is the cause
            raise RunError(f"The encoder {self.encoder.name} fails ({reason(error)}).") from error
        if not bool(genes.isfinite().all()):
            raise RunError(f"The encoder {self.encoder.name} gives values that are not finite for some images.")
        return genes

    def _genes(self, images: torch.Tensor) -> torch.Tensor:
        return self.encoder(in_pixels(images, self.pixels)).to("cpu", torch.float32).flatten(1)


def _genes_differ(genes: torch.Tensor, others: torch.Tensor) -> bool:
    """Whether genes differ by more than the last digits of a sum."""
    return not torch.allclose(genes, others, rtol=1e-3, atol=1e-3 * (1 + float(genes.abs().max())))


class FileFamily(Family):
    """Nothing is trained: the file that ``[generator]`` names is opened and tried out."""

    name = "file"
    brought = True
    hints: ClassVar = {"encoder": "add --generator-encoder FILE", "discriminator": "add --discriminator FILE"}

    def gives(self, config: CompareConfig) -> Needs:
        """See the base class; as the files that come with the generator allow."""
        given: dict[Need, str | None] = {
            "encoder": config.generator.encoder,
            "discriminator": config.generator.discriminator,
        }
        return super().gives(config) | {need for need, file in given.items() if file is not None}

    def check(self, config: CompareConfig) -> None:
        if config.generator.file is None:
            raise UserError("The source is a file, but none is named; add --generator FILE and --latent-dim N.")

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; what a file draws is found out when it is opened."""

    def try_out(self, config: CompareConfig, image_shape: tuple[int, int, int], device: torch.device) -> None:
        _opened(config.generator, image_shape, device)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        own = config.generator
        assert own.file is not None
        source, scorer = _opened(own, split.data.image_shape, context.device)
        facts = {
            "kind": f"your own, {source.network.format}",
            "file": source.network.name,
            "latent vector": f"{source.latent_dim} values, {own.prior}",
            "pixels": f"{source.pixels} ({'found out' if source.detected else 'as said'})",
            "discriminator": "none given, so that there is no discriminator filter"
            if scorer is None
            else scorer.network.name,
            "compared with": f"{len(split.rows[0]):,} real images, which it may or may not have been trained on",
            "held out": f"{len(split.rows[1]):,} real images",
        }
        if isinstance(source, EncodingFileSource):
            facts["encoder"] = source.encoder.name
        context.progress.say(
            f"Pictures come from {source.network.name}, {source.network.format}: {facts['latent vector']}; pixels "
            f"{facts['pixels']}; discriminator: {facts['discriminator']}."
        )
        return ImageSource(source, scorer, Path(own.file), facts)


def _opened(
    own: GeneratorConfig, image_shape: tuple[int, int, int], device: torch.device
) -> tuple[FileSource, FileScorer | None]:
    """Generator, encoder and discriminator of the settings. UserError if a file does not do what is said of it."""
    source = (FileSource if own.encoder is None else EncodingFileSource)(own, image_shape, device=device)
    if own.discriminator is None:
        return source, None
    path = Path(own.discriminator)
    return source, FileScorer(path, pixels=source.pixels, image_shape=image_shape, device=device)
