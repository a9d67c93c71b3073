"""Outputs that would replace or remove what is not ours, streams that cannot be written, signals, and races."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.adversary.harness import Case

_VERBS = {
    "export": "diffgen export run -o {}",
    "label": "diffgen label run --export {}",
    "compare": "diffgen compare a.pt b.onnx --data data.npz --technique real_data --filters none --budget 50q -q -o {}",
    "quantize": "diffgen quantize b.onnx --data data.npz -q -o {}",
    "predict": "diffgen predict run data.npz -o {}",
    "train-gan": "diffgen train-gan data.npz --steps 1 -q -o {}",
}


def cases() -> Iterator[Case]:
    """About fifty-five."""
    for verb, command in _VERBS.items():
        for place in (
            "new/..",
            "new/../../victim",
            "$V",
            "$V/photos",
            "$V/thesis.txt",
            "/dev/null",
            "/dev/full",
            "pipe",
        ):
            yield Case(
                "outputs", f"{verb} -o {place}", command.format(place), lambda f, v: os.mkfifo(f / "pipe"), seconds=60,
                check=_all_there,
            )  # fmt: skip
            if place in ("$V", "/dev/null", "$V/photos"):
                forced = f"{command.format(place)} --force"
                # compare --force was asked to put a run there, and does so beside what is there
                beside = verb == "compare" and place != "/dev/null"
                yield Case(
                    "outputs", f"{verb} -o {place} --force", forced, codes=(0, 2) if beside else (2,), seconds=60,
                    check=_all_there, may_add=beside,
                )  # fmt: skip
    mixed = "diffgen export run -o found && cp $V/thesis.txt found/ && diffgen export run -o found --force; test -f found/thesis.txt"  # noqa: E501
    yield Case("outputs", "export --force over an export with somebody's file in it", mixed, codes=(0,))
    for command, codes in {
        "diffgen doctor | true": (0,),
        "diffgen doctor --json | head -c 5": (0,),
        "diffgen report run > /dev/full": (3,),
        "diffgen export nowhere 2> /dev/full": (2,),
        "diffgen doctor >&-": (0, 3),
        "diffgen export nowhere 2>&-": (2,),
        "diffgen export 日本": (2,),
        "diffgen export $'r\\xff'": (2,),
    }.items():
        for name, environment in {
            "": {},
            ", unbuffered": {"PYTHONUNBUFFERED": "1"},
            ", in ASCII": {"PYTHONIOENCODING": "ascii"},
        }.items():
            full = f"{command}; exit ${{PIPESTATUS[0]}}"
            yield Case("streams", f"`{command}`{name}", full, codes=codes, environment=environment)
    run = (
        "diffgen compare a.pt b.onnx --data data.npz --generator g.pt --latent-dim 8 --filters none --budget 600s -q "
        "-o out"
    )
    for name in ("INT", "TERM"):
        for after in (0.5, 3, 12):
            line = f"{run} & p=$!; sleep {after}; pkill -{name} -g 0 -f -- '[-]m diffgen compare' ; wait $p"
            yield Case("signals", f"SIG{name} after {after} s", line, codes=(0, 130, 143), seconds=60)
    twice = f"{run} & p=$!; sleep 12; pkill -TERM -g 0 -f -- '[-]m diffgen compare'; sleep 0.2; pkill -TERM -g 0 -f -- '[-]m diffgen compare'; wait $p"  # noqa: E501
    yield Case("signals", "SIGTERM twice", twice, codes=(0, 130, 143), seconds=60)
    killed = (
        f"{run.replace('600s', '3000q')} & p=$!; sleep 9; pkill -KILL -g 0 -f -- '[-]m diffgen compare'; wait $p; "
        "if [ -e out ]; then diffgen compare --resume out -q; fi"
    )
    yield Case("signals", "SIGKILL, then --resume", killed, codes=(0,), seconds=120)
    both = "diffgen export run -o found & p=$!; diffgen export run -o found; a=$?; wait $p; b=$?; test -f found/triggers.csv && [ $a = 0 -o $b = 0 ]"  # noqa: E501
    yield Case("concurrency", "two exports into one folder", both, codes=(0,))
    resumed = "diffgen shrink run -q & p=$!; diffgen shrink run -q; wait $p; diffgen report run"
    yield Case("concurrency", "two shrinks of one run", resumed, codes=(0,), seconds=120)
    accepted = "for i in 1 2 3 4; do diffgen check --accept run --store s & done; wait; ls s >/dev/null 2>&1; true"
    yield Case("concurrency", "four accepts of a run that is not a check's", accepted, codes=(0,), seconds=90)
    trained = "(diffgen train-gan data.npz --steps 2 -q -o x.safetensors) & p=$!; diffgen train-gan data.npz --steps 2 -q -o y.safetensors; a=$?; wait $p; [ $? = 0 ] && [ $a = 0 ]"  # noqa: E501
    yield Case("concurrency", "two trainings of one GAN", trained, codes=(0,), seconds=240)
    reports = "for i in 1 2 3; do diffgen report run -q & done; wait; test -s run/report.html"
    yield Case("concurrency", "three reports of one run", reports, codes=(0,), seconds=90)


def _all_there(folder: Path) -> str:
    """Nothing of the case's own folder was removed, and the devices are devices."""
    missing = [name for name in ("data.npz", "a.pt", "b.onnx", "run/manifest.json") if not (folder / name).is_file()]
    devices = [name for name in ("/dev/null", "/dev/full") if not Path(name).is_char_device()]
    return ", ".join([*(f"{name} is gone" for name in missing), *(f"{name} was replaced" for name in devices)])
