"""The family ``diffusers``: a diffusion model of others, in the folder that diffusers' ``save_pretrained`` wrote."""

from __future__ import annotations

import inspect
import json
import math
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from diffgen.config import CompareConfig, replace
from diffgen.config.schema import FileName, Maybe, setting, settings
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.gan_training.networks import to_uint8
from diffgen.home import expanded
from diffgen.models.wording import reason
from diffgen.origins import Origins
from diffgen.parts import NOTHING, Needs
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.denoiser import DEVIATIONS, Restoring, over_images, restored
from diffgen.sources.learned.networks import in_equal_parts
from diffgen.sources.space import latent_space

PIPELINES = ("DDPMPipeline", "DDIMPipeline", "PNDMPipeline")
WEIGHTS = "unet/diffusion_pytorch_model.safetensors"
_TIMES = 10_000  # of a scheduler at most; 1,000 are usual
_SIZE = 1_000_000  # bytes of a JSON file at most


class PipelineDenoiser(nn.Module):
    """The network of a pipeline, asked for clean images; see :class:`diffgen.sources.denoiser.Restoring`.

    A pipeline's noisy images are ``a x + b e``. Divided by ``a`` they are images with noise of the deviation ``b / a``,
    and DDIM's steps are Euler's method on these (Song et al. 2021, equation 13; Karras et al. 2022, table 1).

    Args:
        network: maps noisy images and times to the noise, the image, or the velocity, as ``predicts`` says.
        deviations: float32 (T,), of the noise at each time, rising.
        predicts: "epsilon", "sample" or "v_prediction".
        cut: whether clean images are cut to [-1, 1].
    """

    deviations: torch.Tensor

    def __init__(self, network: nn.Module, deviations: torch.Tensor, *, predicts: str, cut: bool) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("deviations", deviations, persistent=False)
        self._predicts, self._cut = predicts, cut

    def clean(self, noisy: torch.Tensor, deviation: float) -> torch.Tensor:
        """See :class:`diffgen.sources.denoiser.Restoring`."""
        scaled = noisy / (1 + deviation**2) ** 0.5
        times = torch.full((len(noisy),), self._time(deviation), device=noisy.device)
        said: torch.Tensor = self.network(scaled, times).sample
        if self._predicts == "sample":
            clean = said
        elif self._predicts == "epsilon":
            clean = noisy - deviation * said
        else:
            clean = (scaled - deviation * said) / (1 + deviation**2) ** 0.5
        return clean.clamp(-1, 1) if self._cut else clean

    def levels(self, deviation: float, steps: int) -> list[float]:
        """From a deviation down to none, at times equally far from each other (diffusers' spacing "trailing")."""
        first = self._time(deviation)
        times = ((first + 1) * (1 - torch.arange(1, steps) / steps)).round().long() - 1
        between = [each for each in self.deviations[times[times >= 0]].tolist() if each < deviation]
        return [deviation, *between, 0.0]

    def _time(self, deviation: float) -> int:
        """That whose noise is nearest, by its ratio."""
        return int((self.deviations.log() - math.log(deviation)).abs().argmin())


def read_pipeline(folder: Path, image_shape: tuple[int, int, int]) -> PipelineDenoiser:
    """The network of a pipeline that draws images of (C, H, W), in eval mode on the CPU.

    Raises:
        UserError: diffusers is not installed, or the folder holds no such pipeline.
    """
    try:
        from diffusers import DDIMScheduler, UNet2DModel
    except ImportError as error:
        raise UserError(
            f"{folder} is a diffusers pipeline, and drawing with it needs diffusers; run pip install "
            "'diffgen[diffusers]'."
        ) from error
    index, about = _read(folder / "model_index.json"), _read(folder / "unet" / "config.json")
    noise = _read(folder / "scheduler" / "scheduler_config.json")
    kind, network = index.get("_class_name"), index.get("unet")
    if kind not in PIPELINES or network != ["diffusers", "UNet2DModel"]:
        raise UserError(
            f"The pipeline {folder} is of the kind {kind}; give one that draws pixels without being told a class or a "
            f"text: {', '.join(PIPELINES)}, with a UNet2DModel."
        )
    if about.get("class_embed_type") is not None or about.get("num_class_embeds") is not None:
        raise UserError(f"The pipeline {folder} wants to be told a class; give one that is not conditional.")
    _check_shape(folder, about, image_shape)
    if not (folder / WEIGHTS).is_file():
        raise UserError(
            f"The pipeline {folder} has no {WEIGHTS}; save it anew with save_pretrained(FOLDER, "
            "safe_serialization=True)."
        )
    try:
        unet: Any = _made(UNet2DModel, about)
        scheduler: Any = _scheduler(DDIMScheduler, noise)
        unet.load_state_dict(load_file(folder / WEIGHTS), assign=True)
        deviations = ((1 - scheduler.alphas_cumprod) / scheduler.alphas_cumprod).sqrt().float()
        predicts = scheduler.config.prediction_type
        if predicts not in ("epsilon", "sample", "v_prediction") or not _rises(deviations):
            raise ValueError("its scheduler has no noise that rises step by step")
    except (OSError, KeyError, TypeError, ValueError, ArithmeticError, RuntimeError, SafetensorError) as error:
        raise UserError(f"The pipeline {folder} cannot be read ({reason(error)}); save it anew.") from error
    denoiser = PipelineDenoiser(unet, deviations, predicts=predicts, cut=bool(noise.get("clip_sample", True)))
    return denoiser.float().eval().requires_grad_(False)


