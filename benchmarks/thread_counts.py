"""With how many threads pictures are drawn and clustered soonest.

    python -m benchmarks.thread_counts PHOTOGRAPHS CLUSTERED [--sides 32 64 96 224] [--threads 1 2] [--rounds 5]

Both are data as ``diffgen compare`` takes them. Drawn are ``--pictures`` pictures from genes at random, by the default
operators, from PHOTOGRAPHS brought to each number of pixels a side: shared out among the threads, whatever their size
(:mod:`diffgen.sources.chains`), and, "undivided", by torch, which divides each operation. Clustered are 1,000 random
pictures of CLUSTERED as the default search does (:mod:`diffgen.search.clustering`), by so many threads of numpy's.
Medians of the rounds by the clock, lowest to highest in brackets; every round takes each way once.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from unittest import mock

import torch
from threadpoolctl import threadpool_limits

from diffgen.data import load
from diffgen.gan_training.augmentation import plain_background
from diffgen.sampling import random_rows
from diffgen.search import clustering
from diffgen.search.diversity import PixelEmbedding
from diffgen.sources import chains
from diffgen.sources.operators import Scene, is_grey
from diffgen.sources.seeds import SeedsSettings, SeedsSource
from diffgen.sources.space import random_genes
from diffgen.techniques import preset
from diffgen.threads import torch_threads

_CLUSTERED = 1000  # as many as the default search clusters at once


def drawing(source: str, side: int, pictures: int) -> Callable[[int, float], float]:
    """Draws pictures of a size with so many threads, shared out from so many values a picture on; milliseconds each."""
    images = load(source, resize=side).images
    real = torch.from_numpy(images)
    scene = Scene(real, plain_background(real), grey=is_grey(images))
    drawn = SeedsSource(scene, SeedsSettings(), device=torch.device("cpu"))
    genes = random_genes(drawn.space, pictures, torch.Generator().manual_seed(0))

    def draw(threads: int, small: float) -> float:
        with torch_threads(threads), mock.patch.object(chains, "_SMALL", small):
            started = time.perf_counter()
            drawn.draw(genes)
            return 1000 * (time.perf_counter() - started) / pictures

    return draw


def clusters(source: str) -> Callable[[int], float]:
    """Clusters pictures with so many threads; milliseconds."""
    images = load(source).images
    points = PixelEmbedding().points(torch.from_numpy(images[random_rows(len(images), _CLUSTERED)])).numpy()
    config = preset("diffgan", "default")

    def cluster(threads: int) -> float:
        # in the place of the one thread that it asks for itself
        limits = partial(threadpool_limits, threads)
        with mock.patch.object(clustering, "threadpool_limits", lambda _, user_api: limits(user_api=user_api)):
            started = time.perf_counter()
            clustering.representative_rows(points, config, seed=0)
            return 1000 * (time.perf_counter() - started)

    return cluster


def measured(ways: Mapping[str, Callable[[], float]], rounds: int) -> list[str]:
    """A row a way."""
    found = defaultdict(list)
    for number in range(rounds + 1):
        for name, way in ways.items():
            spent = way()
            if number:  # the first round warms up
                found[name].append(spent)
    return [
        f"| {name} | {statistics.median(each):,.2f} ({min(each):,.2f} to {max(each):,.2f}) |"
        for name, each in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photographs")
    parser.add_argument("clustered")
    parser.add_argument("--sides", type=int, nargs="+", default=[32, 64, 96, 224])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cluster-threads", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--pictures", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("| | milliseconds |\n|---|---:|")
    for side in options.sides:
        draw = drawing(options.photographs, side, options.pictures)
        ways = {}
        for threads in options.threads:
            ways[f"a picture of {side} pixels a side, {threads} thread(s)"] = partial(draw, threads, 0)
            if threads > 1:
                ways[f"the same, {threads} thread(s), undivided"] = partial(draw, threads, math.inf)
        print(*measured(ways, options.rounds), sep="\n", flush=True)
    cluster = clusters(options.clustered)
    ways = {f"a clustering, {threads} thread(s)": partial(cluster, threads) for threads in options.cluster_threads}
    print(*measured(ways, options.rounds), sep="\n")


if __name__ == "__main__":
    main()
