"""Checks the built site: every link leads to a page and a place that are there, and nothing comes from elsewhere.

python -m docs.tools.links docs/_build/html
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# what a browser fetches by itself when it shows the page
_FETCHED = {
    ("link", "href"),
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}
_IN_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class _Page(HTMLParser):
    """The anchors of a page, where it links to, and what a browser fetches for it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {each for name in ("id", "name") if (each := values.get(name))}
        for name, value in attrs:
            if value and (tag, name) in _FETCHED and values.get("rel") not in ("index", "search", "next", "prev"):
                self.fetched.append(value)
        if tag == "a" and (target := values.get("href")):
            self.links.append(target)


def problems(site: Path) -> Iterator[str]:
    """A sentence about each link that leads nowhere and each thing that is fetched from elsewhere."""
    pages = {file.resolve(): _Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    if (site / "index.html").resolve() not in pages:
        yield f"{site / 'index.html'} is not there; build the site first"
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for each in page.fetched:
            if urlsplit(each).scheme in ("http", "https") or each.startswith("//"):
                yield f"{name} fetches {each}"
        for each in (*page.links, *page.fetched):
            parts = urlsplit(each)
            if parts.scheme or each.startswith("//"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                yield f"{name} links to {each}, which is not there"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name} links to {each}, which has no such place"
    for file in sorted(site.rglob("*.css")):
        for match in _IN_STYLE.finditer(file.read_text(encoding="utf-8")):
            address = match[1] or match[2]
            if address.startswith(("http:", "https:", "//")):
                yield f"{file.relative_to(site)} fetches {address}"


def main() -> None:
    """The command."""
    site = Path(sys.argv[1])
    found = list(problems(site))
    print(
        "\n".join(found) or f"{site / 'index.html'}: every link leads somewhere, and nothing is fetched from elsewhere"
    )
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
