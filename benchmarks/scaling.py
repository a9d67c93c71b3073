"""How the cost of a generation grows with the population and with the archive.

    python -m benchmarks.scaling --out benchmarks/results
    python -m benchmarks.scaling --populations 100 500 --archives 0 2000 --out /somewhere

Two LeNet-5 and a generator of fixed architecture and seed (``benchmarks.fixed_networks``); the filters are not asked.
For each population size, with one size of archive, and for each archive size, with the default population: seconds of a
generation of the preset ``default``, seconds of the networks alone for as many images, and what a clustering costs.
Then a profile of one setting by function. Writes scaling.md and scaling.png.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import platform
import pstats
from dataclasses import replace
from pathlib import Path

# as the command line does; before torch is imported
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch

from benchmarks.fixed_networks import FixedNetworks, make_networks
from benchmarks.measured_search import MeasuredSearch, median
from benchmarks.throughput import forward
from diffgen.comparison.machine import resolve_batch_size
from diffgen.techniques import preset

_POPULATIONS = (100, 300, 500, 1000, 3000, 10_000)
_ARCHIVES = (0, 1000, 10_000, 50_000, 200_000)
_PROFILED = 18  # functions that the profile lists
_CPU = torch.device("cpu")

Row = dict[str, float]


def measure(networks: FixedNetworks, population: int, archived: int, rounds: int) -> Row:
    """Medians over some generations; seconds."""
    batch = resolve_batch_size(None, _CPU)
    config = replace(preset("diffgan", "default").search, population=population)
    search = MeasuredSearch(networks, config, archived=archived, batch_size=batch, device=_CPU)
    search.generation()
    generations, alone = [], []
    for _ in range(rounds):
        cost, images = forward(networks, population, batch, _CPU)
        alone.append((cost.wall * population / images, cost.cpu * population / images))
        cost, queries, _ = search.generation()
        generations.append((cost.wall * population / queries, cost.cpu * population / queries))
    return {
        "population": population,
        "archive": archived,
        "seconds": median([wall for wall, _ in generations]),
        "networks": median([wall for wall, _ in alone]),
        "seconds_cpu": median([cpu for _, cpu in generations]),
        "networks_cpu": median([cpu for _, cpu in alone]),
        "clustering": search.clustering.wall,
        "representatives": len(search.diversity.representatives),
    }


def profile(networks: FixedNetworks, archived: int, generations: int) -> list[tuple[str, float]]:
    """Share of processor time by function (its own time), the largest first."""
    config = preset("diffgan", "default").search
    search = MeasuredSearch(networks, config, archived=archived, batch_size=resolve_batch_size(None, _CPU), device=_CPU)
    search.generation()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(generations):
        search.generation()
    profiler.disable()
    stats = pstats.Stats(profiler)
    total = sum(own for _, _, own, _, _ in stats.stats.values())  # type: ignore[attr-defined]
    named = [
        (f"{Path(file).name}:{name}" if file != "~" else name, own / total)
        for (file, _, name), (_, _, own, _, _) in stats.stats.items()  # type: ignore[attr-defined]
    ]
    return sorted(named, key=lambda each: -each[1])[:_PROFILED]


def table(rows: list[Row], first: str) -> list[str]:
    """Markdown lines."""
    lines = [
        f"| {first} | a generation, s | networks alone, s | share | share, processor time | a clustering, s | repr. |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        share, cpu = row["networks"] / row["seconds"], row["networks_cpu"] / row["seconds_cpu"]
        clustering = f"{row['clustering']:.2f}" if row["clustering"] else ""
        lines.append(
            f"| {row[first]:,} | {row['seconds']:.3f} | {row['networks']:.3f} | {share:.2f} | {cpu:.2f} | "
            f"{clustering} | {row['representatives']:.0f} |"
        )
    return lines


def plot(by_population: list[Row], by_archive: list[Row], path: Path) -> None:
    """Seconds of a generation beside those of the networks alone."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import MaxNLocator

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for axis, rows, name in ((axes[0], by_population, "population"), (axes[1], by_archive, "archive")):
        x = [row[name] for row in rows]
        axis.plot(x, [row["seconds"] for row in rows], "o-", color="#1f4e79", label="a generation")
        axis.plot(x, [row["networks"] for row in rows], "s--", color="#b5651d", label="the networks alone")
        axis.set_xlabel("individuals in the population" if name == "population" else "triggers in the archive")
        axis.set_ylabel("seconds")
        if name == "population":
            axis.set_xscale("log")
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
            axis.xaxis.set_major_locator(MaxNLocator(4))
            axis.xaxis.set_major_formatter("{x:,.0f}")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def main() -> None:
    """Measure, write the page and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for scaling.md and scaling.png")
    parser.add_argument("--populations", type=int, nargs="+", default=_POPULATIONS)
    parser.add_argument("--archives", type=int, nargs="+", default=_ARCHIVES)
    parser.add_argument("--archive", type=int, default=50_000, help="beside which populations are measured")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    arguments = parser.parse_args()
    if arguments.threads is not None:
        torch.set_num_threads(arguments.threads)
    networks = make_networks("lenet5", _CPU)
    default = preset("diffgan", "default").search.population
    by_population = [measure(networks, size, arguments.archive, arguments.rounds) for size in arguments.populations]
    by_archive = [measure(networks, default, size, arguments.rounds) for size in arguments.archives]
    functions = profile(networks, arguments.archive, arguments.rounds)
    arguments.out.mkdir(parents=True, exist_ok=True)
    plot(by_population, by_archive, arguments.out / "scaling.png")
    page = [
        "# How the cost of a generation grows",
        "",
        "    python -m benchmarks.scaling --out benchmarks/results",
        "",
        f"Two LeNet-5, preset `default`, threads: {torch.get_num_threads()}, torch {torch.__version__}, Python "
        f"{platform.python_version()}; medians of {arguments.rounds} generations, the networks alone in turn. "
        "A clustering comes once for every fifth by which the archive grows; its share is counted in.",
        "",
        "![seconds of a generation](scaling.png)",
        "",
        f"## Population, beside {arguments.archive:,} archived triggers",
        "",
        *table(by_population, "population"),
        "",
        f"## Archive, population {default}",
        "",
        *table(by_archive, "archive"),
        "",
        "## Where the time goes",
        "",
        f"Own time of functions, population {default}, {arguments.archive:,} archived triggers (cProfile).",
        "",
        "| function | share |",
        "|---|---:|",
        *(f"| `{name}` | {share:.1%} |" for name, share in functions),
        "",
    ]
    (arguments.out / "scaling.md").write_text("\n".join(page), encoding="utf-8")
    print("\n".join(page))


if __name__ == "__main__":
    main()
