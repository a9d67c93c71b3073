"""The classes of a model in an order that is not its own."""

from __future__ import annotations


def inverse(order: tuple[int, ...]) -> list[int]:
    """Where each number of a permutation stands."""
    return sorted(range(len(order)), key=order.__getitem__)


def in_order(names: tuple[str, ...], order: tuple[int, ...]) -> tuple[str, ...]:
    """The names of a model's own classes in the order of the classes that these are counted as."""
    return tuple(names[i] for i in inverse(order)) if len(names) == len(order) else names


def own_order(names: tuple[str, ...], order: tuple[int, ...]) -> tuple[str, ...]:
    """What :func:`in_order` was made from."""
    return tuple(names[i] for i in order) if len(names) == len(order) else names
