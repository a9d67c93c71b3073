"""The family ``diffusers``: a diffusion model of others, in the folder that diffusers' ``save_pretrained`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import torch

from diffgen.config import CompareConfig, replace
from diffgen.config.schema import FileName, Maybe, setting, settings
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.home import expanded
from diffgen.parts import NOTHING, Needs
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.learned.denoising import DEVIATIONS, over_images
from diffgen.sources.learned.noise_source import NoiseSource
from diffgen.sources.pipeline_files import WEIGHTS, read_pipeline

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
        """See the base class."""
        own: DiffusersSettings = self.settings(config)
        if own.folder is None:
            return config
        whole = str(expanded(own.folder).absolute())
        return replace(config, source=config.source.with_family(replace(own, folder=whole)))

    def check(self, config: CompareConfig) -> None:
        """See the base class."""
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
        """See the base class."""
        folder = self.settings(config).folder
        assert folder is not None
        read_pipeline(Path(folder), image_shape)

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        """See the base class."""
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
