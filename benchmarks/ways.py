"""What benchmarks have in common that search one pair of models in several ways, each with several seeds."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.quick import add_quick


def ways_from(argv: Sequence[str] | None, *, about: str | None, ways: Iterable[str]) -> argparse.Namespace:
    """The command line ``DATA A B OUT [--queries N] [--seeds N] [--quick] [--ways WAY ...]``."""
    names = list(ways)
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("out", type=Path)
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    add_quick(parser)
    parser.add_argument("--ways", nargs="+", choices=names, default=names)
    return parser.parse_args(argv)


def print_rows(found: Mapping[str, Sequence[Mapping[str, Any]]], units: Mapping[str, str]) -> None:
    """A row of a Markdown table for each way: the mean of its runs, lowest to highest in brackets.

    Args:
        found: way -> the figures of each run.
        units: name of a figure -> what stands behind its mean, in the order of the columns.
    """
    for way, runs in found.items():
        cells = []
        for name, unit in units.items():
            values = [run[name] for run in runs]
            cells.append(f"{np.mean(values):,.0f}{unit} ({min(values):,.0f} to {max(values):,.0f})")
        print(f"| {way} | {' | '.join(cells)} |")
