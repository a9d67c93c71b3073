"""Run folders, stores and selectors of a stranger: links, names and numbers as an enemy would write them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.adversary.harness import Case

_RESUME = "diffgen compare --resume run --budget 500q"


def _linked(name: str, target: str = "thesis.txt") -> Callable[[Path, Path], None]:
    """A file or folder of the run becomes a link to somebody else's."""

    def prepare(folder: Path, victim: Path) -> None:
        path = folder / "run" / name
        if path.is_dir():
            path.rename(folder / "moved")
        path.unlink(missing_ok=True)
        path.symlink_to(victim / target)

    return prepare


def _changed(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, victim: Path) -> None:
        path = folder / "run" / name
        values = json.loads(path.read_text())
        change(values)
        path.write_text(json.dumps(values))

    return prepare


def _text(name: str, text: str | bytes) -> Callable[[Path, Path], object]:
    content = text if isinstance(text, bytes) else text.encode()
    return lambda folder, victim: (folder / "run" / name).write_bytes(content)


def _setting(line: str) -> Callable[[Path, Path], None]:
    """One value of config.toml is replaced, in a run that is not at its end."""

    def prepare(folder: Path, victim: Path) -> None:
        path = folder / "run" / "config.toml"
        key = line.split(" =")[0]
        lines = [line if each.startswith(f"{key} =") else each for each in path.read_text().splitlines()]
        path.write_text("\n".join(lines if line in lines else [line, *lines]) + "\n")
        _changed("manifest.json", lambda values: values.update(status="running"))(folder, victim)

    return prepare


def _arrays(name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Path, Path], None]:
    def prepare(folder: Path, victim: Path) -> None:
        path = next((folder / "run").glob(name))
        with np.load(path) as stored:
            values = {key: stored[key] for key in stored.files}
        change(values)
        with path.open("wb") as file:
            np.savez(file, **values)

    return prepare


def _bomb(folder: Path, victim: Path) -> None:
    with (folder / "run" / "verdicts.npz").open("wb") as file:
        np.savez_compressed(file, scores=np.zeros((1, 2**29), np.uint8))


def _store_entry(said: object) -> Callable[[Path, Path], None]:
    """A check's behaviour whose labels are what an enemy wants."""

    def change(values: dict[str, Any]) -> None:
        for each in _dicts(values):
            if "said" in each:
                each["said"] = said

    return _changed("results.json", change)


