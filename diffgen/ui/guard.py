"""Who may ask the page: its own browser tab, under an address that it was started with, and with its token."""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any
from urllib.parse import parse_qs

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
        app: the page.
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
