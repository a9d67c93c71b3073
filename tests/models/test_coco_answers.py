"""Answers of detectors as COCO JSON, in place of a model."""

from __future__ import annotations

import json

import numpy as np
import pytest

from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.detections import CLASS, as_boxes
from diffgen.types import ImageSet
from tests.models.detectors import pictures


def results(known, names=None):
    """What COCO's evaluation takes, for boxes of images."""
    return [
        {
            **({"image_id": number} if names is None else {"image_id": names[number]}),
            **{"category_id": 1 + int(row[4]), "score": 0.9, "bbox": [*row[:2], *(row[2:4] - row[:2])]},
        }
        for number, rows in enumerate(known)
        for row in rows.astype(float)
    ]


@pytest.mark.parametrize("by", ["row", "number", "name", "file"])
def test_boxes_are_looked_up_by_image(by, tmp_path):
    images, known = pictures()
    known[3] = known[3][:0]
    files = [f"pictures/{100 + number:06}.jpg" for number in range(len(images))]
    ids = {"row": None, "number": range(100, 200), "name": [f"{100 + n:06}" for n in range(12)], "file": range(7, 99)}
    rows = results(known, ids[by])
    if by == "file":
        rows = [{**row, "file_name": files[row["image_id"] - 7]} for row in rows]
    (tmp_path / "boxes.json").write_text(json.dumps(rows))
    box = load(tmp_path / "boxes.json")
    data = ImageSet(images, None, None, "squares", names=None if by == "row" else tuple(files))
    box.bind(data)
    box.prepare(images)
    assert box.detects and box.num_classes == 2
    for number in (3, 0, 11):  # in any order
        found = as_boxes(box.predict(images[[number]]))[0]
        there = found[found[:, CLASS] >= 0]
        np.testing.assert_allclose(sorted(there[:, [0, 1, 2, 3, 5]].tolist()), sorted(known[number].tolist()))
    with pytest.raises(UserError, match="has no answer to 1 of 1 images"):
        box.predict(255 - images[:1])


def test_other_pictures_and_sizes_are_refused(tmp_path, told):
    images, known = pictures()
    path = tmp_path / "boxes.json"
    path.write_text(json.dumps(results(known, range(90, 120))))
    with pytest.raises(UserError, match=r"boxes of 12 images that are none of squares") as error:
        load(path).bind(ImageSet(images, None, None, "squares"))
    told("Detectors", "answers as COCO JSON of other pictures", error.value)
    path.write_text(json.dumps(results(known)))
    with pytest.raises(UserError, match="reach beyond images of 32x32 pixels") as error:
        load(path).bind(ImageSet(images[:, :, ::2, ::2].copy(), None, None, "squares"))
    told("Detectors", "answers as COCO JSON, and pictures that were resized", error.value)


FAULTS = {
    "no numbers": '[{"image_id": 1, "category_id": 1, "bbox": ["a", 0, 1, 1], "score": 1}]',
    "no category": '[{"image_id": 1, "bbox": [0, 0, 1, 1], "score": 1}]',
    "not finite": '[{"image_id": 1, "category_id": 1, "bbox": [0, 0, NaN, 1], "score": 1}]',
    "cut off": '[{"image_id": 1, "category_id": 1, "bbox": [0, 0, 1, 1], "score": 1}',
}


@pytest.mark.parametrize("fault", FAULTS)
def test_lists_that_cannot_be_are_refused(fault, tmp_path, told):
    path = tmp_path / "boxes.json"
    path.write_text(FAULTS[fault])
    with pytest.raises(UserError, match="no list of boxes as COCO's evaluation takes them") as error:
        load(path)
    told("Detectors", f"answers as COCO JSON: {fault}", error.value)
