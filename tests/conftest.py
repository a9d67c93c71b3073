"""Settings and fixtures for every test: no network, no screen, and nothing of the user's own is read or written."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent

# Read by matplotlib and by rich when they are imported, here and in the processes that tests start.
os.environ["MPLBACKEND"] = "Agg"
os.environ["NO_COLOR"] = "1"
os.environ["COLUMNS"] = "120"
# As the command line sets it; read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.pop("FORCE_COLOR", None)

# A busy machine is not a wrong result, and a run that failed fails again.
settings.register_profile("diffgen", deadline=None, derandomize=True)
settings.load_profile("diffgen")


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Puts diffgen's cache into a folder of this test session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIFFGEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _offline() -> Iterator[None]:
    """Refuses every connection that leaves this machine, so that a hidden download fails here and not at a user's."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"The tests run without a network; something tried to reach {address[0]}.")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        yield


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder with the published models and data sets: DIFFGEN_SHARED, or ``shared`` beside the checkout."""
    folder = Path(os.environ.get("DIFFGEN_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"There is no folder {folder}; name the one with models/ and data/ in DIFFGEN_SHARED.")
    return folder
