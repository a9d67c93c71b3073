"""The address of a remote model: what is allowed in one, and its parts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from diffgen.errors import UserError

_FORM = "write http(s)://HOST[:PORT]/v2/models/NAME or .../v2/models/NAME/versions/VERSION"
_PATH = re.compile(r"(?P<base>(?:/[^/]+)*?/v2)/models/(?P<model>[^/]+)(?:/versions/(?P<version>[^/]+))?/?")


@dataclass(frozen=True)
class Address:
    """Where a model is asked.

    Attributes:
        origin: scheme, host and port: ``http://host:8080``.
        base: path of the protocol on that host: ``/v2``, perhaps with folders before it.
        model, version: as the server calls them; without a version the server chooses one.
    """

    origin: str
    base: str
    model: str
    version: str | None = None

    @property
    def path(self) -> str:
        """Path of the model on its host."""
        version = "" if self.version is None else f"/versions/{quote(self.version, safe='')}"
        return f"{self.base}/models/{quote(self.model, safe='')}{version}"

    @property
    def name(self) -> str:
        """What the model is called in messages and reports."""
        return self.model if self.version is None else f"{self.model}.{self.version}"

    def __str__(self) -> str:
        return self.origin + self.path


def parse_address(text: str) -> Address:
    """Read the address of a model.

    Raises:
        UserError: the text is not a model address, or it holds a user's name, a password or a query, which would be
            written into files.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UserError(f"The address {_harmless(text)} cannot be read ({error}); {_FORM}.") from error
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(
            f"The address {_harmless(text)} holds more than host and path, and a password or key in it would be "
            "written into the run folder; leave that out and name an environment variable that holds the "
            "Authorization header with --auth-env."
        )
    found = _PATH.fullmatch(parts.path)
    plain = text.isascii() and text.isprintable() and " " not in text and _is_text(unquote(parts.path))
    if parts.scheme not in ("http", "https") or not host or found is None or not plain:
        raise UserError(
            f"The address {_harmless(text)} is not that of a model on a server; {_FORM}, or download a model file and "
            "give its path."
        )
    host = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{host}" + ("" if port is None else f":{port}")
    version = found["version"]
    return Address(origin, found["base"], unquote(found["model"]), None if version is None else unquote(version))


def _is_text(path: str) -> bool:
    """Whether names in a path can be shown; U+FFFD stands for bytes that are no text."""
    return path.isprintable() and "\ufffd" not in path


def _harmless(text: str) -> str:
    """An address for a message: without what may be a secret."""
    bare = re.sub(r"[?#].*", "", text, flags=re.DOTALL)
    return "".join(each if each.isprintable() else "?" for each in re.sub(r"//[^/]*@", "//...@", bare))
