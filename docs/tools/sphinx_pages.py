"""A Sphinx extension: pages made from the program itself, and links that work in the checkout and on the site.

Pages link to each other by path, as GitHub shows them. On the site copies of ``benchmarks/results`` lie under
``results/``, and what else lies outside of ``docs/`` can be downloaded.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

from docs.tools.reference_pages import write_pages

_REPOSITORY = Path(__file__).resolve().parent.parent.parent
_DOCS = _REPOSITORY / "docs"
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?\)")
_RESULTS = Path("benchmarks/results")
_COPIES = _DOCS / "results"


def site_link(target: str, page: Path) -> str:
    """A link of a page as the site needs it.

    Args:
        target: path relative to the page, without an anchor.
        page: the page's file, below the repository, symbolic links resolved.
    """
    if re.match(r"[a-z]+:", target):
        return target
    place = Path(os.path.normpath(page.parent / target))
    inside = place.relative_to(_REPOSITORY) if place.is_relative_to(_REPOSITORY) else None
    if inside is None:
        return target
    if inside.is_relative_to(_RESULTS):
        name = inside.relative_to(_RESULTS)
        return f"/results/{name if name.suffix else 'README.md'}"
    if inside in (Path("docs/decisions"), Path("README.md"), Path("CHANGELOG.md"), Path("CONTRIBUTING.md")):
        return {"decisions": "/explanation/decisions.md", "README": "/index.md", "CHANGELOG": "/changelog.md"}.get(
            inside.stem, "/contributing.md"
        )
    if inside.is_relative_to("docs"):
        return f"/{inside.relative_to('docs')}"
    if place.is_file():  # MyST makes a download of it; relative to where Sphinx finds the page
        return f"/{os.path.relpath(place, _DOCS)}"
    raise ValueError(f"{page.relative_to(_REPOSITORY)} links to {target}, which is not there")


def site_text(text: str, page: Path) -> str:
    """A page's text with every link as the site needs it; code blocks are left alone."""

    def replaced(match: re.Match[str]) -> str:
        return f"{match[1]}{site_link(match[2], page)}{match[3] or ''})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _LINK.sub(replaced, part) for part in parts)


def _copied() -> dict[Path, Path]:
    """Pages of the site that are copies -> files of the checkout."""
    originals = {_DOCS / name.lower(): _REPOSITORY / name for name in ("CHANGELOG.md", "CONTRIBUTING.md")}
    results = [each for each in (_REPOSITORY / _RESULTS).iterdir() if each.suffix in (".md", ".png")]
    return originals | {_COPIES / each.name: each for each in results}


def _read(app: Any, name: str, source: list[str]) -> None:
    page = Path(app.env.doc2path(name))
    source[0] = site_text(source[0], _copied().get(page, page))


def _write_pages(app: Any) -> None:
    write_pages(_DOCS / "reference")
    _COPIES.mkdir(exist_ok=True)
    copied = _copied()
    for each in set(_COPIES.iterdir()) - copied.keys():
        each.unlink()
    for copy, original in copied.items():
        if not copy.is_file() or copy.read_bytes() != original.read_bytes():
            shutil.copyfile(original, copy)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", _write_pages)
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
