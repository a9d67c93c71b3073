"""The page served by this process, and the browser that looks at it."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from diffgen.ui.place import Place

# of Chromium; no name of another machine leads anywhere
ARGUMENTS = ("--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")


def chromium() -> str | None:
    """Debian's, or another that is installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def served(place: Place, token: str, *, first: str = "") -> Iterator[str]:
    """The address of the page, which whoever knows the token may ask.

    Args:
        place: what the page shows.
        token: that must be known.
        first: the run that is shown where none is named.
    """
    import uvicorn

    from diffgen.ui.server import Address, application, listen

    listening = listen(Address("127.0.0.1", 0))
    address = Address("127.0.0.1", listening.getsockname()[1], token)
    app = application(place, address, first=first)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{address.port}/"
    finally:
        server.should_exit = server.force_exit = True  # a page that is open still is not waited for
        thread.join(10)
