"""Tries what an enemy or a clumsy hand would, and writes down what came of it.

    python -m benchmarks.adversary --write             all, some minutes; writes benchmarks/results/adversary.md
    python -m benchmarks.adversary --only models runs  cases of some kinds
    python -m benchmarks.adversary --every 10          a tenth of them

Each case is a command in a folder of its own, beside a folder of somebody else's that must stay as it is. A case is bad
where the exit code is another one than promised, a traceback or a crash is printed, a foreign file changes, or the
command does not end. The exit code is 1 when one is bad. Nothing is sent to any address but 127.0.0.1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.adversary import data, good_files, models, outputs, runs, settings
from benchmarks.adversary.harness import REPOSITORY, Case, Outcome, quoted, run

RESULT = REPOSITORY / "benchmarks" / "results" / "adversary.md"


def all_cases() -> list[Case]:
    """Every case, kind by kind."""
    return [case for module in (models, data, runs, outputs, settings) for case in module.cases()]


def main(argv: list[str] | None = None) -> int:
    """Run the cases; 1 if one is bad."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=None, metavar="KIND", help="kinds of cases")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth case")
    parser.add_argument("--write", action="store_true", help=f"write {RESULT.relative_to(REPOSITORY)}")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="cases at once")
    parser.add_argument(
        "--slowness", type=float, default=4.0, metavar="X", help="times as long as on an idle machine a case may take"
    )
    given = parser.parse_args(argv)
    cases = [case for case in all_cases() if given.only is None or case.kind in given.only][:: given.every]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        good = Path(folder) / "good"
        good_files.make(good)

        def one(numbered: tuple[int, Case]) -> Outcome:
            number, case = numbered
            outcome = run(case, good, Path(folder) / f"case-{number}", slowness=given.slowness)
            if outcome.problem:
                print(
                    f"BAD {case.kind}: {case.name}: {outcome.problem}\n"
                    f"    {case.command[:300]}\n    {outcome.text[-600:]}",
                    flush=True,
                )
            return outcome

        with ThreadPoolExecutor(given.jobs) as pool:
            outcomes = list(pool.map(one, enumerate(cases)))
    bad = sum(bool(each.problem) for each in outcomes)
    print(f"{len(outcomes)} cases, {bad} bad, {time.monotonic() - started:.0f} s")
    if given.write:
        words = [
            *(["--only", *given.only] if given.only else []),
            *(["--every", given.every] if given.every > 1 else []),
        ]
        RESULT.write_text(_page(outcomes, quoted("--write", *words)), encoding="utf-8")
    return 1 if bad else 0


def _page(outcomes: list[Outcome], options: str) -> str:
    kinds = Counter(each.case.kind for each in outcomes)
    bad = Counter(each.case.kind for each in outcomes if each.problem)
    lines = [
        "# Hostile and clumsy uses",
        "",
        f"    python -m benchmarks.adversary {options}",
        "",
        "Each case is a command in a folder of its own, beside a folder of somebody else's. A case is bad where the",
        "exit code is another one than promised, a traceback or a crash is printed, a foreign file changes, or the",
        "command does not end. `m` and `d` are the odd model and the odd data; folders in front of file names are left",
        "out. What is not defended is listed in [docs/explanation/security.md](../../docs/explanation/security.md).",
        "",
        "| kind | cases | bad |",
        "|---|--:|--:|",
        *(f"| {kind} | {count} | {bad[kind]} |" for kind, count in kinds.items()),
        f"| **all** | **{len(outcomes)}** | **{sum(bad.values())}** |",
    ]
    for kind in kinds:
        lines += [
            "",
            f"## {kind.capitalize()}",
            "",
            "| case | command | exit | said | verdict |",
            "|---|---|--:|---|---|",
        ]
        for each in (outcome for outcome in outcomes if outcome.case.kind == kind):
            verdict = f"**bad**: {each.problem}" if each.problem else "ok"
            cells = (each.case.name, f"`{_short(each.case.command)}`", str(each.code), each.sentence, verdict)
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _short(command: str) -> str:
    return command if len(command) <= 100 else f"{command[:100]}..."


def _cell(text: str) -> str:
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
    return shown.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(main())
