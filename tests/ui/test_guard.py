"""Who may ask the page."""

from __future__ import annotations

import asyncio
import stat
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffgen.cli import build_parser
from diffgen.errors import UserError
from diffgen.ui.place import Place
from diffgen.ui.server import LOCAL_NAMES, Address, Guard, listen, opened
from diffgen.ui.server import TOKEN as TOKEN_RULE

TOKEN = "secret-00"
_SIGNED = {"cookie": f"other={{}}; diffgen-token-7860={TOKEN}; =odd; a,b=1"}  # among those of other programs
_OWN = {"host": "127.0.0.1:7860", **_SIGNED}


async def _page(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"the page"})


def ask(
    headers: dict[str, str],
    path: str = "/",
    query: str = "",
    names: tuple[str, ...] = LOCAL_NAMES,
) -> tuple[int, dict[str, str]]:
    """Status and headers of the answer to a request."""
    sent: list[Any] = []

    async def keep(message: Any) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "path": path, "query_string": query.encode(), "headers": raw}
    asyncio.run(Guard(_page, names, TOKEN)(scope, None, keep))
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
    unsigned = {"host": "127.0.0.1:7860"}
    assert ask(unsigned)[0] == 401
    assert ask({**unsigned, "cookie": "diffgen-token-7860=x; x=secret-00"})[0] == 401
    for wrong in ("token=wrong", "token=", "token=secret-00x", "token=%FF", "token=secret-00%0d%0aX-Evil:1"):
        status, headers = ask(unsigned, query=wrong)
        assert status == 401, wrong
        assert "set-cookie" not in headers
    status, headers = ask(unsigned, query="run=mine&token=secret-00")
    assert status == 200
    assert "HttpOnly" in headers["set-cookie"]
    assert "SameSite=Strict" in headers["set-cookie"]
    again = {**unsigned, "cookie": headers["set-cookie"].split(";")[0]}
    assert ask(again, "/gradio_api/queue/join")[0] == 200


def test_a_wrong_token_in_the_address_signs_nobody_out() -> None:
    status, headers = ask(_OWN, query="token=wrong")
    assert status == 200
    assert "set-cookie" not in headers


def test_a_page_on_another_port_is_signed_in_on_its_own() -> None:
    assert ask({"host": "127.0.0.1:7861", **_SIGNED})[0] == 401
    _, headers = ask({"host": "127.0.0.1:7861"}, query="token=secret-00")
    assert headers["set-cookie"].startswith("diffgen-token-7861=")


@settings(max_examples=30)
@given(st.text(max_size=60))
def test_whatever_stands_among_the_cookies_the_answer_is_no(text: str) -> None:
    cookie = text.encode("latin-1", "replace").decode("latin-1")
    assert ask({"host": "127.0.0.1:7860", "cookie": cookie})[0] == 401


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("::1", "[::1]:7860"),
        ("2001:DB8::5", "[2001:db8::5]:7860"),
        ("lab-pc", "Lab-PC:7860"),
        ("10.0.0.7", "10.0.0.7:7860"),
        ("0.0.0.0", "whatever:7860"),
        ("::", "[fe80::1]:7860"),
    ],
)
def test_a_page_answers_under_its_address(host: str, asked: str) -> None:
    address = Address(host, 7860)
    assert ask({"host": asked, **_SIGNED}, names=address.names)[0] == 200
    if not address.is_everywhere:
        assert ask({"host": "evil.example:7860", **_SIGNED}, names=address.names)[0] == 421
    parts = urlsplit(address.where)
    assert (parts.port, parts.query) == (7860, f"token={address.token}")
    assert TOKEN_RULE.fullmatch(address.token)
    if not address.is_everywhere:
        assert parts.netloc.lower() == asked.lower()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--token", "a b&c=d%"], "give 8 to 200 letters"),
        (["--token", "k\u00e9k\u00e9k\u00e9k\u00e9"], "give 8 to 200 letters"),
        (["--token", ""], "give 8 to 200 letters"),
        (["--host", " "], "give an address such as 127.0.0.1"),
        (["--port", "70000"], "give a number from 0 to 65535"),
    ],
)
def test_what_no_address_can_be_made_of_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        build_parser().parse_args(["ui", *words])


@pytest.mark.parametrize("host", ["x" * 70, "a..b", "no-such-machine.invalid"])
def test_a_host_that_is_none_is_told_of(host: str) -> None:
    with pytest.raises(UserError, match="name another with --host or --port"):
        listen(Address(host, 0))


def test_the_browser_is_led_to_the_page_by_a_file_that_nobody_else_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its command line, which every account of the machine sees, has no token in it."""
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", asked.append)
    address = Address("127.0.0.1", 7860)
    with opened(Place(tmp_path, ()), address):
        file = Path(urlsplit(asked[0]).path)
        assert address.token not in asked[0]
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert f"url={address.where}" in unescape(file.read_text(encoding="utf-8"))
    assert not file.exists()
