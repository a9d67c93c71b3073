"""Parts beside what they stand in for: folded network, nearest real images, near-duplicates, SSIM; and operators.

    python -m benchmarks.parts DATA... --gan GAN.safetensors...

Both ways of a part take turns; what is printed is the median over the rounds of processor time a picture, and of the
ratio within a round. Networks draw as the source does, 32 pictures at once: one of the default size for 28x28 grey
pixels, not trained, and those of the files. Of each data set all images but a tenth are the real ones, as in a run;
the queries are pictures that the search's operators make of all of them, compared as the filter ``ssim`` compares them.
Groups of near-duplicates among all images of a set, as ``export --for-training`` needs them, are found once each way.
The filter ``ssim``, calibrated as in a run, is asked about the queries for scores, and for whether it accepts them.
Last come the operators that need no network: what each takes for a picture at half of its usual strength, 30 at once,
as many as a generation of 500 pictures has of one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from diffgen.config import FilterConfig, GanConfig
from diffgen.data import load
from diffgen.features.nearest import Nearest
from diffgen.features.shrinking import shrunk
from diffgen.filters import FilterPipeline, SsimFilter
from diffgen.gan_training import checkpoint
from diffgen.gan_training.augmentation import plain_background
from diffgen.gan_training.networks import DcganGenerator, folded
from diffgen.metrics.near_duplicates import directions_of
from diffgen.metrics.relatives import groups_of_relatives
from diffgen.origins import NO_SEED
from diffgen.runs.images import ImageColumn
from diffgen.sampling import random_rows
from diffgen.sources.operators import OPERATORS, Scene
from diffgen.sources.operators.base import is_grey
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import latent_space, random_genes
from diffgen.types import UInt8Array

_DRAWN, _AT_ONCE = 640, 32  # pictures a round
_WANTED = 10  # nearest images
_ASKED_AT_ONCE, _COMPARED_AT_ONCE, _CHANGED_AT_ONCE = 100, 512, 30
_CPU = torch.device("cpu")


def main() -> None:
    """Measure each part and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", metavar="DATA", help="real images")
    parser.add_argument("--gan", type=Path, nargs="+", default=[], metavar="FILE", help="trained GANs")
    parser.add_argument("--queries", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = {source: torch.from_numpy(load(source).images) for source in arguments.data}
    gan = GanConfig()
    networks = {"not trained": DcganGenerator((1, 28, 28), latent_dim=gan.latent_dim, width=gan.width, classes=10)}
    networks |= {path.stem: checkpoint.load(path, device=_CPU).generator for path in arguments.gan}
    print("| GAN | pixels | as trained, ms | folded, ms | folded / as trained | greatest difference, grey levels |")
    print("|---|---|---:|---:|---:|---:|")
    for name, network in networks.items():
        print(f"| {name} | {_size(network.image_shape)} | {drawing(network, arguments.rounds)} |")
    print("\n| data | pixels | real | exact, ms | `Nearest`, ms | `Nearest` / exact | the nearest | the ten nearest |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for source, images in data.items():
        print(f"| {source} | {_size(images.shape[1:])} | {finding(images, arguments.queries, arguments.rounds)} |")
    print("\n| data | pixels | images | groups | all with all, s | cells, s | cells / all with all | same groups |")
    print("|---|---|---:|---:|---:|---:|---:|---|")
    for source, images in data.items():
        print(f"| {source} | {_size(images.shape[1:])} | {grouping(images.numpy())} |")
    print("\n| data | pixels | scores, ms | yes or no, ms | yes or no / scores | accepted | decided alike |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for source, images in data.items():
        print(f"| {source} | {_size(images.shape[1:])} | {deciding(images, arguments.queries, arguments.rounds)} |")
    print("\n| data | pixels | operator | ms |\n|---|---|---|---:|")
    for source, images in data.items():
        for name, cost in changing(images, arguments.rounds):
            print(f"| {source} | {_size(images.shape[1:])} | {name} | {cost} |")


def drawing(network: DcganGenerator, rounds: int) -> str:
    """What a picture costs as trained and folded, the ratio, and how much pixels differ."""
    trained, quick = network.eval(), folded(network)
    space = latent_space(network.latent_dim, "normal", network.classes)
    batches = random_genes(space, _DRAWN, torch.Generator().manual_seed(0)).split(_AT_ONCE)
    with torch.inference_mode():
        apart = max(float((trained(batch) - quick(batch)).abs().max()) for batch in batches)
        costs = in_turn(
            [lambda: [trained(batch) for batch in batches], lambda: [quick(batch) for batch in batches]], rounds
        )
    return f"{_costs(costs, _DRAWN)} | {127.5 * apart:.4f}"


def finding(images: torch.Tensor, queries: int, rounds: int) -> str:
    """What a picture costs with all distances and with :class:`Nearest`, and the share of the nearest that it finds."""
    asked = _directions(_changed(images, queries))
    real = _directions(_parts(images)[0])
    nearest, energies = Nearest(real), real.square().sum(dim=1)

    def all_distances() -> torch.Tensor:
        found = [torch.addmm(energies, each, real.T, alpha=-2) for each in asked.split(_ASKED_AT_ONCE)]
        return torch.cat([each.topk(_WANTED, dim=1, largest=False).indices for each in found])

    def by_directions() -> torch.Tensor:
        return torch.cat([nearest.find(each, _WANTED)[0] for each in asked.split(_ASKED_AT_ONCE)])

    with torch.inference_mode():
        exact = torch.cdist(asked.double(), real.double()).topk(_WANTED, dim=1, largest=False).indices
        found = by_directions()
        costs = in_turn([all_distances, by_directions], rounds)
    first = (found[:, 0] == exact[:, 0]).double().mean()
    ten = (found[:, :, None] == exact[:, None, :]).any(dim=2).double().mean()
    return f"{len(real):,} | {_costs(costs, queries)} | {first:.2%} | {ten:.2%}"


def grouping(images: UInt8Array) -> str:
    """Seconds to find the groups of near-duplicates by comparing all with all and by cells, and whether they agree."""
    threshold = FilterConfig().near_duplicate
    marks = [time.process_time()]
    vectors = np.concatenate([directions_of(each) for each in ImageColumn.of(images).batches()])
    pairs = []
    for start in range(0, len(vectors), _COMPARED_AT_ONCE):
        block = vectors[start : start + _COMPARED_AT_ONCE] @ vectors[: start + _COMPARED_AT_ONCE].T
        pairs.append(np.argwhere(block >= threshold) + np.array([start, 0]))
    ends = np.concatenate(pairs)
    links = coo_matrix((np.ones(len(ends), dtype=np.bool_), (ends[:, 0], ends[:, 1])), shape=(len(images), len(images)))
    slow = connected_components(links, directed=False)[1]
    marks.append(time.process_time())
    alone = np.full(len(images), NO_SEED, dtype=np.int64)
    quick = groups_of_relatives(ImageColumn.of(images).batches(), alone, threshold=threshold)
    marks.append(time.process_time())
    before, after = (later - earlier for earlier, later in pairwise(marks))
    groups = int(quick.max()) + 1
    same = len(np.unique(np.stack([slow, quick]), axis=1).T) == groups == int(slow.max()) + 1
    return (
        f"{len(images):,} | {groups:,} | {before:.1f} | {after:.1f} | {after / before:.2f} | {'yes' if same else 'no'}"
    )


def deciding(images: torch.Tensor, queries: int, rounds: int) -> str:
    """What a picture costs with the filter's score and with its decision alone, and the share decided alike."""
    asked, pipeline = _changed(images, queries), FilterPipeline([SsimFilter()])
    pipeline.fit(*_parts(images))
    slow, quick = pipeline.apply(asked).accepted, pipeline.accepts(asked)
    costs = in_turn([lambda: pipeline.apply(asked), lambda: pipeline.accepts(asked)], rounds)
    return f"{_costs(costs, queries)} | {slow.mean():.2%} | {(slow == quick).mean():.2%}"


def changing(images: torch.Tensor, rounds: int) -> list[tuple[str, str]]:
    """What a picture costs with each operator that needs no network."""
    some = images[torch.from_numpy(random_rows(len(images), _CHANGED_AT_ONCE))]
    scene = Scene(images, plain_background(images), grey=is_grey(images.numpy()))
    sides = (images.shape[2], images.shape[3])
    ways: dict[str, Callable[[], object]] = {}
    for name, operator in OPERATORS.items():
        if operator.fits(images.shape[1]) and not operator.learned:
            ranges = operator.usual(sides)
            strengths = [operator.strengths((0.5, row / len(some)), 0, ranges) for row in range(len(some))]
            ways[name] = partial(operator.apply, some, scene, strengths)
    seconds = in_turn(list(ways.values()), rounds)
    return [(name, f"{1000 * median(each[way] for each in seconds) / len(some):.3f}") for way, name in enumerate(ways)]


def _changed(images: torch.Tensor, count: int) -> torch.Tensor:
    """Random images as the search's operators change them."""
    source = SeedsSource(Scene(images, None, grey=is_grey(images.numpy())), SeedsSettings(), device=_CPU)
    return source.draw(random_genes(source.space, count, torch.Generator().manual_seed(0)))


def _parts(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Nine tenths of the images, at random, and the others."""
    chosen = torch.zeros(len(images), dtype=torch.bool)
    chosen[torch.from_numpy(random_rows(len(images), len(images) - len(images) // 10))] = True
    return images[chosen], images[~chosen]


def in_turn(ways: list[Callable[[], object]], rounds: int) -> list[tuple[float, ...]]:
    """Seconds of processor time of each way in each round, after one that is not measured."""
    seconds = []
    for _ in range(rounds + 1):
        marks = [time.process_time()]
        for way in ways:
            way()
            marks.append(time.process_time())
        seconds.append(tuple(later - before for before, later in pairwise(marks)))
    return seconds[1:]


def _costs(seconds: list[tuple[float, ...]], pictures: int) -> str:
    before, after = (1000 * median(each[way] for each in seconds) / pictures for way in (0, 1))
    return f"{before:.3f} | {after:.3f} | {median(each[1] / each[0] for each in seconds):.2f}"


def _directions(images: torch.Tensor) -> torch.Tensor:
    """float32 (N, C H W) of length 1, as the filter ``ssim`` has them."""
    return F.normalize(shrunk(images).flatten(1).to(torch.float32))


def _size(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


if __name__ == "__main__":
    main()
