"""What diffgen finds on this machine: versions, devices, memory, cache, and what is missing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import diffgen
from diffgen.errors import UserError
from diffgen.runs.cache import ENVIRONMENT, KINDS, TAG, Trimmed, cache_folder, foreign_in_cache, trim
from diffgen.types import Result

_EXTRA_OF = re.compile(r"""extra\s*==\s*['"]([\w-]+)['"]""")
_NAME_OF = re.compile(r"[A-Za-z0-9][\w.-]*")
_SIZE = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*(|[kmgt]i?b|[kmgt]|b)\s*", re.IGNORECASE)
_UNITS = {"": 1, "b": 1} | {
    f"{letter}{rest}": (1024 if rest == "ib" else 1000) ** power
    for power, letter in enumerate("kmgt", start=1)
    for rest in ("", "b", "ib")
}
_DEVELOPMENT = ("test", "dev")
# importing is part of the examination: versions that do not belong together fail only then
_IMPORT_SECONDS = 120
_DEVICES = """
import json, torch
found = ["cpu"]
if torch.cuda.is_available():
    for number in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(number)
        found.append(f"cuda:{number} ({about.name}, {about.total_memory / 2**30:.0f} GiB)")
if torch.backends.mps.is_available():
    found.append("mps")
print(json.dumps({"devices": found, "threads": torch.get_num_threads()}), flush=True)
"""
_DEVICES_SAID = '{"devices": '


_ISOLATED = "TorchScript, torch.export, ONNX, Keras and TensorFlow Lite files on the CPU, but none with --allow-pickle"
_NOT_ISOLATED = "none; the first wall alone, which looks at a file before it is opened, stands"


@dataclass(frozen=True)
class Missing:
    """An optional part that is not installed.

    Attributes:
        extra: its name.
        packages: what of it is missing.
        command: what brings it.
    """

    extra: str
    packages: tuple[str, ...]
    command: str


@dataclass(frozen=True)
class Examination(Result):
    """What was found; sizes in bytes, None for what this system does not say.

    Attributes:
        versions: name -> version, of Python and of every package that diffgen needs; "missing" for those not there.
        devices: where networks can run, with names.
        cores: that this process may use.
        threads: that torch uses.
        memory: of the machine.
        memory_limit: that the container (cgroup) allows, or None for no limit.
        free_disk: where the cache lies.
        cache: the folder.
        cache_sizes: kind -> bytes, see :data:`diffgen.runs.cache.KINDS`.
        isolation: what the process of a model can and cannot do here, in a sentence.
        isolated: which models get one where nothing is said, in a sentence.
        missing: optional parts.
        problems: sentences: what does not work and how to mend it.
    """

    versions: dict[str, str]
    devices: tuple[str, ...]
    cores: int
    threads: int | None
    memory: int | None
    memory_limit: int | None
    free_disk: int | None
    cache: str
    cache_sizes: dict[str, int]
    isolation: str
    isolated: str
    missing: tuple[Missing, ...]
    problems: tuple[str, ...]


