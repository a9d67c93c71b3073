"""Finds that a person can name: behaviours that an independent judge recognises, in equal seconds, way against way.

    python -m benchmarks.recognised OUT --shared SHARED --models MODELS [--pairs ...] [--ways ...] [--seeds 0 1 2 3 4]
        [--conditions warm cold] [--warm-seconds 60] [--cold-seconds 180] [--jobs 1] [--page FILE]
    python -m benchmarks.recognised OUT ... --only run      # or judge, or page
    python -m benchmarks.recognised OUT ... --pairs fashion --sheet FOLDER
    python -m benchmarks.recognised --count NAMES.txt KEY.json

SHARED holds ``data`` (mnist, fashion-mnist, cifar10, sign-digits) and ``models`` (published ones), MODELS is the folder
that ``python -m benchmarks.pairs`` wrote. The judge is benchmarks/judge.py, trained on the training images, which
neither jury nor filters nor models under test know; it is trained on first use (``python -m benchmarks.judge``). Of
ResNet-8 and its 8 bits the published ResNet-20 and ResNet-32 of other people judge.

Each cell is one ``diffgen compare`` on the command line, in a process of one thread. "warm": everything that is trained
is in the cache, and the search has the seconds by the clock; so much processor time the cell had is on the page, and
cells of a busy machine can be told by it. "cold": an empty cache, and the command is interrupted when it and its
processes have used the seconds of processor time, whatever it does then; its budget is 20 times as long, which matters
to models so slow that a short budget makes generations smaller. Finished cells are lines of OUT/cells.jsonl
and are not made again; the judge's figures are lines of OUT/judged.jsonl. Runs of the way ``default`` are kept for the
sheets, others are deleted when they are judged, unless --keep is said.

Counted are triggers on which the models disagreed again, that the judge recognises (all its classifiers name one class,
mean confidence 0.9), without near-duplicates, as kinds of (labels of the models x cell). "counted": only those that the
run counts itself, after its filters and its jury. Further ways: --way "NAME=words of the command line"; --slow and
--unordered of benchmarks/altered.py are among these words.

``--sheet`` draws two sheets of 100 random pictures each out of those that reports of the first of ``--ways`` lead with
(``default`` where none is named), without labels, and writes a key beside each; ``--count`` reads 100 names that a
person typed, a line each (``-`` where there is none), and prints the share that was named and the share in which the
name is the jury's.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.judge import Judge
from benchmarks.recognised_cells import REFUSED, Cell, command, figures, make
from benchmarks.recognised_cells import run as run_command
from benchmarks.recognised_page import OTHERS, page
from benchmarks.recognised_pairs import Pair, find_pairs, said
from benchmarks.recognised_sheet import count_names, draw_sheets
from diffgen.runs.files import write_text
from diffgen.sources.operators import OPERATORS, usual_operators

CONDITIONS = ("warm", "cold")


_USUAL = {"": usual_operators(1), "-of-colour": usual_operators(3)}


def _operators(names: Iterable[str]) -> tuple[str, str]:
    """Operators that real images are changed by, as words of the command line."""
    return "--set", f"source.seeds.operators={json.dumps(list(names))}"


# name -> words of the command line; a version that does not know them leaves them out, and says so
WAYS = {
    "default": (),
    "gan": ("--source", "gan"),
    "seeds": ("--source", "seeds"),
    **{name: ("--technique", name) for name in OTHERS},
    # ablations
    "genes-unscreened": ("--set", "search.screen=pictures"),
    "unscreened": ("--set", "search.screen=none"),
    "divergence-alone": ("--objectives", "divergence"),
    "diversity-alone": ("--objectives", "diversity"),
    "unordered": ("--unordered",),
    "near-duplicates": ("--set", "filters.near_duplicate=1"),
    **{
        f"no-{name}{whose}": _operators(other for other in usual if other != name)
        for whose, usual in _USUAL.items()
        for name in usual
    },
    "every-operator": _operators(OPERATORS),
}
STANDARD = ("default", "random_seeds", "gan", "seeds", "real_data", "random_latent", "dflare", "drfuzz")
_WARMING = "64q"
_CLOCK_LIMIT = 20  # times its processor seconds: so long may a cold command last by the clock, on a busy machine


class Measurement:
    """All cells asked for, those that are made already, and where they are kept."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.out: Path = arguments.out
        self.out.mkdir(parents=True, exist_ok=True)
        self.ways: dict[str, tuple[str, ...]] = {**WAYS, **dict(map(_way, arguments.way))}
        self.quick: tuple[str, ...] = tuple(shlex.split(arguments.words))
        self.seconds = {"warm": arguments.warm_seconds, "cold": arguments.cold_seconds}
        self.queries: int | None = arguments.queries
        self.keep: bool = arguments.keep
        self.jobs: int = arguments.jobs
        self._found = find_pairs(arguments.shared, arguments.models, self.out / "models")
        self._pairs: dict[str, Pair] = {}
        self._lock = threading.Lock()
        self._judges: dict[str, Judge] = {}
        self.cells = [
            Cell(pair, condition, way, seed)
            for seed in arguments.seeds
            for condition in arguments.conditions
            for pair in arguments.pairs
            for way in arguments.ways or [*STANDARD, *dict(map(_way, arguments.way))]
        ]

    def pair(self, name: str) -> Pair:
        """Made when first asked for."""
        with self._lock:
            if name not in self._pairs:
                self._pairs[name] = self._found[name]()
            return self._pairs[name]

    def judge(self, pair: Pair) -> Judge:
        """That of the pair's images, trained when first asked for."""
        with self._lock:
            key = str(pair.judges or pair.training)
            if key not in self._judges:
                self._judges[key] = pair.judge()
            return self._judges[key]

    def lines(self, name: str) -> dict[Cell, dict[str, Any]]:
        """What is kept of finished cells; of a cell with several lines the last."""
        file = self.out / f"{name}.jsonl"
        found = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
            values = json.loads(line)
            found[Cell(**values.pop("cell"))] = values
        return found

    def note(self, name: str, cell: Cell, values: Mapping[str, Any]) -> None:
        """Keep a line."""
        with self._lock, (self.out / f"{name}.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"cell": asdict(cell), **values}) + "\n")

    # -- the runs ----------------------------------------------------------------------------------------------------

    def budget(self, condition: str) -> str:
        """Of a command. A cold one is interrupted after its processor time; the clock must not end it before."""
        seconds = self.seconds[condition] * (_CLOCK_LIMIT if condition == "cold" else 1)
        return f"{seconds:g}s" if self.queries is None else f"{self.queries}q"

    def run(self) -> None:
        """Make all cells that are not there yet."""
        done = self.lines("cells")
        for cell in self.cells:
            if cell in done and done[cell].get("budget") != self.budget(cell.condition):
                raise SystemExit(
                    f"{_text(cell)}: {self.out} has it with a budget of {done[cell].get('budget')}, and one page would "
                    "show both; give another OUT."
                )
        wanted = [cell for cell in self.cells if cell not in done]
        refused = set()
        for pair, way in dict.fromkeys((each.pair, each.way) for each in wanted if each.condition == "warm"):
            if not self._warm(pair, way):
                refused.add((pair, way))
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(self._one, [cell for cell in wanted if (cell.pair, cell.way) not in refused]))

    def _warm(self, name: str, way: str) -> bool:
        """Put what a way trains into the cache; false where this version does not know the way."""
        pair, mark = self.pair(name), self.out / "warm" / f"{name}-{way}"
        if mark.exists():
            return True
        with tempfile.TemporaryDirectory() as folder:
            words = [*self.ways[way], *self.quick]
            arguments = command(pair, words, budget=_WARMING, seed=0, output=Path(folder) / "run")
            code = run_command(arguments, mark.with_suffix(".log"), cache=None)["exit_code"]
        if code not in (0, 130):
            told = mark.with_suffix(".log").read_text(encoding="utf-8").strip()[-500:]
            print(f"{name}, {way}: left out, exit code {code}: {told}", flush=True)
            return False
        mark.touch()
        return True

    def _one(self, cell: Cell) -> None:
        pair, seconds = self.pair(cell.pair), self.seconds[cell.condition]
        words = [*self.ways[cell.way], *self.quick]
        code = make(cell, pair, words, self.out, budget=self.budget(cell.condition), seconds=seconds)
        if code == REFUSED:
            log = cell.folder(self.out).with_suffix(".log")
            print(f"{_text(cell)}: left out: {log.read_text(encoding='utf-8').strip()[-300:]}", flush=True)
            return
        self.note("cells", cell, {"exit_code": code, "budget": self.budget(cell.condition)})
        print(f"{_text(cell)}: exit code {code}", flush=True)
        # at once, where it costs no training, so that the disk is not filled
        if pair.judged:
            self.judge_one(cell)

    # -- the judge ---------------------------------------------------------------------------------------------------

    def judge_all(self) -> None:
        """Judge what was run and not yet judged."""
        run, judged = self.lines("cells"), self.lines("judged")
        for cell in self.cells:
            if cell in run and cell not in judged:
                self.judge_one(cell)

    def judge_one(self, cell: Cell) -> None:
        """Figures of one run, into judged.jsonl."""
        folder = cell.folder(self.out)
        found = figures(folder, self.judge(self.pair(cell.pair)))
        self.note("judged", cell, found)
        kept = ("queries", "triggers", "recognised", "behaviours", "counted_behaviours", "near_duplicates")
        print(f"{_text(cell)}: { ({name: found.get(name) for name in kept}) }", flush=True)
        if not self.keep and cell.way != "default":
            shutil.rmtree(folder, ignore_errors=True)


