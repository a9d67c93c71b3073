"""How much of the time a search spends in the networks.

    python -m benchmarks.throughput --quick --json
    python -m benchmarks.throughput --models resnet20
    python -m benchmarks.throughput --population 4096 --device cuda --json

Networks of fixed architecture and seed, an archive filled by the benchmark (``benchmarks.fixed_networks``); no file is
read. A round is as many images through the networks alone (latent vectors -> generator -> bytes -> both classifiers'
probabilities, in the batch size that does best) as one generation asks about, then one generation. ``forward_share``
is the median over the rounds of the search's images a second over the networks' own; ``..._cpu`` is the same with
processor time, which other work on the machine disturbs less. ``with_filters`` is the same with the default filters
asked about every trigger, as the default search does; they are no part of the networks alone. On a GPU the population
is wanted larger than the default one, and the operators are tensors. The last line of stdout is one JSON object with
--json.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

import torch

from benchmarks.fixed_networks import LATENT_DIM, FixedNetworks, make_filters, make_networks
from benchmarks.measured_search import Cost, MeasuredSearch, Stopwatch, median
from diffgen.comparison.machine import resolve_batch_size, resolve_device
from diffgen.config import SearchConfig, replace
from diffgen.filters import FilterPipeline
from diffgen.techniques import preset

_CPU_BATCHES = (32, 64, 128, 256)
_GPU_BATCHES = (256, 512, 1024, 2048, 4096, 8192)


def forward(networks: FixedNetworks, images: int, batch: int, device: torch.device) -> tuple[Cost, int]:
    """What it costs the networks alone to draw and classify at least so many images."""
    count = max(1, round(images / batch))
    latents = torch.randn(batch, LATENT_DIM, generator=torch.Generator().manual_seed(1)).to(device)
    with torch.inference_mode(), Stopwatch(device) as watch:
        for _ in range(count):
            networks.forward_only(latents)
    return watch.cost, count * batch


def best_batch(networks: FixedNetworks, images: int, device: torch.device) -> int:
    """The batch size in which the networks alone are fastest."""
    rates = {}
    for batch in _CPU_BATCHES if device.type == "cpu" else _GPU_BATCHES:
        forward(networks, batch, batch, device)
        costs = [forward(networks, max(images, batch), batch, device) for _ in range(2)]
        rates[batch] = max(count / (cost.cpu if device.type == "cpu" else cost.wall) for cost, count in costs)
    return max(rates, key=lambda batch: rates[batch])


def measure(
    networks: FixedNetworks,
    config: SearchConfig,
    *,
    archived: int,
    rounds: int,
    batch: int,
    device: torch.device,
    filters: FilterPipeline | None = None,
) -> dict[str, Any]:
    """Rounds of the networks alone and of the search in turn."""
    search = MeasuredSearch(
        networks,
        config,
        archived=archived,
        batch_size=resolve_batch_size(None, device),
        device=device,
        filters=filters,
    )
    search.generation()  # the first population, and whatever is compiled on first use
    alone, searching, triggers, asked = [], [], 0, 0
    for _ in range(rounds):
        cost, images = forward(networks, config.population, batch, device)
        alone.append((images / cost.wall, images / max(cost.cpu, 1e-9)))
        cost, queries, found = search.generation()
        searching.append((queries / cost.wall, queries / max(cost.cpu, 1e-9)))
        triggers += found
        asked += queries
    return {
        "forward_only_per_s": round(median([wall for wall, _ in alone]), 1),
        "search_per_s": round(median([wall for wall, _ in searching]), 1),
        "forward_share": round(median([s[0] / a[0] for s, a in zip(searching, alone, strict=True)]), 4),
        "forward_share_cpu": round(median([s[1] / a[1] for s, a in zip(searching, alone, strict=True)]), 4),
        "archive": archived,
        "population": config.population,
        "rounds": rounds,
        "new_triggers_per_query": round(triggers / asked, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute on two idle cores")
    parser.add_argument("--json", action="store_true", help="last line: the figures as one JSON object")
    parser.add_argument("--models", choices=("lenet5", "resnet20"), default="lenet5")
    parser.add_argument("--archive", type=int, default=50_000, help="triggers in the archive")
    parser.add_argument("--paper-archive", type=int, help="the same for the preset paper (default: 300 or 2000)")
    parser.add_argument("--no-paper", action="store_true", help="leave the preset paper out")
    parser.add_argument("--rounds", type=int, help="default: 12 with --quick, else 60")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, help="of torch; default: its own choice")
    parser.add_argument("--population", type=int, default=SearchConfig().population)
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    device = resolve_device(arguments.device)
    rounds = arguments.rounds or (12 if arguments.quick else 60)
    networks = make_networks(arguments.models, device)
    config = replace(preset("diffgan", "default").search, population=arguments.population)
    batch = best_batch(networks, 512 if arguments.models == "lenet5" else 64, device)
    result = {
        **measure(networks, config, archived=arguments.archive, rounds=rounds, batch=batch, device=device),
        "models": arguments.models,
        "device": str(device),
        "threads": torch.get_num_threads(),
        "best_batch": batch,
    }
    print(_line("default", result), file=sys.stderr)
    result["with_filters"] = measure(
        networks,
        config,
        archived=arguments.archive,
        rounds=rounds,
        batch=batch,
        device=device,
        filters=make_filters(arguments.models, networks, device),
    )
    print(_line("default, filters asked", result["with_filters"]), file=sys.stderr)
    if not arguments.no_paper:
        paper_archive = arguments.paper_archive or (300 if arguments.quick else 2000)
        result["paper"] = measure(
            networks,
            preset("diffgan", "paper").search,
            archived=paper_archive,
            rounds=2 if arguments.quick else 5,
            batch=batch,
            device=device,
        )
        print(_line("paper", result["paper"]), file=sys.stderr)
    if arguments.json:
        print(json.dumps(result))


def _line(name: str, figures: dict[str, Any]) -> str:
    return (
        f"{name}: networks alone {figures['forward_only_per_s']:,.0f} images/s, search {figures['search_per_s']:,.0f}, "
        f"share {figures['forward_share']:.2f} (processor time {figures['forward_share_cpu']:.2f}), archive "
        f"{figures['archive']:,}"
    )


if __name__ == "__main__":
    main()
