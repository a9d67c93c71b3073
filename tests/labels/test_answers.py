"""Answers that the filter learned learns from: files of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from diffgen.errors import UserError
from diffgen.labels.answers import read_answers

IMAGES = np.arange(3 * 64, dtype=np.uint8).reshape(3, 1, 8, 8)


def test_a_file_of_answers(tmp_path: Path) -> None:
    np.savez(tmp_path / "said.npz", images=IMAGES, valid=np.array([True, False, True]), tool=np.array(["a", "b", "c"]))
    found = read_answers(tmp_path / "said.npz", (1, 8, 8))
    np.testing.assert_array_equal(found.images, IMAGES)
    assert found.valid.tolist() == [True, False, True]
    with pytest.raises(UserError, match="1x8x8 and the real images 3x8x8"):
        read_answers(tmp_path / "said.npz", (3, 8, 8))


@pytest.mark.parametrize(
    "arrays",
    [{"images": IMAGES}, {"images": IMAGES, "valid": np.ones(3)}, {"images": IMAGES[0], "valid": np.ones(3, bool)}],
)
def test_what_is_no_such_file_is_refused(arrays: dict[str, np.ndarray], tmp_path: Path) -> None:
    np.savez(tmp_path / "said.npz", **arrays)
    with pytest.raises(UserError, match=r"give (a run folder|uint8 images)"):
        read_answers(tmp_path / "said.npz", (1, 8, 8))


@pytest.mark.parametrize("content", [b"", b"PK and no more", b"\x93NUMPY"])
def test_a_damaged_file_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "said.npz").write_bytes(content)
    with pytest.raises(UserError, match="cannot be read"):
        read_answers(tmp_path / "said.npz", (1, 8, 8))
    with pytest.raises(UserError, match="cannot be read"):
        read_answers(tmp_path / "missing.npz", (1, 8, 8))