def _made(kind: Any, about: dict[str, Any]) -> Any:
    """A network without memory for its weights, from those of its parameters that a file names."""
    known = inspect.signature(kind.__init__).parameters
    with torch.device("meta"):
        # lists as tuples: the network's class keeps its parameters as keys
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in about.items()}
        return kind(**{name: value for name, value in given.items() if name in known})


def _scheduler(kind: Any, about: dict[str, Any]) -> Any:
    """Its betas are the same for all schedulers of these names."""
    times = about.get("num_train_timesteps", 1_000)
    if not isinstance(times, int) or not 1 < times <= _TIMES:
        raise ValueError(f"its scheduler has {times} times")
    wanted = ("num_train_timesteps", "beta_start", "beta_end", "beta_schedule", "trained_betas", "prediction_type")
    return kind(**{name: about[name] for name in wanted if name in about})


def _rises(deviations: torch.Tensor) -> bool:
    return bool(deviations.isfinite().all() and (deviations > 0).all() and (deviations.diff() > 0).all())


def _check_shape(folder: Path, about: dict[str, Any], image_shape: tuple[int, int, int]) -> None:
    side = about.get("sample_size")
    sides = (side, side) if isinstance(side, int) else tuple(side or ())
    drawn = (about.get("in_channels"), *sides)
    if about.get("in_channels") != about.get("out_channels"):
        raise UserError(f"The pipeline {folder} takes other images than it gives; give one that draws pixels.")
    if drawn != image_shape:
        channels, height, width = image_shape
        square = len(drawn) == 3 and drawn[0] == channels and drawn[1] == drawn[2]
        mend = f"add --resize {drawn[1]}, or give data of that shape" if square else "give data of that shape"
        raise UserError(
            f"The pipeline {folder} draws {'x'.join(map(str, drawn))} images but the data has "
            f"{channels}x{height}x{width}; {mend}."
        )


def _read(path: Path) -> dict[str, Any]:
    """A JSON object. UserError if there is none."""
    try:
        with path.open("rb") as file:
            found = json.loads(file.read(_SIZE))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(
            f"{path} of a diffusers pipeline cannot be read ({reason(error)}); name the folder that save_pretrained "
            "wrote."
        ) from error
    if not isinstance(found, dict):
        raise UserError(f"{path} of a diffusers pipeline is no table; name the folder that save_pretrained wrote.")
    return found


class NoiseSource:
    """See :class:`diffgen.sources.base.Source`. Genes are the noise of every pixel.

    Args:
        denoiser: in eval mode, on ``device``.
        image_shape: (C, H, W).
        deviation: of the noise, for pixels in [-1, 1]; so large that it hides everything.
        device: where it computes.
    """

    def __init__(
        self,
        denoiser: Restoring,
        image_shape: tuple[int, int, int],
        *,
        deviation: float,
        steps: int,
        device: torch.device,
    ) -> None:
        self.image_shape = image_shape
        self.space = latent_space(math.prod(image_shape), "normal")
        self._denoiser, self._device = denoiser, device
        self._deviation, self._levels = deviation, denoiser.levels(deviation, steps)

    @torch.inference_mode()
    def draw(self, genes: torch.Tensor) -> torch.Tensor:
        """uint8 (N, C, H, W) for float32 (N, length); bit for bit a function of each row."""
        if len(genes) == 0:
            return torch.empty(0, *self.image_shape, dtype=torch.uint8, device=self._device)
        return in_equal_parts(self._drawn, genes.to(torch.float32))

    def _drawn(self, genes: torch.Tensor) -> torch.Tensor:
        noise = genes.to(self._device).reshape(len(genes), *self.image_shape)
        # an image of unit variance and noise of that deviation: what a diffusion model takes for nothing but noise
        return to_uint8(restored(self._denoiser, (1 + self._deviation**2) ** 0.5 * noise, self._levels))

    def origins(self, genes: torch.Tensor) -> Origins | None:
        """None: no real image goes into it."""
        return None


