"""Serves the page to who may ask: its own browser tab, under an address it was started with, and with its token."""

from __future__ import annotations

import hmac
import os
import re
import secrets
import socket
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from diffgen import api
from diffgen.errors import UserError
from diffgen.runs.outputs import hold, remove_abandoned
from diffgen.ui.jobs import Jobs
from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place, Seen

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
TOKEN = re.compile(r"[A-Za-z0-9_-]{8,200}")  # stands in an address and in a cookie as it is
# Gradio's page has scripts and styles in it, and builds its templates with Function(); nothing comes from elsewhere.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; media-src 'self' blob:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)


class Guard:
    """An ASGI application around another one.

    A request must name this host, so that no foreign name leads here (DNS rebinding); a page of another origin may
    neither read nor send anything, and a run that a foreign page links to is not started; who does not know the token
    is refused, since every account of a machine can ask 127.0.0.1.

    Args:
        names: host names under which it may be asked; empty: any, as on all addresses.
        token: that must be known, see ``TOKEN``: from the address once, from a cookie after that.
    """

    def __init__(self, app: App, names: tuple[str, ...], token: str) -> None:
        self._app, self._names, self._token = app, names, token

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Let a request in, or answer it with what is wrong."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            else:
                await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        problem = self._problem(scope, headers)
        if problem:
            await _answer(send, *problem)
            return
        cookie = f"{_cookie_name(headers)}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        tells = any(map(self._is_token, _from_address(scope)))

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                extra = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
                if b"content-security-policy" not in own:
                    extra.append((b"content-security-policy", POLICY.encode()))
                if tells:
                    extra.append((b"set-cookie", cookie.encode()))
                message = {**message, "headers": [*message["headers"], *extra]}
            await send(message)

        await self._app(scope, receive, sent)

    def _problem(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "")
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        if self._names and name.lower() not in self._names:
            return 421, f"This page answers under {', '.join(self._names)} only."
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            return 403, "Another page may not ask this one."
        foreign = headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if foreign and not (headers.get("sec-fetch-mode") == "navigate" and scope["path"] == "/"):
            return 403, "Another page may not ask this one."
        if not any(map(self._is_token, (*_from_address(scope), *_from_cookies(headers)))):
            return 401, "Open the address that diffgen ui printed: it ends with ?token=..."
        return None

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._token.encode())


def _from_address(scope: Scope) -> list[str]:
    return parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])


def _from_cookies(headers: dict[str, str]) -> Iterator[str]:
    """By hand: other programs on this machine share the cookies, and one odd cookie must not hide ours."""
    for each in headers.get("cookie", "").split(";"):
        name, _, value = each.strip().partition("=")
        if name == _cookie_name(headers):
            yield value


def _cookie_name(headers: dict[str, str]) -> str:
    """One for each port: cookies know none, and a second page must not sign out the first."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"diffgen-token-{port if port.isdigit() else 'none'}"


async def _answer(send: Any, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


_UPLOADS = re.compile(r"page-\w+")  # folders of what was dropped onto a page
# before gradio is imported: it asks for its newest version and counts its users otherwise
_SILENT = {
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "GRADIO_SHARE": "False",
    "GRADIO_RUN_HISTORY": "False",
    "GRADIO_MCP_SERVER": "False",
    "DO_NOT_TRACK": "1",
}


@dataclass(frozen=True)
class Address:
    """Where the page is served.

    Attributes:
        host, port: what is listened on; port 0 takes a free one.
        token: that must be known: every account of this machine can reach 127.0.0.1 too.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def is_local(self) -> bool:
        """Whether this machine alone can reach it."""
        return self.host in ("127.0.0.1", "localhost", "::1")

    @property
    def is_everywhere(self) -> bool:
        """Whether it stands for all addresses of this machine."""
        return self.host in ("0.0.0.0", "::")

    @property
    def names(self) -> tuple[str, ...]:
        """Under which names it may be asked; empty: any."""
        if self.is_local:
            return LOCAL_NAMES
        return () if self.is_everywhere else (_in_address(self.host).lower(),)

    @property
    def where(self) -> str:
        """The address that opens the page."""
        host = socket.gethostname() if self.is_everywhere else self.host
        return f"http://{_in_address(host)}:{self.port}/?token={self.token}"


