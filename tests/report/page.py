"""Reads a report the way a browser would, as far as the tests need it."""

from __future__ import annotations

from html.parser import HTMLParser

_VOID = {"meta", "link", "img", "input", "br", "hr"}


class Page(HTMLParser):
    """Collects elements, texts and what is wrong with the nesting of tags."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.problems: list[str] = []
        self.text = ""
        self.script = ""
        self.style = ""
        self._open: list[str] = []
        self.feed(source)
        self.close()
        self.problems += [f"<{tag}> is never closed" for tag in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        if len(names) != len(set(names)):
            self.problems.append(f"<{tag}> at {self.getpos()} has an attribute twice: {names}")
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open[-1] != tag:
            self.problems.append(f"</{tag}> at {self.getpos()} closes {self._open[-1:] or 'nothing'}")
        else:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["script"]:
            self.script += data
        elif self._open[-1:] == ["style"]:
            self.style += data
        else:
            self.text += data

    def all(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """The attributes of every ``tag`` that has ``attributes`` (``class_`` for class)."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            own
            for name, own in self.elements
            if name == tag and all(own.get(key) == value for key, value in wanted.items())
        ]

    @property
    def flat_text(self) -> str:
        """The visible text on one line."""
        return " ".join(self.text.split())
