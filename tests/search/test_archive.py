"""The archive keeps each image once, in order, and hands everything to its sink."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.features.shrinking import shrunk
from diffgen.runs.triggers import TriggerTable, image_hashes
from diffgen.search.archive import Archive

SHAPE = (1, 4, 4)


def batch(values: list[int], generation: int = 1, first_query: int = 1) -> TriggerTable:
    """Triggers whose images are told apart by one grey level; label pair (value mod 3, value mod 3 + 1)."""
    images = np.zeros((len(values), *SHAPE), dtype=np.uint8)
    probabilities = np.zeros((len(values), 2, 5), dtype=np.float32)
    for row, value in enumerate(values):
        images[row, 0, 0, 0] = value
        probabilities[row, 0, value % 3] = 1
        probabilities[row, 1, value % 3 + 1] = 1
    return TriggerTable.of(
        images,
        probabilities,
        divergence=np.full(len(values), 2.0, dtype=np.float32),
        genes=images.reshape(len(values), 16).astype(np.float32),
        generation=np.full(len(values), generation),
        query=np.arange(first_query, first_query + len(values)),
    )


@given(st.lists(st.lists(st.integers(0, 40), max_size=12), max_size=8))
def test_numbers_follow_the_order_of_first_sight(batches: list[list[int]]) -> None:
    parts: list[TriggerTable] = []
    archive = Archive(SHAPE, sink=parts.append)
    first_seen: dict[int, int] = {}
    for generation, values in enumerate(batches):
        for value in values:
            first_seen.setdefault(value, len(first_seen))
        numbers = archive.add(batch(values, generation))
        assert numbers.tolist() == [first_seen[value] for value in values]
        archive.flush(everything=True)
    assert len(archive) == len(first_seen)
    stored = [int(image[0, 0, 0]) for part in parts for image in part.images]
    assert stored == list(first_seen)
    assert archive.images(np.arange(len(archive)))[:, 0, 0, 0].tolist() == list(first_seen)
    assert archive.labels().tolist() == [[value % 3, value % 3 + 1] for value in first_seen]


def test_an_image_is_stored_once_within_a_batch_and_across_batches() -> None:
    archive = Archive(SHAPE)
    assert archive.add(batch([7, 8, 7])).tolist() == [0, 1, 0]
    assert archive.add(batch([8, 9])).tolist() == [1, 2]
    assert len(archive) == 3


def test_flush_waits_for_a_full_part_unless_told() -> None:
    parts: list[int] = []
    archive = Archive(SHAPE, sink=lambda table: parts.append(len(table)))
    archive.add(batch([1, 2, 3]))
    archive.flush()
    assert parts == []
    archive.flush(everything=True)
    archive.flush(everything=True)
    assert parts == [3]


def test_diversity_is_noted_once_for_triggers_of_the_running_generation() -> None:
    parts: list[TriggerTable] = []
    archive = Archive(SHAPE, sink=parts.append)
    archive.add(batch([1, 2]))
    archive.record_diversity(np.array([0, 1]), np.array([0.25, 0.5], dtype=np.float32))
    archive.record_diversity(np.array([0]), np.array([0.75], dtype=np.float32))
    archive.add(batch([3]))
    archive.flush(everything=True)
    assert np.allclose(parts[0].diversity, [0.25, 0.5, np.nan], equal_nan=True)


def test_a_restored_archive_goes_on_as_if_nothing_had_happened() -> None:
    parts: list[TriggerTable] = []
    whole = Archive(SHAPE, sink=parts.append)
    whole.add(batch([1, 2, 3]))
    whole.flush(everything=True)
    again = Archive(SHAPE)
    again.restore(parts[0])
    for archive in (whole, again):
        assert archive.add(batch([3, 4])).tolist() == [2, 3]
    assert (again.images(np.arange(4)) == whole.images(np.arange(4))).all()
    assert again.labels().tolist() == whole.labels().tolist()


def test_many_rows_cross_the_blocks_of_memory() -> None:
    archive = Archive((1, 2, 3))
    images = np.arange(5000 * 6, dtype=np.int64).reshape(5000, 1, 2, 3)
    pictures = np.stack([images % 251, images // 251 % 251], axis=0)[0].astype(np.uint8)
    pictures[:, 0, 0, 1] = np.arange(5000) // 250
    pictures[:, 0, 0, 2] = np.arange(5000) % 250
    probabilities = np.tile(np.eye(2, dtype=np.float32), (5000, 1, 1))
    query = np.arange(5000)
    archive.add(TriggerTable.of(pictures, probabilities))
    assert len(archive) == len(set(image_hashes(pictures))) == 5000
    assert (archive.images(query) == pictures).all()


def test_of_large_pictures_the_sink_has_them_whole_and_the_archive_small() -> None:
    images = np.random.default_rng(0).integers(256, size=(300, 3, 70, 64), dtype=np.uint8)
    parts: list[TriggerTable] = []
    archive = Archive(images.shape[1:], sink=parts.append)
    archive.add(TriggerTable.of(images[:120], np.eye(2, dtype=np.float32)[None].repeat(120, axis=0)))
    archive.add(TriggerTable.of(images[100:], np.eye(2, dtype=np.float32)[None].repeat(200, axis=0)))
    rows = np.array([299, 0, 110])
    assert archive.image_column() is None and len(archive) == 300
    assert torch.equal(archive.compared(rows), shrunk(torch.from_numpy(images[rows])))
    archive.flush(everything=True)
    (part,) = parts
    assert np.array_equal(part.images, images)
    again = Archive(images.shape[1:])
    again.restore(part)
    assert np.array_equal(again.images(rows), images[rows])
    assert torch.equal(again.compared(rows), archive.compared(rows)) and again.digest() == archive.digest()
