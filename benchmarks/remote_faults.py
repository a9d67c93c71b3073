"""Asks one of two models over HTTP, through faults, kills and a server that dies, and looks whether anything changes.

    python -m benchmarks.remote_faults

Two classifiers of the digits that ship with scikit-learn are compared, once both as files. Then the second one is
served, by a small server in this process (tensors as JSON, and as bytes) and by MLServer in an environment of its own
(``make mlserver``; left out where that is missing), and asked directly, through a proxy that spoils 5 % of all requests
(the kinds in turn as a seed says: delays, HTTP errors, garbage, answers cut off, connections dropped before and after
the server was asked), and through that proxy with the client killed by SIGKILL and the server by SIGKILL in mid-run,
each time resumed. Every run must end with the archive and the verdicts of the one with files, in every column and bit.
Writes benchmarks/results/remote.md.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import shlex
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomli_w
import torch

from benchmarks.kill_and_resume import differences, manifest_time, newest_checkpoint, wait_for
from benchmarks.quick import ACCEPT_ALL, add_quick
from diffgen.data import load
from diffgen.models import load as load_model
from diffgen.runs.folder import RunFolder
from diffgen.workflows.demo import (
    convolutional_classifier,
    dense_classifier,
    save_onnx,
    save_torchscript,
    train_classifier,
)
from tests.models.remote.fault_proxy import FaultProxy
from tests.models.remote.mlserver_process import MlServer, mlserver_python
from tests.models.remote.oip_server import OipServer, onnx_model

RESULT = Path(__file__).parent / "results" / "remote.md"
_SETTINGS = {"verify_limit": 200, "search": {"population": 256}}
_PATIENCE = 1200
_BATCH, _REPEATS = 256, 15
_BROKE_OFF = 3


@dataclass(frozen=True)
class Outcome:
    """One way of asking, and what came of it.

    Attributes:
        rate: queries a second in the search, or None: it was broken off on the way.
        sent: images sent, as the run counted them.
        injected: faults dealt out, and requests that came to the proxy.
        breaks: what broke the run, and how often it was resumed.
        differing: columns in which the archive or the verdicts differ from those of the run with files.
    """

    way: str
    rate: float | None
    sent: int | None
    injected: str
    breaks: str
    differing: list[str]


class Bench:
    """Models, settings and cache in a folder; every run is a process of its own."""

    def __init__(self, folder: Path, *, queries: int, quick: bool) -> None:
        self.folder = folder
        self.queries = queries
        training = load("digits:train")
        self.a, self.b = folder / "a.pt", folder / "b.onnx"
        save_torchscript(train_classifier(convolutional_classifier(10), training, seed=0), self.a)
        save_onnx(train_classifier(dense_classifier(10), training, seed=0), self.b)
        settings = _SETTINGS | {"filters": ACCEPT_ALL} if quick else _SETTINGS
        (folder / "settings.toml").write_text(tomli_w.dumps(settings), encoding="utf-8")
        checkout = str(Path(__file__).resolve().parent.parent)
        self._environment = {**os.environ, "PYTHONPATH": checkout, "DIFFGEN_CACHE": str(folder / "cache")}

    def start(self, run: Path, b: str) -> subprocess.Popen[bytes]:
        """A new run, or the resumption of the one that is there."""
        words = [
            *("compare", "a.pt", b, "--data", "digits:test", "--budget", f"{self.queries}q", "--seed", "7"),
            *("--config", "settings.toml", "-q", "-o", run.name),
        ]
        if (run / "config.toml").is_file():
            words = ["compare", "--resume", run.name, "--b-allow-remote", "-q"]
        return subprocess.Popen(
            [sys.executable, "-m", "diffgen", *words],
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    def finish(self, process: subprocess.Popen[bytes], expected: int = 0) -> None:
        """Wait for the end, which must be as expected."""
        _, complaint = process.communicate(timeout=_PATIENCE)
        if process.returncode != expected:
            raise RuntimeError(f"diffgen ended with {process.returncode}: {complaint.decode()}")

    def rate(self, run: Path) -> float:
        """Queries a second in the search."""
        results = RunFolder.open(run).results()
        return float(results["queries"] / results["seconds"])


def sent_in(run: Path) -> int:
    """Images that were sent, as the run counted them."""
    connection = sqlite3.connect(f"file:{run / 'answers-B.sqlite'}?mode=ro", uri=True)
    try:
        return int(connection.execute("SELECT images FROM sent").fetchone()[0])
    finally:
        connection.close()


def in_search(process: subprocess.Popen[bytes], run: Path, queries: int) -> bool:
    """Wait until so many queries are in a checkpoint; False when the process ended before."""
    before = manifest_time(run)
    wait_for(process, lambda: manifest_time(run) != before)
    wait_for(process, lambda: newest_checkpoint(run).get("queries", 0) >= queries)
    return process.poll() is None


@contextmanager
def small_server(bench: Bench, *, binary: bool) -> Iterator[OipServer]:
    """The server of the tests, in this process."""
    with OipServer({"b": onnx_model(bench.b)}, binary=binary) as server:
        yield server


def images_per_second(address: str) -> float:
    """Of requests with 256 images and nothing else."""
    images = load("digits:test").images[:_BATCH]
    model = load_model(address, batch_size=_BATCH)
    model.prepare(images)
    seconds = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        model.predict(images)
        seconds.append(time.perf_counter() - started)
    return _BATCH / statistics.median(seconds)


def proxied(origin: str, *, faults: float, seed: int) -> Any:
    """The fault proxy before a server, or nothing."""
    return FaultProxy(origin, rate=faults, seed=seed) if faults else nullcontext()


def plain(bench: Bench, way: str, run: Path, server: Any, reference: Path, *, faults: float, seed: int) -> Outcome:
    """One run without a break."""
    origin = server.address("b").partition("/v2/")[0]
    with proxied(origin, faults=faults, seed=seed) as proxy:
        bench.finish(bench.start(run, (proxy or server).address("b")))
        return Outcome(way, bench.rate(run), sent_in(run), _injected(proxy), "", differences(run, reference))


def _injected(proxy: FaultProxy | None) -> str:
    if proxy is None:
        return ""
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(proxy.injected.items()))
    return f"{proxy.injected.total()} of {proxy.requests} requests ({kinds})"


def broken(
    bench: Bench, way: str, run: Path, server: MlServer, reference: Path, *, faults: float, seed: int, kills: int
) -> Outcome:
    """The client is killed ``kills`` times, then the server once; each time the run is resumed."""
    rng = random.Random(seed)
    done = 0
    with proxied(server.origin, faults=faults, seed=seed) as proxy:
        address = (proxy or server).address("b")
        for number in range(kills):
            process = bench.start(run, address)
            if in_search(process, run, (number + 1) * bench.queries // (kills + 2)):
                time.sleep(rng.uniform(0, 0.3))
                process.kill()
                process.communicate()
                done += 1
            else:
                bench.finish(process)
        process = bench.start(run, address)
        if not in_search(process, run, (kills + 1) * bench.queries // (kills + 2)):
            raise RuntimeError("the run ended before the server could be killed")
        server.kill()
        bench.finish(process, expected=_BROKE_OFF)
        with server:
            bench.finish(bench.start(run, address))
        breaks = f"client killed {done} x (SIGKILL), server once (exit code 3)"
        return Outcome(way, None, sent_in(run), _injected(proxy), breaks, differences(run, reference))


def write(
    arguments: argparse.Namespace, outcomes: list[Outcome], throughput: dict[str, float], bench: Bench, reference: Path
) -> None:
    """The page."""
    results = RunFolder.open(reference).results()
    equal = sum(not outcome.differing for outcome in outcomes)
    command = shlex.join(["python", "-m", "benchmarks.remote_faults", *sys.argv[1:]])
    lines = [
        "# A model asked over HTTP",
        "",
        f"    {command}",
        "",
        f"Made on {datetime.now(UTC):%Y-%m-%d} with Python {sys.version.split()[0]}, torch {torch.__version__}, "
        f"{os.cpu_count()} cores ({platform.machine()}, shared with other work, so rates are low ones). What is asked, "
        "and what is done to it: [benchmarks/remote_faults.py](../remote_faults.py).",
        "",
        f"{results['queries']:,} queries on the digits, requests of up to 256 images of 28x28. The run with both "
        f"models as files found {results['triggers']:,} triggers at {bench.rate(reference):,.0f} queries/s. "
        f"**{equal} of {len(outcomes)} remote runs end with the same archive and the same verdicts, in every column "
        "and bit.** Images sent are those of the whole run: the real images, the numeric noise, the search and asking "
        f"again; what the spoilt {arguments.faults:.0%} cost is what is sent more than directly. The proxy takes "
        "requests while the server is dead, so those tries count too.",
        "",
        "| model B is asked | queries/s in the search | images sent | faults | broken off | columns that differ |",
        "|---|---:|---:|---|---|---|",
    ]
    for each in outcomes:
        rate = "" if each.rate is None else f"{each.rate:,.0f}"
        lines.append(
            f"| {each.way} | {rate} | {each.sent:,} | {each.injected or 'none'} | {each.breaks or 'no'} "
            f"| {', '.join(each.differing) or 'none'} |"
        )
    lines += [
        "",
        "Nothing but requests of 256 images, one after another, median of 15:",
        "",
        "| model B is asked | images/s |",
        "|---|---:|",
        *(f"| {way} | {rate:,.0f} |" for way, rate in throughput.items()),
    ]
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    """Ask in every way; ends with 1 when anything differs."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--queries", type=int, default=3_000, help="budget of the search (default: %(default)s)")
    parser.add_argument("--faults", type=float, default=0.05, help="share of spoilt requests (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the faults (default: %(default)s)")
    parser.add_argument("--kills", type=int, default=1, help="of the client (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=RESULT, help="page to write (default: %(default)s)")
    add_quick(parser)
    arguments = parser.parse_args()
    outcomes: list[Outcome] = []
    throughput: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="remote-faults-") as name:
        bench = Bench(Path(name), queries=arguments.queries, quick=arguments.quick)
        reference = bench.folder / "reference"
        bench.finish(bench.start(reference, "b.onnx"))
        throughput["as a file"] = images_per_second(str(bench.b))
        spoilt = {"faults": arguments.faults, "seed": arguments.seed}

        def keep(outcome: Outcome) -> None:
            outcomes.append(outcome)
            print(outcome, flush=True)

        for words, binary in (("as JSON", False), ("as bytes", True)):
            with small_server(bench, binary=binary) as server:
                throughput[f"small server, {words}"] = images_per_second(server.address("b"))
                for way, how in (("directly", {"faults": 0.0, "seed": 0}), ("through faults", spoilt)):
                    run = bench.folder / f"{binary}-{way.split()[-1]}"
                    keep(plain(bench, f"small server, {words}, {way}", run, server, reference, **how))
        python = mlserver_python()
        if python is None:
            print("There is no MLServer (make mlserver); its rows are left out.")
        else:
            place = bench.folder / "mlserver"
            place.mkdir()
            serving = MlServer(python, {"b": bench.b}, place)
            with serving:
                throughput["MLServer, as JSON"] = images_per_second(serving.address("b"))
                for way, how in (("directly", {"faults": 0.0, "seed": 0}), ("through faults", spoilt)):
                    run = bench.folder / f"mlserver-{way.split()[-1]}"
                    keep(plain(bench, f"MLServer, {way}", run, serving, reference, **how))
                run = bench.folder / "mlserver-broken"
                keep(
                    broken(bench, "MLServer, through faults", run, serving, reference, **spoilt, kills=arguments.kills)
                )
        write(arguments, outcomes, throughput, bench, reference)
    return int(any(outcome.differing for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
