"""``diffgen doctor``: what diffgen finds on this machine, and what is missing."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import options

if TYPE_CHECKING:
    from diffgen.api import Examination

_EXAMPLES = """\
diffgen doctor
diffgen doctor --json                the same for a bug report
diffgen doctor --cache-limit 20GB    remove what was used least recently, until 20 GB are left
diffgen doctor --clear-cache         remove all that is kept; the next comparison trains anew
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="versions, devices, memory, cache, and what is missing",
        description="Say what diffgen finds on this machine, what is missing and what brings it. Reaches no network.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--clear-cache", action="store_true", help="remove what is kept between runs, and say what")
    parser.add_argument(
        "--cache-limit",
        metavar="SIZE",
        help="remove what was used least recently until no more than SIZE (20GB, 500MiB) is kept; what is in use stays",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")


def run(arguments: argparse.Namespace) -> int:
    """Print the examination, or what was removed."""
    if arguments.clear_cache:
        freed = api.clear_cache()
        return _finish(arguments, {"freed": freed}, _removed(freed))
    if arguments.cache_limit is not None:
        trimmed = api.limit_cache(arguments.cache_limit)
        used = f", {_size(trimmed.in_use)} of it in use" if trimmed.in_use else ""
        return _finish(arguments, asdict(trimmed), f"{_removed(trimmed.freed)}, {_size(trimmed.left)} left{used}")
    found = api.doctor()
    return _finish(arguments, found.as_dict(), _table(found))


def _finish(arguments: argparse.Namespace, values: dict[str, Any], text: str) -> int:
    if not arguments.json:
        print(text)
    return options.finish(arguments, values)


def _removed(freed: dict[str, int]) -> str:
    removed = [f"removed {kind}: {_size(size)}" for kind, size in freed.items()]
    return "\n".join([*removed, f"freed {_size(sum(freed.values()))}"])


def _table(found: Examination) -> str:
    cache = ", ".join(f"{kind} {_size(size)}" for kind, size in found.cache_sizes.items()) or "empty"
    limit = "" if found.memory_limit is None else f", of which this container may use {_size(found.memory_limit)}"
    rows = [
        *found.versions.items(),
        ("devices", ", ".join(found.devices) or "none"),
        ("cores", f"{found.cores}" + ("" if found.threads is None else f" ({found.threads} threads in torch)")),
        ("memory", _size(found.memory) + limit),
        ("free disk", _size(found.free_disk)),
        ("isolation", found.isolation),
        ("isolated", found.isolated),
        ("cache", f"{found.cache} ({cache})"),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    for part in found.missing:
        lines.append(f"optional part {part.extra} is missing ({', '.join(part.packages)}): {part.command}")
    lines += [f"problem: {problem}" for problem in found.problems] or ["no problems found"]
    return "\n".join(lines)


def _size(count: int | None) -> str:
    if count is None:
        return "unknown"
    size = float(count)
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