def _text(cell: Cell) -> str:
    return f"{cell.pair}, {cell.condition}, {cell.way}, seed {cell.seed}"


def _way(given: str) -> tuple[str, tuple[str, ...]]:
    name, _, words = given.partition("=")
    return name, tuple(shlex.split(words))


def judges_text(measurement: Measurement, pairs: Sequence[str]) -> list[str]:
    """The accuracies of the judges that are trained, a sentence each."""
    lines = {}
    for name in pairs:
        pair = measurement.pair(name)
        if pair.judged:
            judge, real = measurement.judge(pair), pair.images()
            sure, named = judge.verdict(torch.from_numpy(real.images))
            assert real.labels is not None
            right = (named == torch.from_numpy(real.labels))[sure].float().mean().item()
            each = ", ".join(f"{kind} {share:.1%}" for kind, share in judge.accuracies.items())
            lines[str(pair.judges or pair.training)] = (
                f"{name}: accuracy {each}; recognises {sure.float().mean():.1%} of the {len(real):,} real images of "
                f"the run, {right:.1%} of them by their label."
            )
    return list(lines.values())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", default=Path("recognised"))
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--models", type=Path, default=Path("pairs"), help="OUT of benchmarks.pairs")
    names = list(find_pairs(Path(), Path(), Path()))
    parser.add_argument("--pairs", nargs="+", choices=names, default=[name for name in names if name != "digits"])
    parser.add_argument("--ways", nargs="+", help=f"out of {', '.join(WAYS)} and those of --way")
    parser.add_argument("--way", action="append", default=[], metavar="NAME=WORDS", help="a way of your own")
    parser.add_argument("--conditions", nargs="+", choices=CONDITIONS, default=["warm"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--warm-seconds", type=float, default=60)
    parser.add_argument("--cold-seconds", type=float, default=180)
    parser.add_argument("--queries", type=int, help="in place of the seconds, to see whether all runs")
    parser.add_argument("--words", default="", help="further words for every command line")
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, at most one a core")
    parser.add_argument("--keep", action="store_true", help="delete no run")
    parser.add_argument("--only", choices=("run", "judge", "page"), help="one step alone")
    parser.add_argument("--page", type=Path, help="where the page is written (default: OUT/recognised.md)")
    parser.add_argument("--sheet", type=Path, metavar="FOLDER", help="draw sheets for eyes, and no more")
    parser.add_argument("--count", type=Path, nargs=2, metavar=("NAMES", "KEY"), help="compare typed names with a key")
    return parser


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.count is not None:
        print(count_names(*arguments.count))
        return
    measurement = Measurement(arguments)
    unknown = {cell.way for cell in measurement.cells} - measurement.ways.keys()
    if unknown:
        parser.error(f"no way is called {', '.join(sorted(unknown))}; there are {', '.join(measurement.ways)}.")
    if arguments.sheet is not None:
        for name in arguments.pairs:
            way = (arguments.ways or ["default"])[0]
            cells = [replace(cell, way=way) for cell in measurement.cells if cell.pair == name]
            runs = [folder for cell in dict.fromkeys(cells) if (folder := cell.folder(measurement.out)).is_dir()]
            pair = measurement.pair(name)
            for line in draw_sheets(runs, measurement.judge(pair), pair, arguments.sheet):
                print(line)
        return
    torch.set_num_threads(1)
    steps: dict[str, Callable[[], None]] = {"run": measurement.run, "judge": measurement.judge_all}
    for name, step in steps.items():
        if arguments.only in (None, name):
            step()
    if arguments.only in (None, "page"):
        judges = judges_text(measurement, arguments.pairs)
        text = page(measurement.lines("judged"), measurement.seconds, [*judges, said(measurement.out / "models")])
        write_text(arguments.page or measurement.out / "recognised.md", text)
        print(text)


if __name__ == "__main__":
    main()
