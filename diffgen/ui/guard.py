"""Who may ask the page: its own browser tab, under an address that it was started with, and with its token."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
COOKIE = "diffgen-token"
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
# Gradio's page has scripts and styles in it, and builds its templates with Function(); nothing comes from elsewhere.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self'; media-src 'self' blob:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)


class Guard:
    """An ASGI application around another one.

    A request must name this host, so that no foreign name leads here (DNS rebinding); a page of another origin may
    neither read nor send anything, and a run that a foreign page links to is not started; with a token, who does not
    know it is refused.

    Args:
        app: the page.
        names: host names under which it may be asked; empty: any, as on all addresses.
        token: that must be known, or None.
    """

    def __init__(self, app: App, names: tuple[str, ...], token: str | None) -> None:
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
        given = _given_token(scope)

        async def sent(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                extra = [(b"x-content-type-options", b"nosniff"), (b"referrer-policy", b"no-referrer")]
                if b"content-security-policy" not in own:
                    extra.append((b"content-security-policy", POLICY.encode()))
                if self._token is not None and given is not None:
                    cookie = f"{COOKIE}={given}; Path=/; HttpOnly; SameSite=Strict"
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
        if self._token is not None:
            cookies = SimpleCookie(headers.get("cookie", ""))
            known = [cookies[COOKIE].value] if COOKIE in cookies else []
            known += [given] if (given := _given_token(scope)) is not None else []
            if not any(hmac.compare_digest(each.encode(), self._token.encode()) for each in known):
                return 401, "Open the address that diffgen ui printed: it ends with ?token=..."
        return None


def _given_token(scope: Scope) -> str | None:
    """The token in the address, as far as it can stand in a cookie."""
    given = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [None])[0]
    return given if given is not None and given.replace("-", "").replace("_", "").isalnum() else None


async def _answer(send: Any, status: int, text: str) -> None:
    body = text.encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