def _in_address(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def application(place: Place, address: Address, *, first: str = "") -> Any:
    """The whole application, for a server of ASGI.

    Args:
        address: where it is served.
        first: the run that is shown first, or nothing.
    """
    jobs = Jobs(place)  # they start with the environment as it was
    os.environ.update(_SILENT)
    folder = place.own("uploads")
    folder.mkdir(parents=True, exist_ok=True)
    remove_abandoned(folder, _UPLOADS)
    uploads = tempfile.TemporaryDirectory(prefix="page-", dir=folder)
    hold(Path(uploads.name))  # until the process ends, however
    os.environ["GRADIO_TEMP_DIR"] = uploads.name
    import fastapi
    import gradio

    from diffgen.ui.page import build, look
    from diffgen.ui.routes import add_routes
    from diffgen.ui.shared import Shared

    seen = Seen(place)
    shared = Shared(place, jobs, seen, Sheets(place), first)

    @asynccontextmanager
    async def serving(_: Any) -> AsyncIterator[None]:
        with uploads:
            yield

    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=serving)
    add_routes(app, seen, shared.sheets)
    mounted = gradio.mount_gradio_app(
        app,
        build(shared),
        path="/",
        server_name=address.host,
        server_port=address.port,
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        max_file_size="2gb",
        ssr_mode=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        show_error=True,
        **look(),
    )
    return Guard(mounted, address.names, address.token)


def serve(runs: str, files: Sequence[str], address: Address, *, say: Callable[[str], None], opens: bool) -> None:
    """Serve until the process is interrupted.

    Args:
        runs: folder of runs, or one run.
        files: folders from which models and images may be picked.
        say: is told where the page is.

    Raises:
        UserError: a folder or the address cannot be used.
    """
    import uvicorn

    place, first = Place.of(runs, files)
    listening = listen(address)
    address = replace(address, port=listening.getsockname()[1])
    app = application(place, address, first=first)
    say(f"The page is on {address.where} (Ctrl-C ends it; runs go on).")
    if not address.is_local:
        say("Who knows this address can start programs of yours; it is not encrypted, so give it to nobody else.")
    threading.Thread(target=_warm_up, daemon=True).start()
    # an open tab listens for ever: without an end to the waiting, Ctrl-C would not end the page
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none", timeout_graceful_shutdown=2)
    with opened(place, address) if opens else nullcontext():
        uvicorn.Server(config).run(sockets=[listening])


@contextmanager
def opened(place: Place, address: Address) -> Iterator[None]:
    """Open the page in the browser of this machine, through a file that nobody else can read.

    Every account sees the command line of a browser, so that the token must not stand in it.
    """
    file = place.own(f"open-{address.port}.html")
    file.parent.mkdir(exist_ok=True)
    file.unlink(missing_ok=True)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as page:
        page.write(f'<meta charset="utf-8"><meta http-equiv="refresh" content="0;url={escape(address.where)}">')
    try:
        webbrowser.open(file.as_uri())
        yield
    finally:
        file.unlink(missing_ok=True)


def listen(address: Address) -> socket.socket:
    """A socket on an address; who comes before all is ready waits there. UserError if the address cannot be used."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((address.host, address.port))
        listening.listen()
    except (OSError, UnicodeError) as error:  # a name can be one that no name of a machine can be
        listening.close()
        reason = getattr(error, "strerror", None) or "this is no name of a machine"
        raise UserError(
            f"Nothing can listen on {address.host} port {address.port} ({reason}); name another with --host or --port."
        ) from error
    return listening


def _warm_up() -> None:
    """Import what the first click would wait for."""
    for name in ("browse", "inspect", "preview", "load_settings"):
        getattr(api, name)