_STEPS = {"seeds": 4, "noise": 20}


@settings("source.diffusers")
class DiffusersSettings:
    """Settings of the family ``diffusers``."""

    folder: FileName = setting(None, "Folder of the pipeline, as save_pretrained wrote it (--source diffusers:FOLDER).")
    start: Literal["seeds", "noise"] = setting(
        "seeds", "What is restored: seeds, real images with noise over them; noise, nothing else."
    )
    strength: Literal["low", "high"] = setting(
        "low", "How much noise is laid over a real image: low leaves what it shows, high its coarse forms."
    )
    restorations: Maybe[int] = setting(
        None, "Steps in which a picture is restored (default: 4 from real images, 20 from noise).", ge=1, le=1_000
    )


class DiffusersFamily(Family):
    """Nothing is trained: the pipeline that the settings name is opened."""

    name = "diffusers"
    Settings = DiffusersSettings

    def gives(self, config: CompareConfig) -> Needs:
        """See the base class; genes say which image it is: halfway between two there is none."""
        return frozenset({"encoder"}) if self.settings(config).start == "seeds" else NOTHING

    def settled(self, config: CompareConfig) -> CompareConfig:
        own: DiffusersSettings = self.settings(config)
        if own.folder is None:
            return config
        whole = str(expanded(own.folder).absolute())
        return replace(config, source=config.source.with_family(replace(own, folder=whole)))

    def check(self, config: CompareConfig) -> None:
        super().check(config)
        folder = self.settings(config).folder
        if folder is None:
            raise UserError("The source is a diffusers pipeline, but none is named; use --source diffusers:FOLDER.")
        if not (Path(folder) / "model_index.json").is_file():
            raise UserError(
                f"There is no diffusers pipeline in {folder}; name the folder that save_pretrained wrote, with its "
                "model_index.json."
            )

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """See the base class; what a pipeline draws is found out when it is opened."""

    def try_out(self, config: CompareConfig, image_shape: tuple[int, int, int], device: torch.device) -> None:
        folder = self.settings(config).folder
        assert folder is not None
        read_pipeline(Path(folder), image_shape)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        own: DiffusersSettings = self.settings(config)
        assert own.folder is not None
        folder, shape, device = Path(own.folder), split.data.image_shape, context.device
        denoiser = read_pipeline(folder, shape).to(device)
        steps = own.restorations or _STEPS[own.start]
        in_steps = f"{steps} step{'s' if steps > 1 else ''}"
        facts = {
            "file": folder.name,
            "compared with": f"{len(split.rows[0]):,} real images, which it may or may not have been trained on",
            "held out": f"{len(split.rows[1]):,} real images",
        }
        context.progress.say(f"Pictures come from the diffusers pipeline {folder.name}, restored in {in_steps}.")
        if own.start == "noise":
            noise = NoiseSource(denoiser, shape, deviation=float(denoiser.deviations[-1]), steps=steps, device=device)
            facts = {
                "kind": f"a diffusers pipeline of your own, from noise in {in_steps}",
                "latent vector": f"{noise.space.continuous} values of noise, normal",
                **facts,
            }
            return ImageSource(noise, artifact=folder / WEIGHTS, facts=facts)
        real = split.data.images
        source = over_images(denoiser, real, deviation=DEVIATIONS[own.strength], steps=steps, device=device)
        facts = {
            "kind": "real images with noise, restored by a diffusers pipeline of your own",
            "seeds": f"{len(real):,} real images",
            "latent vector": f"{source.space.continuous} values of coarse noise, normal, and the real image",
            "noise": f"{127.5 * DEVIATIONS[own.strength]:.0f} grey levels ({own.strength}), restored in {in_steps}",
            **facts,
        }
        return ImageSource(source, artifact=folder / WEIGHTS, facts=facts, real=True)
