"""What a person does on the page, in tests."""

from __future__ import annotations

from typing import Any

TABS = ("Run", "Live", "Behaviours", "Label", "Check", "Runs")


def go(page: Any, tab: str) -> None:
    """To a tab."""
    page.get_by_role("tab", name=tab, exact=True).locator("visible=true").first.click()


def choose(page: Any, field: str, option: str) -> None:
    """In a field with a list."""
    page.get_by_label(field, exact=True).locator("visible=true").click()
    page.get_by_role("option", name=option, exact=True).click()


def figure(page: Any, what: str) -> str:
    """What a card of the tab that is shown says, as "queries"."""
    card = page.locator(".dg-card").filter(has=page.locator(".dg-what").get_by_text(what, exact=True))
    return str(card.locator(".dg-value").locator("visible=true").inner_text())
