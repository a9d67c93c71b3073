"""Every setting of diffgen with its default: the one source for the Python API, the command line and config.toml."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, get_type_hints

from diffgen.errors import UserError

_BUDGET_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """How long a search may go on. The first limit that is reached ends it.

    Attributes:
        seconds: wall-clock seconds of searching (training of the GAN and filtering are not counted), or None.
        queries: images shown to the models; one query asks every model once. Or None.
    """

    seconds: float | None = None
    queries: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.queries is None:
            raise UserError("The budget is empty; give seconds (60s) or queries (20000q).")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise UserError(
                f"The budget of {self.seconds} seconds is not a positive time; write for example 60s or 5m."
            )
        if self.queries is not None and self.queries < 1:
            raise UserError(f"The budget of {self.queries} queries is not positive; write for example 20000q.")

    @classmethod
    def parse(cls, text: str | Budget) -> Budget:
        """Read ``60s``, ``5m``, ``1h``, ``20000q``, or two of them joined by a comma.

        Raises:
            UserError: the text is not such a budget.
        """
        if isinstance(text, Budget):
            return text
        seconds: float | None = None
        queries: int | None = None
        for part in text.replace("_", "").split(","):
            match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhq])\s*", part)
            if match is None:
                raise UserError(
                    f"The budget {text!r} is not understood; write seconds, minutes or hours (60s, 5m, 1h), "
                    "queries (20000q), or both (60s,20000q)."
                )
            number, unit = float(match[1]), match[2]
            if unit == "q":
                if number != int(number):
                    raise UserError(
                        f"The budget {text!r} has a fraction of a query; write a whole number such as 20000q."
                    )
                queries = int(number)
            else:
                seconds = number * _BUDGET_UNITS[unit]
        return cls(seconds=seconds, queries=queries)

    def __str__(self) -> str:
        parts = []
        if self.seconds is not None:
            parts.append(f"{self.seconds:g}s")
        if self.queries is not None:
            parts.append(f"{self.queries}q")
        return ",".join(parts)


@dataclass(frozen=True)
class Preprocessing:
    """What one model wants done to ``uint8 (N, C, H, W)`` images before it is asked, and what it answers.

    Attributes:
        scale: "0..1" divides by 255, "0..255" hands the grey levels over as they are (both float32).
        mean, std: per channel, applied after scaling, or empty for none.
        layout: order of the axes the model takes.
        outputs: "probabilities", "logits" (softmax is applied), "scores" (independent values in [0, 1] that are
            divided by their sum), or "auto": decided once, on real images.
    """

    scale: Literal["0..1", "0..255"] = "0..1"
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    layout: Literal["auto", "nchw", "nhwc"] = "auto"
    outputs: Literal["auto", "probabilities", "logits", "scores"] = "auto"


@dataclass(frozen=True)
class GanConfig:
    """The GAN and its training (paper, sections 3.1 and 3.2).

    Attributes:
        latent_dim: length of the latent vector; 100 in the paper.
        width: channels of the widest feature map are 4 * width, of the narrowest ``width``.
        steps: updates of the generator, or None: as many as suit the size of the data set.
        batch_size: images in one update.
        learning_rate_generator, learning_rate_discriminator: Adam's step sizes; two rates after Heusel et al. 2017.
        beta1, beta2: Adam's moments.
        ema_decay: decay of the moving average of the generator's weights, which is what is kept.
        augment: add the paper's five transformations of every image to the training set.
        holdout: share of the real images that is kept from training, for the calibration of the filters.
        seed: seed of initial weights, order of images, latent vectors and the choice of the held-out images.
    """

    latent_dim: int = 100
    width: int = 32
    steps: int | None = None
    batch_size: int = 64
    learning_rate_generator: float = 2e-4
    learning_rate_discriminator: float = 4e-4
    beta1: float = 0.0
    beta2: float = 0.9
    ema_decay: float = 0.995
    augment: bool = True
    holdout: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class SearchConfig:
    """NSGA-II over latent vectors (paper, sections 3.3 to 3.5). The presets live in ``diffgen.techniques.diffgan``.

    Attributes:
        population: individuals in one generation.
        prior: "normal": initial vectors are drawn from N(0, 1), genes are bounded by ``bound`` and a vector whose
            norm leaves the shell of the prior is scaled back; "box": uniform in [-bound, bound], as published.
        bound: largest absolute value of a gene.
        crossover_probability: simulated binary crossover, per mating.
        crossover_eta: its distribution index.
        mutation_probability: polynomial mutation, share of the *individuals* that are mutated at all.
        mutation_gene_probability: share of the *genes* of such an individual, or None for 1 / latent_dim.
        mutation_eta: its distribution index.
        reducer: what shortens images before they are clustered.
        reducer_dim: length that they are shortened to.
        umap_neighbors, umap_min_dist: UMAP's own settings.
        min_cluster_size: HDBSCAN's.
        cluster_sample: most triggers that are clustered at once, or None for the whole archive.
        cluster_growth: cluster again when the archive has grown by this share; 0 means in every generation.
        noise_representatives: most noise points that stand for themselves.
    """

    population: int = 100
    prior: Literal["normal", "box"] = "normal"
    bound: float = 3.0
    crossover_probability: float = 0.9
    crossover_eta: float = 15.0
    mutation_probability: float = 1.0
    mutation_gene_probability: float | None = 0.1
    mutation_eta: float = 20.0
    reducer: Literal["pca", "umap"] = "pca"
    reducer_dim: int = 20
    umap_neighbors: int = 5
    umap_min_dist: float = 0.1
    min_cluster_size: int = 3
    cluster_sample: int | None = 1000
    cluster_growth: float = 0.2
    noise_representatives: int = 256


@dataclass(frozen=True)
class FilterConfig:
    """The validity filters (paper, section 3.6).

    Attributes:
        discriminator_threshold: lowest discriminator score that passes, or None: the ``false_alarm`` quantile of the
            scores of the held-out real images (the paper names no value).
        false_alarm: share of held-out real images that the calibrated discriminator filter may reject.
        ssim_threshold: lowest SSIM with the nearest real image that passes; 0.4 as published.
        ssim_neighbors: how many nearest real images (cosine, pixels) SSIM is computed with; the best counts.
    """

    discriminator_threshold: float | None = None
    false_alarm: float = 0.05
    ssim_threshold: float = 0.4
    ssim_neighbors: int = 10


@dataclass(frozen=True)
class CompareConfig:
    """Everything that one comparison needs besides the models and the data themselves.

    Attributes:
        technique: name in ``diffgen.techniques``.
        preset: name of one of the technique's presets.
        budget: of the search.
        seed: seed of everything random; the same seed and query budget give the same run on the same machine.
        device: "auto" takes a GPU when there is one.
        batch_size: images handed to a network at once, or None: chosen for the device.
        verify_limit: most triggers that are asked again one at a time after the search; the rest in batches.
    """

    technique: str = "diffgan"
    preset: str = "default"
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    seed: int = 0
    device: str = "auto"
    batch_size: int | None = None
    verify_limit: int = 20_000
    gan: GanConfig = field(default_factory=GanConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    filters: FilterConfig = field(default_factory=FilterConfig)
    preprocessing_a: Preprocessing = field(default_factory=Preprocessing)
    preprocessing_b: Preprocessing = field(default_factory=Preprocessing)


def to_dict(config: Any) -> dict[str, Any]:
    """A config dataclass as nested plain values, without those that are None (TOML has no null)."""

    def plain(value: Any) -> Any:
        if isinstance(value, Budget):
            return str(value)
        if is_dataclass(value) and not isinstance(value, type):
            return to_dict(value)
        return list(value) if isinstance(value, tuple) else value

    values = {f.name: plain(getattr(config, f.name)) for f in fields(config)}
    return {name: value for name, value in values.items() if value is not None}


def from_dict(kind: type[Any], values: dict[str, Any]) -> Any:
    """The config dataclass ``kind`` from what :func:`to_dict` gave; what is missing keeps its default of None or more.

    Raises:
        UserError: a key that ``kind`` does not have.
    """
    hints = get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise UserError(f"The setting {unknown[0]!r} is not known; known ones here are {', '.join(sorted(hints))}.")
    made: dict[str, Any] = {}
    for f in fields(kind):
        if f.name not in values:
            # to_dict leaves out exactly the values that were None
            if f.default is not None and "None" in str(hints[f.name]):
                made[f.name] = None
            continue
        hint, value = hints[f.name], values[f.name]
        if hint is Budget:
            made[f.name] = Budget.parse(value)
        elif is_dataclass(hint):
            made[f.name] = from_dict(hint, value)  # type: ignore[arg-type]
        else:
            made[f.name] = tuple(value) if isinstance(value, list) else value
    return kind(**made)


__all__ = [
    "Budget",
    "CompareConfig",
    "FilterConfig",
    "GanConfig",
    "Preprocessing",
    "SearchConfig",
    "asdict",
    "from_dict",
    "replace",
    "to_dict",
]
