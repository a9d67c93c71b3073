"""Seconds and memory of what is done with a run after its end, where it has very many triggers.

    python -m benchmarks.large_run RUN OUT --triggers 30000 100000 1000000

RUN is any run that came to its end; OUT gets a large one made from it (benchmarks/enlarged.py), which is removed after
it was measured. Each command line is a process of its own, with the processes that it starts; memory is the highest
resident set of the largest of them, seconds are the processor's of all. Lines of OUT/large.jsonl are not measured
again; the table is OUT/large.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_LABELLED = 1000  # pictures of a sheet that is read back


def main() -> None:
    """Make each run, measure every command, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run that came to its end")
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--triggers", type=int, nargs="+", default=[30_000, 100_000], metavar="N")
    parser.add_argument("--only", nargs="+", metavar="COMMAND", help="some rows of the table; default: all")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    kept = arguments.out / "large.jsonl"
    for count in arguments.triggers:
        done = {each["command"] for each in _lines(kept) if each["triggers"] == count}
        place = arguments.out / str(count)
        wanted = [name for name in commands(place) if name in (arguments.only or commands(place)) and name not in done]
        if not wanted:
            continue
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        # in a process of its own: a child's highest resident set begins with that of the process that starts it
        making = "import sys; from pathlib import Path; from benchmarks.enlarged import enlarged; "
        making += "enlarged(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))"
        subprocess.run([sys.executable, "-c", making, arguments.run, place / "run", str(count)], check=True)
        for name in wanted:
            found = measured(commands(place)[name])
            with kept.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"triggers": count, "command": name, **found}) + "\n")
            for made in ("export", "dataset", "training"):  # a million pictures
                shutil.rmtree(place / made, ignore_errors=True)
        shutil.rmtree(place)
    page = table(_lines(kept))
    (arguments.out / "large.md").write_text(page, encoding="utf-8")
    print(page)


def commands(place: Path) -> dict[str, list[str]]:
    """Name -> the words of a command line about the run in a folder."""
    run, diffgen = str(place / "run"), [sys.executable, "-m", "diffgen"]
    browse = f"from diffgen import api; f = api.browse({run!r}); f.behaviours(f.numbers(api.TriggerQuery('all')))"
    return {
        "nothing": [*diffgen, "--version"],
        "report": [*diffgen, "report", run],
        "label --export": [*diffgen, "label", run, "--export", str(place / "sheet"), "--count", str(_LABELLED)],
        "label": [*diffgen, "label", run],
        "browse, behaviours": [sys.executable, "-c", browse],
        "replay --images": [*diffgen, "replay", run, "--images", "--quiet"],
        "replay": [*diffgen, "replay", run, "--quiet"],
        "export --for-training": [*diffgen, "export", run, "--for-training", str(place / "training"), "--quiet"],
        "export --dataset": [*diffgen, "export", run, "--dataset", str(place / "dataset"), "--quiet"],
        "export": [*diffgen, "export", run, "-o", str(place / "export"), "--quiet"],
    }


def measured(words: list[str]) -> dict[str, float]:
    """Seconds of the clock and of the processor, and MiB, of one command.

    Raises:
        RuntimeError: it failed.
    """
    started = time.monotonic()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)} ended with exit code {process.returncode}.")
    return {
        "clock": time.monotonic() - started,
        "processor": usage.ru_utime + usage.ru_stime,
        "memory": usage.ru_maxrss / 1024,
    }


def _lines(kept: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.is_file() else []


def table(lines: list[dict[str, Any]]) -> str:
    """A row a command, two columns a number of triggers."""
    counts = sorted({each["triggers"] for each in lines})
    heads = [f"{count:,}: s | MiB" for count in counts]
    rows = [f"| triggers | {' | '.join(heads)} |", f"|---|{'---:|---:|' * len(counts)}"]
    for name in dict.fromkeys(each["command"] for each in lines):
        cells = []
        for count in counts:
            own = [each for each in lines if (each["triggers"], each["command"]) == (count, name)]
            cells.append(f"{own[-1]['processor']:.1f} | {own[-1]['memory']:,.0f}" if own else " | ")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    main()
