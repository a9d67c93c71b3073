"""Reads which models, data and settings a run was made with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from diffgen.report.data import RunFacts
from diffgen.runs.folder import RunFolder


def read_facts(folder: RunFolder) -> RunFacts:
    """What the manifest and config.toml say of a run."""
    manifest, config = folder.manifest, folder.config()
    # A first
    models = {role: manifest["files"][role] for role in sorted(manifest["files"])}
    files = {**{f"model {role}": entry for role, entry in models.items()}, "data": manifest["data"]}
    return RunFacts(
        run=folder.path.name,
        created=manifest["created"],
        version=manifest["version"],
        command=manifest["command"],
        model_names=_names(list(models.values())),
        data_name=manifest["data"]["source"],
        settings=config,
        files={name: _file_facts(entry) for name, entry in files.items()},
    )


def _names(models: list[dict[str, Any]]) -> tuple[str, ...]:
    """What models are called; of many, those of one name with the folder that each lies in."""
    names = [str(each["name"]) for each in models]
    if len(models) == 2:
        return tuple(names)
    folders = [Path(each["path"]).parent.name if each.get("path") else "" for each in models]
    return tuple(
        f"{folder}/{name}" if folder and names.count(name) > 1 else name
        for folder, name in zip(folders, names, strict=True)
    )


def _file_facts(entry: dict[str, Any]) -> dict[str, str]:
    return {"path": str(entry.get("path") or "in memory"), "sha256": str(entry.get("sha256") or "none")}
