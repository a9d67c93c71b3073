"""The tables of the DiffGAN paper that speak of MNIST, rebuilt from our runs, the published figures beside them.

    python -m benchmarks.paper_tables TECHNIQUES [--budget 60s]

They stand in benchmarks/results/papers.md.

TECHNIQUES is the folder that ``python -m benchmarks.techniques run`` filled. Pairs are told apart by name:
structure, training-data, optimizer and hyper-parameters stand for the paper's M1 to M8 (its Table 1). Published figures
are those of one hour, the mean of three runs where the paper gives three.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.significance import mean_over_runs
from benchmarks.techniques import WAYS, read

PAIRS = {"structure": "M1, M2", "training-data": "M3, M4", "optimizer": "M5, M6", "hyper-parameters": "M7, M8"}
# In one hour: triggers (Table 4), the test set's own (#TI), improvement in % (Table 6), validity with its interval
# (Table 8, of two hours), geometric diversity and the exponent of "exponential Shannon" (Tables 10 and 13), who is
# right in %: only A, only B, neither (Table 12)
PUBLISHED: dict[str, dict[str, Any]] = {
    "structure": {
        "initial": 82,
        "triggers": {"drfuzz": (1229, 1237, 1228), "diffgan": (4932, 5188, 4963)},
        "improvement": {"drfuzz": 1401.62, "diffgan": 6030.08},
        "validity": {"drfuzz": (0.8246, 0.7848, 0.8635), "diffgan": (0.9125, 0.8819, 0.9396)},
        "diversity": {"drfuzz": (422.03, 11.36), "diffgan": (530.62, 12.10), "dflare": (-377.52, 4.74)},
        "right": {"drfuzz": (28.2, 48.0, 23.8), "diffgan": (12.1, 74.2, 13.7)},
    },
    "training-data": {
        "initial": 95,
        "triggers": {"drfuzz": (1368, 1517, 1702), "diffgan": (4327, 4531, 4161)},
        "improvement": {"drfuzz": 1610.87, "diffgan": 4462.81},
        "validity": {"drfuzz": (0.79, 0.7582, 0.82), "diffgan": (0.80, 0.76, 0.8329)},
        "diversity": {"drfuzz": (438.42, 11.39), "diffgan": (727.20, 12.21), "dflare": (132.15, 4.75)},
        "right": {"drfuzz": (29.4, 58.6, 12.0), "diffgan": (28.5, 62.0, 9.5)},
    },
    "optimizer": {
        "initial": 268,
        "triggers": {"drfuzz": (3743, 3279, 3044), "diffgan": (6399, 8191, 7600)},
        "improvement": {"drfuzz": 1679.29, "diffgan": 3037.69},
        "validity": {"drfuzz": (0.8094, 0.7692, 0.8488), "diffgan": (0.8973, 0.8687, 0.9265)},
        "diversity": {"drfuzz": (410.67, 11.50), "diffgan": (712.76, 12.27), "dflare": (-72.37, 4.77)},
        "right": {"drfuzz": (26.7, 56.0, 17.3), "diffgan": (19.8, 68.7, 11.5)},
    },
    "hyper-parameters": {
        "initial": 112,
        "triggers": {"drfuzz": (1478, 1198, 865), "diffgan": (6349, 5196, 5385)},
        "improvement": {"drfuzz": 898.21, "diffgan": 4871.43},
        "validity": {"drfuzz": (0.7469, 0.7037, 0.7910), "diffgan": (0.811, 0.7717, 0.8478)},
        "diversity": {"drfuzz": (116.72, 11.40), "diffgan": (481.94, 12.10), "dflare": (36.42, 4.79)},
        "right": {"drfuzz": (30.3, 56.9, 12.8), "diffgan": (29.8, 59.2, 11.0)},
    },
}
Cells = list[dict[str, Any]]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
        "",
    ]


def _mean(cells: Cells, name: str) -> float | None:
    values = [cell[name] for cell in cells if cell.get(name) is not None]
    return float(np.mean(values)) if values else None


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _published(pair: str, table: str, way: str) -> Any:
    return PUBLISHED.get(pair, {}).get(table, {}).get(way)


def _one_line_a_cell(cells: Cells, head: Sequence[str], line: Callable[[str, str, Cells], Sequence[str]]) -> list[str]:
    """A line for every pair and technique; what a pair is called in the paper beside its name."""
    rows = []
    for pair in dict.fromkeys(cell["pair"] for cell in cells):
        for way in WAYS:
            own = [cell for cell in cells if (cell["pair"], cell["technique"]) == (pair, way)]
            if own:
                rows.append((f"{pair} ({PAIRS[pair]})" if pair in PAIRS else pair, way, *line(pair, way, own)))
    return _table(("pair", "technique", *head), rows)


def _triggers(pair: str, way: str, cells: Cells) -> Sequence[str]:
    runs = ", ".join(f"{cell['triggers']:,}" for cell in cells)
    initial, published = cells[0]["real_disagreements"], _published(pair, "triggers", way)
    shown = ", ".join(f"{value:,}" for value in published or ())
    return runs, f"{initial:,}", shown, _number(PUBLISHED.get(pair, {}).get("initial")) if shown else ""


def _improvement(pair: str, way: str, cells: Cells) -> Sequence[str]:
    """In %, as the paper does it: (triggers - initial) / initial; -100 where nothing was found."""
    usable = [cell for cell in cells if cell["real_disagreements"]]
    gains = [[100 * (cell[name] / cell["real_disagreements"] - 1) for cell in usable] for name in ("triggers", "valid")]
    ours = (float(np.mean(each)) if each else None for each in gains)
    return *(_number(each) for each in ours), _number(_published(pair, "improvement", way))


def _validity(pair: str, way: str, cells: Cells) -> Sequence[str]:
    shown = []
    for name in ("validity", "judge_validity"):
        ratios = [cell[name] for cell in cells if cell.get(name) is not None]
        shown.append(_interval([float(np.mean(ratios)), *(mean_over_runs(ratios) or ())]) if ratios else "")
    return *shown, _number(_mean(cells, "judge_valid")), _interval(_published(pair, "validity", way) or ())


def _interval(values: Sequence[float]) -> str:
    """A figure with the ends of its interval, as far as there are any; a share of no more than 1."""
    if len(values) < 2:
        return "".join(f"{value:.3f}" for value in values)
    return f"{values[0]:.3f} [{max(0.0, values[1]):.3f}, {min(1.0, values[2]):.3f}]"


def _diversity(pair: str, way: str, cells: Cells) -> Sequence[str]:
    published = _published(pair, "diversity", way)
    ours = (_number(_mean(cells, "geometric_diversity"), 1), _number(_mean(cells, "shannon"), 2))
    return (
        *ours,
        "" if published is None else f"{published[0]:,.2f}",
        "" if published is None else f"{published[1]:.2f}",
    )


def _right(pair: str, way: str, cells: Cells) -> Sequence[str]:
    counts = np.sum([cell["who_is_right"] for cell in cells if cell.get("who_is_right")] or [[0, 0, 0]], axis=0)
    total = int(counts.sum())
    ours = [f"{count / total:.1%}" if total else "" for count in counts.tolist()]
    published = _published(pair, "right", way)
    return f"{total:,}", *ours, "" if published is None else " / ".join(f"{share}%" for share in published)


def _selector(pair: str, way: str, cells: Cells) -> Sequence[str]:
    return tuple(_number(_mean(cells, name), 3) for name in ("selector_plain", "selector", "selector_majority"))


def _redundancy(pair: str, way: str, cells: Cells) -> Sequence[str]:
    shares = [1 - cell["distinct"] / cell["valid"] for cell in cells if cell["valid"]]
    return (*_diversity(pair, way, cells), f"{np.mean(shares):.0%}" if shares else "")


# title, what the paper shows there, head of our columns and of the published ones, line
TABLES: tuple[tuple[str, Sequence[str], Callable[[str, str, Cells], Sequence[str]]], ...] = (
    (
        "Tables 4 and 5: triggers, run by run",
        ("triggers", "in the test set", "published triggers", "published in the test set"),
        _triggers,
    ),
    (
        "Tables 6 and 7: triggers more than the test set's own, in % of these",
        ("triggers, %", "valid triggers, %", "published, %"),
        _improvement,
    ),
    (
        "Tables 8 and 9: share that is valid, mean with 95 % interval over our runs",
        ("by the filters", "by the judge", "judge-valid triggers", "published, by people"),
        _validity,
    ),
    (
        "Tables 10 and 11: diversity of valid triggers",
        ("geometric diversity", "H", "published geometric diversity", "published H"),
        _diversity,
    ),
    (
        "Table 12: who is right on valid triggers, by the judge's class",
        ("triggers with a class", "only A", "only B", "neither", "published: only A / only B / neither"),
        _right,
    ),
    ("Figure 5: selectors", ("accuracy", "balanced accuracy", "always the majority"), _selector),
    (
        "Table 13: redundancy",
        ("geometric diversity", "H", "published geometric diversity", "published H", "near-duplicates"),
        _redundancy,
    ),
)


def tables(cells: Cells) -> list[str]:
    """Markdown of all tables, for every budget."""
    lines = []
    for budget in dict.fromkeys(cell["budget"] for cell in cells):
        here = [cell for cell in cells if cell["budget"] == budget]
        for title, head, line in TABLES:
            lines += [f"## {title} ({budget})", "", *_one_line_a_cell(here, head, line)]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("techniques", type=Path)
    parser.add_argument("--budget", help="only the runs of this budget; default: all")
    arguments = parser.parse_args()
    cells = [cell for cell in read(arguments.techniques) if arguments.budget in (None, cell["budget"])]
    print("\n".join(tables(cells)))


if __name__ == "__main__":
    main()
