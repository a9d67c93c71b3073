"""Archives of TorchScript with members of somebody else."""

from __future__ import annotations

import zipfile


def rewritten(path, change, ending=".py"):
    """The archive with its code, or other members, changed."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, change(content) if name.endswith(ending) else content)
    return path
