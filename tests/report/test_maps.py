"""What is drawn over a picture of which two models give maps."""

import base64
import io

import numpy as np
from PIL import Image

from diffgen.report.maps import make_maps

NAMES = ("ground", "cat", "dog")


def pixels(uri: str) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))


def test_each_map_and_where_they_differ() -> None:
    """Every class has its colour, the first one none; the contested region has an edge."""
    marks = np.zeros((3, 8, 9), dtype=np.int16)
    marks[0, 1:6, 1:6] = 1
    marks[1, 1:6, 1:6] = 2
    marks[1, 7, 7] = 1
    marks[2, 1:6, 1:6] = 1
    view = make_maps(marks, NAMES)
    assert [title for title, _ in view.panels] == ["contested", "different", "A", "B"]
    contested, different, a, b = (pixels(over) for _, over in view.panels)
    colours = {name: colour for colour, name in view.legend}
    assert set(colours) == set(NAMES)
    assert colours["ground"] == "transparent"
    assert f"rgb({','.join(map(str, a[3, 3, :3]))})" == colours["cat"]
    assert f"rgb({','.join(map(str, b[3, 3, :3]))})" == colours["dog"]
    assert a[0, 0, 3] == b[0, 0, 3] == contested[3, 3, 3] == contested[7, 7, 3] == 0
    assert (contested[1, 1:6, 3] == 255).all()
    assert different[7, 7, 3] > 0
    assert (different[1:6, 1:6, 3] > different[7, 7, 3]).all()


def test_a_map_of_a_damaged_run_has_no_other_classes() -> None:
    """Numbers that name nothing are those of the last class, or the first."""
    assert [name for _, name in make_maps(np.full((3, 4, 4), 99, dtype=np.int16), NAMES).legend] == ["dog"]
