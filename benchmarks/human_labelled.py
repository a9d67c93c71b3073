"""What validity filters keep of pictures that two people judged: each score, the jury, and chains of them.

    python -m benchmarks.human_labelled [SHARED] > table.md

SHARED is the folder with data/mnist and data/human-labelled (default: DIFFGEN_SHARED, or ``shared`` beside the
checkout). The pictures were made by five test generators from MNIST and judged by two people each (Riccio and Tonella,
ICSE 2023). Filters, jury and GAN learn from the images of MNIST's *test* split alone, and thresholds are found on those
of them that are held out, exactly as in a comparison on them: no threshold ever sees a picture that was judged.

There are only 19 invalid pictures, nearly all fragments that one generator made of one digit. So the same chains are
asked about a second lot: 500 real images of the training split, and those wrecked in the ways of benchmarks/wrecked.py.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks.quick import add_quick, trained_as_asked
from benchmarks.wrecked import wrecked
from diffgen.comparison.filter_chain import make_pipeline
from diffgen.comparison.jury import RealLabels, prepare_jury
from diffgen.comparison.requirements import filter_names
from diffgen.config import FILTER_PRESETS, CompareConfig, FilterConfig, replace
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.events import Progress
from diffgen.features import cells
from diffgen.filters import FilterPipeline, calibrate
from diffgen.sampling import random_rows
from diffgen.sources.base import FamilyContext
from diffgen.sources.gan import prepare_gan
from diffgen.types import Float32Array, ImageSet

_CPU = torch.device("cpu")
_SCORES = ("discriminator", "reconstruction", "ssim", "neighbors", "jury")
_RATES = (0.01, 0.02, 0.05)
_REAL = 500
_BEFORE = ("discriminator", "reconstruction", "ssim")  # the default of version 0.1, with a GAN
_TOOLS = {"dj": "DeepJanus", "dlf": "DLFuzz", "dx": "DeepXplore", "ox": "feature perturbation", "sv": "SINVAD"}


@dataclass(frozen=True)
class Judged:
    """Pictures that people judged.

    Attributes:
        images: uint8 (N, 1, 28, 28).
        valid: bool (N,): two people could name a digit.
        tool: (N,), which generator made each.
    """

    images: torch.Tensor
    valid: NDArray[np.bool_]
    tool: NDArray[np.str_]


@dataclass(frozen=True)
class Scored:
    """What every filter says: of the held-out real images, float32 (n, F), and of others, float32 (N, F) by name."""

    names: tuple[str, ...]
    held_out: Float32Array
    others: Mapping[str, Float32Array]

    def passing(self, chain: FilterConfig, kind: str) -> NDArray[np.bool_]:
        """bool (N,): what a chain keeps, its thresholds found on the held-out real images."""
        assert chain.names is not None
        columns = [self.names.index(name) for name in chain.names]
        given = [chain.filters.get(name, {}).get("threshold") for name in chain.names]
        found = calibrate(
            self.held_out[:, columns], [np.nan if each is None else each for each in given], chain.false_alarm
        )
        return np.asarray((self.others[kind][:, columns] >= found.thresholds).all(axis=1))

    def worst_rank(self, chain: FilterConfig, kind: str) -> Float32Array:
        """float32 (N,): for a chain, the smallest share of the held-out real images that score no higher than this."""
        assert chain.names is not None
        ranks = []
        for name in chain.names:
            column = self.names.index(name)
            ordered = np.sort(self.held_out[:, column])
            ranks.append(np.searchsorted(ordered, self.others[kind][:, column], side="right") / len(ordered))
        return np.asarray(np.min(ranks, axis=0), dtype=np.float32)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    beside = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument("shared", nargs="?", type=Path, default=Path(os.environ.get("DIFFGEN_SHARED") or beside))
    add_quick(parser)
    arguments = parser.parse_args(argv)
    file = arguments.shared / "data" / "human-labelled" / "mnist.npz"
    if not file.is_file():
        parser.error(f"{file} is missing; name the folder that holds data/human-labelled.")
    judged = _judged(file)
    training, test = (load(f"{arguments.shared / 'data' / 'mnist'}:{part}") for part in ("train", "test"))
    config = trained_as_asked(CompareConfig(), quick=arguments.quick)
    real = training.images[random_rows(len(training), _REAL)]
    others = load(f"{arguments.shared / 'data' / 'fashion-mnist'}:test").images
    lots = {kind: torch.from_numpy(images) for kind, images in wrecked(real, others, seed=0).items()}
    pipeline = _all_filters(test, config)
    lots = {"judged": judged.images, "real": torch.from_numpy(real), **lots}
    scored = Scored(
        tuple(each.name for each in pipeline.filters),
        pipeline.calibration.scores,
        {kind: pipeline.scores(images) for kind, images in lots.items()},
    )
    chains = _chains(config)
    _print_scores(scored, judged)
    _print_chains(scored, judged, chains)
    _print_tools(scored, judged, chains)
    _print_wrecked(scored, chains, [kind for kind in lots if kind != "judged"])


def _judged(file: Path) -> Judged:
    with np.load(file) as stored:
        return Judged(torch.from_numpy(stored["images"]), stored["valid"], stored["tool"])


def _all_filters(data: ImageSet, config: CompareConfig) -> FilterPipeline:
    """Every filter, as a comparison on these images has it."""
    split, progress = DataSplit(data, config.split), Progress()
    context = FamilyContext(cells.prepare(data).encoder, _CPU, progress)
    scorer = prepare_gan(split, config.gan, context).scorer
    assert data.labels is not None
    jury = prepare_jury(split, RealLabels(data.labels, "given"), config, device=_CPU, progress=progress)
    config = replace(config, filters=replace(config.filters, names=_SCORES))
    return make_pipeline(
        split, scorer, config, recogniser=jury.recogniser, batch_size=256, device=_CPU, progress=progress
    )


def _chains(config: CompareConfig) -> dict[str, FilterConfig]:
    default = filter_names(config)
    return {
        "default": FilterConfig(names=default),
        "default where there is no jury": FilterConfig(names=filter_names(config, jury=False)),
        "preset paper": FILTER_PRESETS["paper"],
        "preset diffgan": FilterConfig(names=FILTER_PRESETS["paper"].names),
        "default of version 0.1": FilterConfig(names=_BEFORE, false_alarm=0.05),
        "the same": FilterConfig(names=_BEFORE),
        "default, stricter": FilterConfig(names=default, false_alarm=0.05),
        "without ssim": FilterConfig(names=("neighbors", "jury")),
        "without neighbors": FilterConfig(names=("jury", "ssim")),
        "reconstruction for ssim": FilterConfig(names=("reconstruction", "neighbors", "jury")),
    }


def _kept(passing: NDArray[np.bool_], judged: Judged) -> str:
    valid, invalid = passing[judged.valid], passing[~judged.valid]
    return f"{valid.mean():.2f} | {invalid.mean():.2f} ({invalid.sum()} of {len(invalid)})"


def _print_scores(scored: Scored, judged: Judged) -> None:
    print(f"{judged.valid.sum()} valid pictures, {(~judged.valid).sum()} invalid ones. Each filter alone, at rates of")
    print("false alarm on the held-out real images:\n")
    print("| score | AUROC |" + "".join(f" valid kept at {rate:.0%} | invalid kept |" for rate in _RATES))
    print("|---|---:|" + "---:|---:|" * len(_RATES))
    for name in scored.names:
        alone = [FilterConfig(names=(name,), false_alarm=rate) for rate in _RATES]
        area = roc_auc_score(judged.valid, scored.others["judged"][:, scored.names.index(name)])
        print(
            f"| {name} | {area:.2f} | "
            + " | ".join(_kept(scored.passing(each, "judged"), judged) for each in alone)
            + " |"
        )


def _print_chains(scored: Scored, judged: Judged, chains: Mapping[str, FilterConfig]) -> None:
    print(
        "\nChains, as a comparison calibrates them; the rate is the share of held-out real images that all filters of"
    )
    print(
        "one together may reject. AUROC is that of the rank of the worst score among those of held-out real images:\n"
    )
    print("| chain | filters | rate | valid kept | invalid kept | AUROC |\n|---|---|---:|---:|---:|---:|")
    for title, chain in chains.items():
        area = roc_auc_score(judged.valid, scored.worst_rank(chain, "judged"))
        kept = _kept(scored.passing(chain, "judged"), judged)
        print(f"| {title} | {', '.join(chain.names or ())} | {chain.false_alarm:.0%} | {kept} | {area:.2f} |")


def _print_tools(scored: Scored, judged: Judged, chains: Mapping[str, FilterConfig]) -> None:
    tools = sorted(set(judged.tool.tolist()))
    print("\nKept of the valid, by the generator that made them:\n")
    print("| chain | " + " | ".join(_TOOLS.get(tool, tool) for tool in tools) + " |\n|---|" + "---:|" * len(tools))
    for title, chain in chains.items():
        passing = scored.passing(chain, "judged")
        shares = [passing[judged.valid & (judged.tool == tool)].mean() for tool in tools]
        print(f"| {title} | " + " | ".join(f"{share:.2f}" for share in shares) + " |")


def _print_wrecked(scored: Scored, chains: Mapping[str, FilterConfig], kinds: Sequence[str]) -> None:
    print("\nKept of real images of the training split, and of those wrecked:\n")
    print("| chain | " + " | ".join(kinds) + " |\n|---|" + "---:|" * len(kinds))
    for title, chain in chains.items():
        print(f"| {title} | " + " | ".join(f"{scored.passing(chain, kind).mean():.2f}" for kind in kinds) + " |")


if __name__ == "__main__":
    main()
