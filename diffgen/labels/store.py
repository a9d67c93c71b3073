"""All labels of a run: each belongs to one picture, known by the hash of its bytes, and keeps its source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffgen.config import roles
from diffgen.errors import UserError
from diffgen.types import Int64Array, UInt8Array

INVALID = -1  # somebody looked and saw none of the classes
UNLABELLED = -2
#: Sources of labels; where several label one picture, the first of these wins.
SOURCES = ("human", "oracle", "intended")


@dataclass(frozen=True)
class LabelStore:
    """Labels of pictures; a picture may have one of each source.

    Attributes:
        hashes: uint8 (N, 16), of the pictures' bytes.
        labels: int64 (N,), a class or ``INVALID``.
        sources: str (N,), each one of ``SOURCES``.
        about: source -> how its labels came about, JSON values; the last time, and under "earlier" the times before
            while some labels of these are left.
    """

    hashes: UInt8Array
    labels: Int64Array
    sources: NDArray[np.str_]
    about: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def empty(cls, hash_bytes: int) -> LabelStore:
        """Without any label."""
        return cls(np.empty((0, hash_bytes), np.uint8), np.empty(0, np.int64), np.empty(0, "U8"))

    def __len__(self) -> int:
        return len(self.labels)

    def of(self, hashes: UInt8Array, sources: tuple[str, ...] = SOURCES) -> tuple[Int64Array, NDArray[np.str_]]:
        """Label and source of each picture; of several sources the first in ``sources`` counts.

        Returns:
            int64 (n,), ``UNLABELLED`` where there is none, and str (n,), empty there.
        """
        known: dict[bytes, tuple[int, str]] = {}
        for source in reversed(sources):
            rows = np.flatnonzero(self.sources == source)
            known.update({self.hashes[row].tobytes(): (int(self.labels[row]), source) for row in rows.tolist()})
        found = [known.get(each.tobytes(), (UNLABELLED, "")) for each in hashes]
        labels = np.fromiter((label for label, _ in found), np.int64, len(found))
        return labels, np.array([source for _, source in found], dtype="U8")

    def added(
        self, source: str, hashes: UInt8Array, labels: Int64Array, about: Mapping[str, Any], *, replace: bool
    ) -> LabelStore:
        """With what one source says of pictures put in place of all that it said of them before.

        Args:
            source: one of ``SOURCES``.
            hashes: uint8 (n, 16), of the pictures.
            labels: int64 (n,), a class, ``INVALID``, or ``UNLABELLED``: it does not say.
            about: how the labels came about, JSON values.
            replace: allows another label than before, or none where there was one.

        Raises:
            UserError: that source has another label for one of the pictures, and ``replace`` is not set.
        """
        known, _ = self.of(hashes, (source,))
        changed = int(((known != UNLABELLED) & (known != labels)).sum())
        if changed and not replace:
            raise UserError(
                f"The run has other labels from the source {source!r} for {changed:,} of these pictures; add --force "
                "to replace them."
            )
        new, said = {each.tobytes() for each in hashes}, labels != UNLABELLED
        kept = [row for row in range(len(self)) if self.sources[row] != source or self.hashes[row].tobytes() not in new]
        before = self.about.get(source)
        earlier = (
            [] if before is None or source not in self.sources[kept] else [*before.get("earlier", []), _alone(before)]
        )
        return LabelStore(
            np.concatenate([self.hashes[kept], hashes[said]]),
            np.concatenate([self.labels[kept], labels[said]]),
            np.concatenate([self.sources[kept], np.full(said.sum(), source, dtype="U8")]),
            {**self.about, source: {**about, **({"earlier": earlier} if earlier else {})}},
        )

    def as_arrays(self) -> dict[str, Any]:
        """For a file of arrays and JSON."""
        return {"hashes": self.hashes, "labels": self.labels, "sources": self.sources, "about": self.about}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> LabelStore:
        """What :meth:`as_arrays` gave. ValueError if something is missing or of another shape."""
        try:
            store = cls(arrays["hashes"], arrays["labels"], arrays["sources"], dict(arrays["about"]))
        except KeyError as error:
            raise ValueError(f"it has no {error.args[0]}") from error
        if not (len(store.hashes) == len(store.labels) == len(store.sources)) or store.hashes.ndim != 2:
            raise ValueError("its columns differ in length")
        return store


def _alone(about: Mapping[str, Any]) -> dict[str, Any]:
    """How labels came about, without the times before."""
    return {key: value for key, value in about.items() if key != "earlier"}


def outcomes(labels: Int64Array, said: Int64Array) -> dict[str, int]:
    """Who is right on how many pictures, by name of the outcome.

    Args:
        labels: int64 (N,), ``UNLABELLED`` and ``INVALID`` among them.
        said: int64 (N, M), what M models say.
    """
    right = said == labels[:, None]
    if right.shape[1] > 2:
        return _of_many(labels, right)
    names = np.select(
        [labels == UNLABELLED, labels == INVALID, right[:, 0], right[:, 1]],
        ["", "invalid", "only A right", "only B right"],
        "both wrong",
    )
    counted = Counter(names.tolist())
    return {name: counted[name] for name in ("only A right", "only B right", "both wrong", "invalid")}


def _of_many(labels: Int64Array, right: NDArray[np.bool_]) -> dict[str, int]:
    shows = labels >= 0
    found = {f"{role} right": int(right[shows, index].sum()) for index, role in enumerate(roles(right.shape[1]))}
    return {**found, "all wrong": int((~right[shows].any(axis=1)).sum()), "invalid": int((labels == INVALID).sum())}
