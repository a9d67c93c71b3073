"""The Authorization header of a remote model: read from the environment, sent to its server, and never shown."""

from __future__ import annotations

import base64
import os
import re
from functools import cached_property
from urllib.parse import quote

from diffgen.errors import UserError

_SHORTEST = 6  # letters of a token that are looked for in answers; shorter ones stand in anything
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Secret:
    """The value of the header; empty for none.

    Args:
        variable: name of the environment variable that holds it, or None: there is none.

    Raises:
        UserError: the variable is not set, is not the name of a variable, or holds no header.
    """

    def __init__(self, variable: str | None) -> None:
        self.header = "" if variable is None else _read(variable)

    def __bool__(self) -> bool:
        return bool(self.header)

    def stands_in(self, answer: bytes) -> bool:
        """Whether an answer repeats the token: as it was sent, in other letters, reversed, in base64, hex or a URL."""
        if not self.header:
            return False
        lowered = answer.lower()
        return any(spelling in lowered for spelling in self._spellings)

    @cached_property
    def _spellings(self) -> tuple[bytes, ...]:
        token = self.header.rpartition(" ")[2]
        if len(token) < _SHORTEST:
            token = self.header
        plain = token.encode()
        found = {plain, plain[::-1], plain.hex().encode(), quote(token, safe="").encode()}
        for before in range(3):
            # the token somewhere inside of a longer text: the letters that hold nothing but its own bits
            first = -(-before * 4 // 3)
            whole = (before + len(plain)) * 8 // 6
            found.add(base64.b64encode(b"\0" * before + plain)[first:whole])
        return tuple(each.lower() for each in found if len(each) >= _SHORTEST)


def _read(variable: str) -> str:
    if not _VARIABLE.fullmatch(variable):
        raise UserError(
            "What --auth-env was given is not the name of an environment variable; give the name of the one that holds "
            "the Authorization header, never the header itself."
        )
    value = os.environ.get(variable, "").strip()
    if not value:
        raise UserError(
            f"The environment variable {variable} is not set; let it hold the whole Authorization header, such as "
            "'Bearer ...'."
        )
    if not (value.isascii() and value.isprintable()):
        raise UserError(f"The environment variable {variable} holds no Authorization header; it must be one line.")
    return value
