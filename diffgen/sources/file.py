"""A generator of the user's own: a file that maps latent vectors to images; and a discriminator to go with it."""

from __future__ import annotations

from pathlib import Path

import torch

from diffgen.config import GeneratorConfig, PixelRange
from diffgen.errors import RunError, UserError
from diffgen.home import expanded
from diffgen.models.network import Network
from diffgen.models.wording import reason, shape_text
from diffgen.origins import Origins
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
        network: the file.
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
        pixels: that range.
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