def doctor() -> Examination:
    """Look at this machine; reaches no network and changes nothing."""
    problems: list[str] = []
    versions = {
        "diffgen": diffgen.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name, extra in _requirements():
        if extra is None:
            versions[name] = _version(name)
            if versions[name] == "missing":
                problems.append(f"The package {name} is missing; pip install {name} brings it.")
    devices, threads = _torch(problems)
    cache = cache_folder()
    isolation, isolated = _isolation()
    return Examination(
        versions=versions,
        devices=devices,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        threads=threads,
        memory=_memory(),
        memory_limit=_memory_limit(Path("/sys/fs/cgroup")),
        free_disk=_free_disk(cache, problems),
        cache=str(cache),
        cache_sizes=_sizes(cache, problems),
        isolation=isolation,
        isolated=isolated,
        missing=_missing(),
        problems=tuple(problems),
    )


def _isolation() -> tuple[str, str]:
    """What an isolated model can do here, and which models are isolated."""
    try:
        from diffgen.models.isolation.wall import walls
    except Exception as error:  # torch is broken in one of many ways; _torch says how
        return f"unknown, because torch cannot be imported ({type(error).__name__})", _NOT_ISOLATED
    found = walls()
    return found.sentence, _ISOLATED if found.missing is None else _NOT_ISOLATED


# -- packages --------------------------------------------------------------------------------------------------------


def _requirements() -> list[tuple[str, str | None]]:
    """Names of what diffgen needs, with the extra that asks for it. UserError if diffgen is not installed."""
    try:
        lines = metadata.requires("diffgen") or []
    except metadata.PackageNotFoundError as error:
        raise UserError(
            "diffgen runs from a folder and is not installed, so nothing says what it needs; install it with 'pip "
            "install -e .' in its checkout."
        ) from error
    found = []
    for line in lines:
        name, extra = _NAME_OF.match(line), _EXTRA_OF.search(line)
        if name is not None:
            found.append((name[0], extra[1] if extra else None))
    return found


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _missing() -> tuple[Missing, ...]:
    lacking: dict[str, list[str]] = {}
    for name, extra in _requirements():
        if extra is not None and extra not in _DEVELOPMENT and name != "diffgen" and _version(name) == "missing":
            lacking.setdefault(extra, []).append(name)
    return tuple(
        Missing(extra, tuple(sorted(names)), f"pip install 'diffgen[{extra}]'") for extra, names in lacking.items()
    )


def _torch(problems: list[str]) -> tuple[tuple[str, ...], int | None]:
    """Devices and threads. Every torchvision belongs to one torch; another one fails only when it is imported."""
    import json

    if _version("torch") == "missing":
        return (), None
    torchvision = _version("torchvision")
    output, error = _in_new_process(_DEVICES + ("" if torchvision == "missing" else "import torchvision\n"))
    said = [line for line in output.splitlines() if line.startswith(_DEVICES_SAID)]
    if not said or (error is not None and torchvision == "missing"):
        problems.append(
            f"torch cannot be imported ({error}); pip install --force-reinstall torch torchvision mends it."
        )
        return (), None
    if error is not None:
        other = "operator torchvision::nms does not exist" in error
        reason = "torchvision was built for another torch" if other else error
        problems.append(
            f"torchvision {torchvision} cannot be imported beside torch {_version('torch')} ({reason}); "
            "install both together: pip install --force-reinstall torch torchvision."
        )
    found = json.loads(said[0])
    return tuple(found["devices"]), found["threads"]


def _in_new_process(program: str) -> tuple[str, str | None]:
    """What a program printed, and the last line of its complaint if it failed; a crash of it is not one of ours.

    What it printed before it failed is given too.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=_IMPORT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as late:
        output = late.stdout.decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout
        return output or "", f"it takes longer than {_IMPORT_SECONDS} s"
    if done.returncode == 0:
        return done.stdout, None
    lines = done.stderr.strip().splitlines()
    return done.stdout, lines[-1] if lines else f"it ended with code {done.returncode}"


# -- the machine -----------------------------------------------------------------------------------------------------


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _memory_limit(root: Path) -> int | None:
    """The smallest limit of this process's control groups, of version 2 or 1; None for none."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    limits = []
    for line in groups:
        _, controllers, group = line.split(":", 2)
        if controllers not in ("", "memory"):
            continue
        base, name = (root, "memory.max") if not controllers else (root / "memory", "memory.limit_in_bytes")
        # a container sees its own group as the root
        place = base / group.lstrip("/")
        for folder in (place, *place.parents):
            if folder == root.parent:
                break
            try:
                text = (folder / name).read_text(encoding="utf-8").strip()
            except OSError:
                continue
            if text.isdigit() and int(text) < 2**60:
                limits.append(int(text))
    return min(limits, default=None)


def _free_disk(cache: Path, problems: list[str]) -> int | None:
    try:
        there = next(each for each in (cache, *cache.absolute().parents) if each.exists())
        free = shutil.disk_usage(there).free
    except OSError:
        return None  # what is wrong is said where the cache is looked at
    if not there.is_dir():
        problems.append(
            f"The cache folder {cache} cannot be made, since {there} is a file; name another in {ENVIRONMENT}."
        )
    elif not os.access(there, os.W_OK):
        problems.append(f"The cache folder {cache} cannot be written; name another in {ENVIRONMENT}.")
    return free


def _sizes(cache: Path, problems: list[str]) -> dict[str, int]:
    try:
        return cache_sizes(cache)
    except OSError as error:
        unseen = f"The cache folder {cache} cannot be looked at ({error.strerror}); name another in {ENVIRONMENT}."
        problems += [unseen] if unseen not in problems else []
        return {}


# -- the cache -------------------------------------------------------------------------------------------------------


def cache_sizes(cache: Path) -> dict[str, int]:
    """Bytes in the cache by kind."""
    return {
        kind: sum(file.stat().st_size for file in (cache / kind).rglob("*") if file.is_file() and not file.is_symlink())
        for kind in KINDS
        if (cache / kind).is_dir() and not (cache / kind).is_symlink()
    }


def clear_cache() -> dict[str, int]:
    """Remove what diffgen keeps between runs; returns the bytes that were freed by kind.

    Raises:
        UserError: the folder holds other things too, so that it may not be a cache, or something cannot be removed.
    """
    cache = cache_folder()
    try:
        freed = cache_sizes(cache)
        _refuse_foreign(cache)
        for kind in freed:
            shutil.rmtree(cache / kind)
        (cache / TAG).unlink(missing_ok=True)
    except OSError as error:
        raise UserError(
            f"The cache {cache} cannot be cleared ({error.strerror}); see who owns {error.filename}."
        ) from error
    return freed


def limit_cache(limit: str) -> Trimmed:
    """Remove what was used least recently from the cache until it takes no more than a size; what is in use stays.

    Args:
        limit: such as ``20GB``, ``500MiB`` or a number of bytes.

    Raises:
        UserError: no such size; the folder holds other things too; or something cannot be removed.
    """
    most, cache = _bytes(limit), cache_folder()
    try:
        _refuse_foreign(cache)
    except OSError as error:
        raise UserError(f"The cache {cache} cannot be looked at ({error.strerror}); see who owns it.") from error
    return trim(cache, most)


def _refuse_foreign(cache: Path) -> None:
    foreign = foreign_in_cache(cache)
    if foreign is not None:
        raise UserError(
            f"The cache folder {cache} also holds {foreign.relative_to(cache)}, which diffgen is not known to have "
            f"made, so nothing was removed; see that {ENVIRONMENT} names the right folder, or remove that yourself."
        )


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UserError(f"The size {text!r} is not understood; write for example 20GB, 500MiB or 0.")
    return int(float(match[1]) * _UNITS[match[2].lower()])
