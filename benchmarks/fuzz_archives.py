"""What hostile archives are made of: members, what must not be touched, and a pickle that runs something."""

from __future__ import annotations

import io
import pickle
import random
import warnings
import zipfile
from dataclasses import dataclass
from typing import Any

Members = list[tuple[str, bytes]]


@dataclass(frozen=True)
class Target:
    """What must not be touched; ``port`` is one of 127.0.0.1."""

    file: str
    port: int


def members_of(content: bytes) -> Members:
    """Every member of a zip archive, in order."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(info.filename, archive.read(info)) for info in archive.infolist()]


def archive_of(members: Members, rng: random.Random) -> bytes:
    """A zip archive; names may stand twice."""
    stream = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", method) as archive:
        warnings.simplefilter("ignore")
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return stream.getvalue()


class _Reduced:
    """Pickled as a call of a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._call = function, arguments

    def __reduce__(self) -> Any:
        return self._call


def running_pickle(target: Target, rng: random.Random) -> bytes:
    """A pickle that runs something where it is loaded by Python."""
    import os
    import socket

    call = rng.choice(
        [
            (os.mkdir, f"{target.file}.made"),
            (os.system, f"echo > {target.file}"),
            (open, target.file, "w"),
            (exec, f"open({target.file!r}, 'w')"),
            (socket.create_connection, ("127.0.0.1", target.port)),
        ]
    )
    return pickle.dumps(_Reduced(*call), protocol=rng.choice((0, 1, 2, 4)))
