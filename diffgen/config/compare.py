"""One comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from diffgen.config.budget import Budget
from diffgen.config.filters import FilterConfig
from diffgen.config.gan import GanConfig, GeneratorConfig
from diffgen.config.models import ModelConfig, Preprocessing
from diffgen.config.search import SearchConfig


@dataclass(frozen=True)
class CompareConfig:
    """Everything that one comparison needs besides the models and the data themselves.

    Attributes:
        technique: name in ``diffgen.techniques``.
        preset: name of one of the technique's presets.
        budget: of the search.
        until: "budget": the search goes on until the budget is used up; "saturated": it ends sooner when the last
            ``saturation_queries`` queries found no behaviour that was not known.
        saturation_queries: see ``until``.
        seed: seed of everything random; the same seed and query budget give the same run on the same machine.
        device: "auto" takes a GPU when there is one.
        batch_size: images handed to a network at once, or None: chosen for the device.
        verify_limit: most triggers that the models are asked about again alone after the search, a picture of every
            behaviour first; the rest in batches composed otherwise.
        preprocessing_a, preprocessing_b: what each model wants done to the images.
        model_a, model_b: how their files are opened.
        label_map: file that maps the classes of B onto those of A, or None: they are the same.
        resize: side of the square that real images are brought to on reading, or None: they keep their size.
        gan_file: checkpoint of a GAN that was trained before, or None: that of the data set, which is trained when the
            cache has none.
    """

    technique: str = "diffgan"
    preset: str = "default"
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    until: Literal["budget", "saturated"] = "budget"
    saturation_queries: int = 20_000
    seed: int = 0
    device: str = "auto"
    batch_size: int | None = None
    verify_limit: int = 500
    gan: GanConfig = field(default_factory=GanConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    filters: FilterConfig = field(default_factory=FilterConfig)
    preprocessing_a: Preprocessing = field(default_factory=Preprocessing)
    preprocessing_b: Preprocessing = field(default_factory=Preprocessing)
    model_a: ModelConfig = field(default_factory=ModelConfig)
    model_b: ModelConfig = field(default_factory=ModelConfig)
    label_map: str | None = None
    resize: int | None = None
    gan_file: str | None = None