def _dicts(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for each in value.values():
            yield from _dicts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _dicts(each)


def cases() -> Iterator[Case]:
    """About fifty run folders and stores."""
    for verb in ("diffgen report run", "diffgen label run --export sheet", _RESUME, "diffgen shrink run"):
        for name in ("lock", "results.json", "manifest.json", "config.toml"):
            yield Case(
                "runs", f"{name} is a link: {verb.split(' --')[0]}", verb, _linked(name), codes=(0, 2), seconds=90
            )
    for name in ("report.html", "summary.md", "verdicts.npz", "report.npz", "checkpoint.npz"):
        yield Case("runs", f"{name} is a link", "diffgen report run", _linked(name), codes=(0, 2))
    for name in ("images", "triggers"):
        yield Case(
            "runs", f"{name}/ is a link to a folder", "diffgen report run", _linked(name, "photos"), codes=(0, 2)
        )
    yield Case(
        "runs", "the run is a link to a file", "diffgen report r", lambda f, v: (f / "r").symlink_to(v / "thesis.txt")
    )
    for name in ("manifest.json", "results.json"):
        texts: dict[str, str | bytes] = {
            "is empty": "",
            "is a list": "[]",
            "is a number": "7",
            "nests 100,000 lists": "[" * 100_000 + "]" * 100_000,
            "is not text": b"\xff\xfe\0",
            "holds a number of 5,000 digits": '{"schema_version": ' + "9" * 5000 + "}",
        }
        for what, text in texts.items():
            yield Case("runs", f"{name} {what}", "diffgen report run", _text(name, text))
    for line in (
        "seed = nan",
        "seed = -1",
        "verify_limit = inf",
        "batch_size = 0",
        "budget = '9e999s'",
        "until = 'typo'",
    ):
        yield Case("runs", f"config.toml says {line}", _RESUME, _setting(line))
    for key, value in {
        "queries": "<script>alert(1)</script>",
        "matrix": [[1]],
        "class_names": ["\u001b[2J"] * 10,
        "behaviours": -1,
        "history": None,
    }.items():
        yield Case(
            "runs", f"results.json says {key}: {str(value)[:30]!r}", "diffgen report run",
            _changed("results.json", partial(_put, key, value)), codes=(0, 2),
            check=_no_script,
        )  # fmt: skip
    for name, change in {
        "are floats": lambda v: v.update(images=v["images"].astype(np.float32)),
        "are fewer than their answers": lambda v: v.update(images=v["images"][:1]),
        "have another size": lambda v: v.update(images=v["images"][:, :, :5, :5]),
        "are missing": lambda v: v.pop("images"),
        "have answers of NaN": lambda v: v.update(probabilities=v["probabilities"] * np.nan),
    }.items():
        for verb in ("report run", "replay run", "export run -o found"):
            yield Case(
                "runs",
                f"images of the triggers {name}: {verb}",
                f"diffgen {verb}",
                _arrays("triggers/*.npz", change),
                codes=(0, 2),
            )
    yield Case("runs", "verdicts.npz unpacks to 512 MiB", "diffgen report run", _bomb, codes=(0, 2))
    yield Case(
        "runs", "a manifest that names a part outside", "diffgen report run", _changed("manifest.json", _outside)
    )
    model = _changed("manifest.json", lambda v: v["files"]["A"].update(path="/proc/kmsg"))
    yield Case("runs", "a manifest whose model is a device", "diffgen replay run", model, seconds=60)
    where = _changed("manifest.json", lambda v: v["files"]["A"].update(path="http://127.0.0.1:9/v2/models/m"))
    yield Case("runs", "a manifest whose model is an address", "diffgen replay run", where)
    yield Case("runs", "no run at all", "diffgen report nowhere")
    yield Case("runs", "a run that is a FIFO", "diffgen report pipe", lambda f, v: os.mkfifo(f / "pipe"), seconds=20)
    for name, content in {
        "a script": b"%!PS-Adobe-3.0 EPSF-3.0\nshowpage\n",
        "nothing": b"",
        "a picture of 60,000 x 60,000 pixels": None,
        "a picture with alpha": "alpha",
        "a picture of another size": "size",
    }.items():
        yield Case(
            "runs",
            f"replay of pictures, one of which is {name}",
            "diffgen replay run --images pictures",
            _replayed(content),
            codes=(0, 2),
        )
    # stores
    accept = "diffgen check --accept run --store store"
    yield Case("stores", "a run of compare is accepted", accept)
    for said in (["x/../../../victim/evil", 3], [-1, 3], [1e300, 3], [None, 3], [10**30, 3], "ab"):
        yield Case("stores", f"a behaviour that says {str(said)[:40]}", accept, _store_entry(said), codes=(0, 2))
    check = (
        "diffgen check a.pt b.onnx --data data.npz --generator g.pt --latent-dim 8 --filters none --budget 200q "
        "--random-images 50 --device cpu -q -o out --store store"
    )
    for name, prepare in {
        "is a file": lambda f, v: (f / "store").write_text("x"),
        "is somebody's folder": lambda f, v: (f / "store").symlink_to(v),
        "is a FIFO": lambda f, v: os.mkfifo(f / "store"),
        "holds a FIFO for its index": _fifo_for_index,
        "has an index that is a list": lambda f, v: ((f / "store").mkdir(), (f / "store/store.json").write_text("[]")),
        "has an index of 100,000 brackets": lambda f, v: (
            (f / "store").mkdir(),
            (f / "store/store.json").write_text("[" * 100_000),
        ),
        "has an index that is a link": lambda f, v: (
            (f / "store").mkdir(),
            (f / "store/store.json").symlink_to(v / "thesis.txt"),
        ),
    }.items():
        yield Case("stores", f"a store that {name}", check, prepare, codes=(0, 1, 2), seconds=90)
        yield Case("stores", f"accepting into a store that {name}", accept, prepare, seconds=60)


def _put(key: str, value: object, values: dict[str, Any]) -> None:
    values[key] = value


def _fifo_for_index(folder: Path, victim: Path) -> None:
    (folder / "store").mkdir()
    os.mkfifo(folder / "store/store.json")


def _outside(values: dict[str, Any]) -> None:
    parts = values["parts"]
    first = parts[0] if parts else None
    if isinstance(first, dict):
        key = next(key for key, value in first.items() if isinstance(value, str))
        first[key] = "../../victim/thesis.txt"
    else:
        parts[0] = "../../victim/thesis.txt"


def _replayed(content: bytes | str | None) -> Callable[[Path, Path], None]:
    from benchmarks.adversary.data import _png_of_size

    def prepare(folder: Path, victim: Path) -> None:
        from PIL import Image

        (folder / "pictures").mkdir()
        path = folder / "pictures" / "trigger-000000.png"
        if content == "alpha":
            Image.new("RGBA", (28, 28)).save(path)
        elif content == "size":
            Image.new("L", (5, 5)).save(path)
        else:
            assert not isinstance(content, str)
            path.write_bytes(_png_of_size(60_000, 60_000) if content is None else content)

    return prepare


def _no_script(folder: Path) -> str:
    page = folder / "run" / "report.html"
    return "a script in the page" if page.is_file() and "<script>alert" in page.read_text() else ""
