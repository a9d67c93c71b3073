"""What a comparison takes with 10, 1,000 and 10,000 classes: memory, processor time, and the size of what it writes.

    python -m benchmarks.many_classes --classes 10 1000 10000 --queries 5000

For each number of classes two nets of so many outputs (:mod:`benchmarks.nets_of_kinds`) are compared on the digits that
ship with scikit-learn, each in a process of its own, by the technique random_latent on a GAN that is hardly trained:
what is drawn is no matter here. Printed as a table.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

# fmt: off
_TITLES = {
    "classes": "classes", "triggers": "triggers", "label_pairs": "label pairs", "peak_mib": "peak memory, MiB",
    "seconds": "processor time, s", "report_seconds": "of it the report, s", "bytes_a_trigger": "bytes a trigger",
    "results_kib": "results.json, KiB", "report_kib": "report.html, KiB",
}
# fmt: on


@dataclass(frozen=True)
class Row:
    """What one comparison took."""

    classes: int
    triggers: int
    label_pairs: int
    peak_mib: int
    seconds: float
    report_seconds: float
    bytes_a_trigger: int
    results_kib: int
    report_kib: int


def measure(classes: int, queries: int) -> Row:
    """Compare two nets of so many classes, in this process."""
    from benchmarks.nets_of_kinds import make_nets
    from diffgen.config import Budget, CompareConfig, FilterConfig, GanConfig, SourceConfig
    from diffgen.workflows.compare import compare
    from diffgen.workflows.listing import draw_report

    config = CompareConfig(
        technique="random_latent",
        budget=Budget(queries=queries),
        device="cpu",
        source=SourceConfig(family="gan"),
        gan=GanConfig(width=16, steps=50, batch_size=32, monitor_checks=0),
        filters=FilterConfig(names=()),
        data_labels="ignore",
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        nets = make_nets(folder, classes)
        started = time.process_time()
        result = compare(*nets, data="digits:test", config=config, output=folder / "run")
        drawn = time.process_time()
        page = draw_report(result.run)
        ended = time.process_time()
        written = sum(each.stat().st_size for each in (folder / "run" / "triggers").iterdir())
        return Row(
            classes=classes,
            triggers=result.triggers,
            label_pairs=result.label_pairs,
            peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            seconds=round(drawn - started, 1),
            report_seconds=round(ended - drawn, 1),
            bytes_a_trigger=written // max(1, result.triggers),
            results_kib=(folder / "run" / "results.json").stat().st_size // 1024,
            report_kib=page.stat().st_size // 1024,
        )


def in_a_process(classes: int, queries: int) -> Row:
    """:func:`measure` in a process of its own, whose peak of memory is that of this one comparison."""
    words = [sys.executable, "-W", "ignore", "-m", "benchmarks.many_classes", "--alone", str(classes)]
    done = subprocess.run([*words, "--queries", str(queries)], stdout=subprocess.PIPE, text=True, check=True)
    return Row(**json.loads(done.stdout.splitlines()[-1]))


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--classes", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--alone", type=int, help="of this process, as JSON")
    given = parser.parse_args(arguments)
    if given.alone is not None:
        print(json.dumps(asdict(measure(given.alone, given.queries))))
        return
    in_a_process(given.classes[0], 50)  # afterwards GAN and encoder are in the cache for all of them
    print(f"| {' | '.join(_TITLES.values())} |\n|{'---:|' * len(_TITLES)}", flush=True)
    for classes in given.classes:
        row = asdict(in_a_process(classes, given.queries))
        print(f"| {' | '.join(f'{row[name]:,}' for name in _TITLES)} |", flush=True)


if __name__ == "__main__":
    main()
