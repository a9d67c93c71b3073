"""Who may ask the page."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from diffgen.ui.guard import LOCAL_NAMES, Guard

_OWN = {"host": "127.0.0.1:7860"}


async def _page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the page"})


def ask(
    headers: dict[str, str],
    path: str = "/",
    query: str = "",
    token: str | None = None,
    names: tuple[str, ...] = LOCAL_NAMES,
) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer to a request."""
    sent: list[Any] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "query_string": query.encode(), "headers": raw}
    asyncio.run(Guard(_page, names, token)(scope, None, keep))
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


def test_its_own_page_may() -> None:
    status, headers = ask({**_OWN, "origin": "http://127.0.0.1:7860", "sec-fetch-site": "same-origin"})
    assert status == 200
    assert "default-src 'self'" in headers["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", ""])
def test_a_foreign_name_for_this_machine_is_refused(host: str) -> None:
    assert ask({"host": host})[0] == 421


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1.evil"])
def test_a_page_of_another_origin_is_refused(origin: str) -> None:
    assert ask({**_OWN, "origin": origin}, "/gradio_api/queue/join")[0] == 403


def test_a_link_may_open_the_page_but_start_nothing() -> None:
    linked = {**_OWN, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert ask(linked)[0] == 200
    assert ask(linked, "/gradio_api/call/start")[0] == 403
    assert ask({**linked, "sec-fetch-mode": "no-cors"})[0] == 403


def test_a_token_must_be_known_and_is_remembered() -> None:
    anywhere = {"host": "10.0.0.7:7860"}
    assert ask(anywhere, token="secret", names=())[0] == 401
    assert ask(anywhere, query="token=wrong", token="secret", names=())[0] == 401
    status, headers = ask(anywhere, query="token=secret", token="secret", names=())
    assert status == 200
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    again = {**anywhere, "cookie": headers["set-cookie"].split(";")[0]}
    assert ask(again, "/gradio_api/queue/join", token="secret", names=())[0] == 200
    assert ask({**anywhere, "cookie": "diffgen-token=x"}, token="secret", names=())[0] == 401


def test_a_token_cannot_write_headers() -> None:
    status, headers = ask(_OWN, query="token=secret%0d%0aX-Evil:1", token="secret")
    assert status == 401
    assert "set-cookie" not in headers
