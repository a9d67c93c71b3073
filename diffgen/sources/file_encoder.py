"""An encoder of the user's own: a file that maps images to the latent vectors of the generator that it belongs to."""

from __future__ import annotations

import torch

from diffgen.config import GeneratorConfig
from diffgen.errors import RunError, UserError
from diffgen.home import expanded
from diffgen.models.network import Network
from diffgen.models.wording import reason, shape_text
from diffgen.sources.file import FileSource, in_pixels
from diffgen.sources.learned.equal_parts import in_equal_parts
from diffgen.sources.space import random_genes

_PROBES = 3


class EncodingFileSource(FileSource):
    """A generator's file with its encoder's; see :class:`diffgen.sources.base.EncodingSource`.

    Args:
        config: names both files.
        image_shape: (C, H, W) that they draw and take.
        device: where they compute.

    Attributes:
        encoder: the encoder's file.

    Raises:
        UserError: see :class:`FileSource`; or the encoder cannot be read as a network, does not take such images, or
            gives no finite latent vectors of the generator's length for them, or such that depend on more than their
            image.
    """

    def __init__(self, config: GeneratorConfig, image_shape: tuple[int, int, int], *, device: torch.device) -> None:
        super().__init__(config, image_shape, device=device)
        assert config.encoder is not None
        self.encoder = Network(expanded(config.encoder), device=device)
        probes = self.draw(random_genes(self.space, _PROBES, torch.Generator().manual_seed(0))).cpu()
        try:
            found = self.encoder(in_pixels(probes, self.pixels))
        except UserError:
            raise
        except Exception as error:  # whatever a network raises
            raise UserError(
                f"The encoder {self.encoder.name} does not take images of {shape_text(image_shape)} ({reason(error)}); "
                "give the one that was trained with the generator."
            ) from error
        if tuple(found.shape) not in ((_PROBES, self.latent_dim), (_PROBES, self.latent_dim, 1, 1)):
            raise UserError(
                f"The encoder {self.encoder.name} gives an output of shape {tuple(found.shape)} for {_PROBES} images; "
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
        if _differ(found, self.encode(images)):
            raise UserError(
                f"The encoder {self.encoder.name} gives another latent vector when it is handed the same image again; "
                "save it so that it gives the mean, without noise or dropout."
            )
        alone = torch.cat([self.encode(image) for image in images.split(1)])
        if _differ(found, alone) or _differ(found.flip(0), self.encode(images.flip(0))):
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


def _differ(genes: torch.Tensor, others: torch.Tensor) -> bool:
    """Whether genes differ by more than the last digits of a sum."""
    return not torch.allclose(genes, others, rtol=1e-3, atol=1e-3 * (1 + float(genes.abs().max())))
