"""The numbers that settings may have: what lies outside is said before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from diffgen.config import CompareConfig, TrainGanConfig
from diffgen.errors import UserError


@dataclass(frozen=True)
class Range:
    """From ``low`` to ``high``, either of them itself left out if it is ``open``; None for no end."""

    low: float
    high: float | None = None
    open_low: bool = False
    open_high: bool = False
    option: str = ""

    def holds(self, value: float) -> bool:
        """Whether a number lies inside; NaN does not."""
        above = value > self.low if self.open_low else value >= self.low
        below = self.high is None or (value < self.high if self.open_high else value <= self.high)
        return above and below

    def __str__(self) -> str:
        low = f"{'more than ' if self.open_low else ''}{_text(self.low)}"
        if self.high is None:
            return low if self.open_low else f"{low} or more"
        return f"a number from {low} to {'below ' if self.open_high else ''}{_text(self.high)}"


def _text(bound: float) -> str:
    return str(bound) if isinstance(bound, int) else f"{bound:g}"


_SHARE = Range(0, 1)

LIMITS: dict[str, Range] = {
    "seed": Range(0, 2**32 - 1, option="--seed"),
    "saturation_queries": Range(1, 10**12),
    "verify_limit": Range(0, 10**9),
    "gan.latent_dim": Range(1, 65_536),
    "gan.width": Range(1, 4096),
    "gan.steps": Range(1, 10**8, option="--gan-steps"),
    "gan.batch_size": Range(2, 65_536),
    "gan.learning_rate_generator": Range(0, 10, open_low=True),
    "gan.learning_rate_discriminator": Range(0, 10, open_low=True),
    "gan.beta1": Range(0, 1, open_high=True),
    "gan.beta2": Range(0, 1, open_high=True),
    "gan.ema_decay": Range(0, 1, open_high=True),
    "gan.transformed": Range(0, 1),
    "gan.readings": Range(0, 1000),
    "gan.holdout": Range(0, 1, open_low=True, open_high=True),
    "generator.latent_dim": Range(1, 65_536, option="--latent-dim"),
    "gan.seed": Range(0, 2**32 - 1, option="--gan-seed"),
    "search.population": Range(4, 1_000_000),
    "search.bound": Range(0, 100, open_low=True),
    "search.crossover_probability": _SHARE,
    "search.crossover_gene_probability": _SHARE,
    "search.crossover_eta": Range(0, 10**6, open_low=True),
    "search.mutation_probability": _SHARE,
    "search.mutation_gene_probability": _SHARE,
    "search.mutation_class_probability": _SHARE,
    "search.mutation_eta": Range(0, 10**6, open_low=True),
    "search.reducer_dim": Range(1, 65_536),
    "search.umap_neighbors": Range(2, 10_000),
    "search.umap_min_dist": _SHARE,
    "search.min_cluster_size": Range(2, 10**6),
    "search.cluster_sample": Range(1, 10**6),
    "search.cluster_growth": Range(0, 10**6),
    "search.noise_representatives": Range(0, 10**6),
    "search.drfuzz.mutants": Range(1, 10**6),
    "search.dflare.mutations": Range(1, 10**6),
    "filters.false_alarm": Range(0, 1, open_high=True, option="--false-alarm-rate"),
    "filters.ssim_threshold": Range(-1, 1, option="--ssim-threshold"),
    "filters.neighbors_threshold": Range(-1, 1),
    "filters.ssim_neighbors": Range(1, 10_000),
    "filters.near_duplicate": Range(0, 1, open_low=True),
    "filters.training_steps": Range(1, 10**8),
}

GAN_LIMITS: dict[str, Range] = {
    **{key: allowed for key, allowed in LIMITS.items() if key.startswith("gan.")},
    "gan.steps": Range(1, 10**8, option="--steps"),
    "gan.seed": Range(0, 2**32 - 1, option="--seed"),
    "tuning.trials": Range(0, 10**6, option="--tune"),
    "tuning.shortest": Range(0, 1, open_low=True),
    "tuning.startup": Range(1, 10**6),
    "tuning.warmup": Range(0, 10**6),
    "tuning.draws": Range(1, 10**7),
    "tuning.images": Range(6, 10**7),
    "draws": Range(1, 10**7, option="--draws"),
    "images": Range(6, 10**7),
}


def check_limits(config: CompareConfig | TrainGanConfig) -> None:
    """See that no setting has a number that cannot be.

    Raises:
        UserError: one has.
    """
    defaults = type(config)()
    for key, allowed in (LIMITS if isinstance(config, CompareConfig) else GAN_LIMITS).items():
        value = _value(config, key)
        if value is not None and not allowed.holds(value):
            default = _value(defaults, key)
            name = f"{key} ({allowed.option})" if allowed.option else key
            example = "or leave it out" if default is None else f"such as {default:g}"
            raise UserError(f"The setting {name} is {value}; give {allowed}, {example}.")


def _value(config: Any, key: str) -> Any:
    for name in key.split("."):
        config = getattr(config, name)
    return config
