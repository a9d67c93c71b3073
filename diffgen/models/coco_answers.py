"""Boxes that a detector gave for known images, as COCO's evaluation takes them: a table of answers.

A JSON list of objects with ``image_id``, ``category_id``, ``bbox`` (x, y, width, height in pixels of the image) and
``score``. An image is named by its file, by ``file_name`` or by ``image_id`` as the file's name without its ending
(also as a number: 42 for 000042.jpg); where no name fits, ``image_id`` is its row in the data, from 0. An image without
boxes has no objects. Categories are counted from 1 where none is 0, as in COCO.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch

from diffgen.config import Preprocessing, replace
from diffgen.errors import UserError
from diffgen.models.answer_table import FED, LARGEST, AnswerTable
from diffgen.models.base import BlackBox
from diffgen.models.model_settings import ModelSettings
from diffgen.runs.opening import read_bytes
from diffgen.runs.triggers import image_hashes
from diffgen.types import Float32Array, ImageSet, UInt8Array

_NONE = np.empty((0, 6), dtype=np.float32)


class CocoAnswers(AnswerTable):
    """Looks boxes up by the content of an image.

    Args:
        settings: name and so on; how images are fed to a model says nothing of a table.

    Raises:
        UserError: it is no such list.
    """

    format = "a table of boxes (COCO JSON)"

    def __init__(self, path: Path, settings: ModelSettings) -> None:
        BlackBox.__init__(self, replace(settings, preprocessing=self._admit(settings.preprocessing)))
        self._input_device = torch.device("cpu")
        self._found: dict[str, list[list[float]]] = {}
        self._by_hash: dict[bytes, Float32Array] = {}
        try:
            for each in json.loads(read_bytes(path, longest=LARGEST)):
                x, y, width, height = map(float, each["bbox"])
                values = [x, y, x + width, y + height, float(each["score"]), float(each["category_id"])]
                if not np.isfinite(values).all():
                    raise ValueError("a value is not finite")
                name = each.get("file_name")
                key = PurePosixPath(str(name).replace("\\", "/")).stem if name else str(each["image_id"])
                self._found.setdefault(key, []).append(values)
        except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise UserError(
                f"{path} is no list of boxes as COCO's evaluation takes them ({type(error).__name__}: {error}); give "
                "objects with image_id, category_id, bbox and score."
            ) from error
        if not self._found:
            raise UserError(f"{path} has no boxes at all; give the answers of a detector.")
        lowest = min(row[5] for rows in self._found.values() for row in rows)
        for row in (row for rows in self._found.values() for row in rows):
            row[5] -= lowest >= 1

    def _admit(self, preprocessing: Preprocessing) -> Preprocessing:
        boxes = replace(FED, outputs="boxes", head="detections", background="none", fitting="stretch", antialias=True)
        same = {name: getattr(preprocessing, name) for name in ("nms_iou", "score_floor", "most_boxes")}
        return replace(boxes, output="", interpolation="bilinear", crop=0.0, **same)

    def bind(self, data: ImageSet) -> None:
        """Say which images the boxes are of; called before it is prepared.

        Raises:
            UserError: they are of other images, or of these in another size.
        """
        stems = [PurePosixPath(name).stem for name in data.names or ()]
        names: dict[str, int] = {stem: row for row, stem in enumerate(stems)}
        names |= {str(int(stem)): row for row, stem in enumerate(stems) if stem.isascii() and stem.isdecimal()}
        if not self._found.keys() & names.keys():
            names = {str(row): row for row in range(len(data))}
        strange = [key for key in self._found if key not in names]
        if strange:
            raise UserError(
                f"The table {self.name} has boxes of {len(strange):,} images that are none of {data.source} (first: "
                f"{strange[0][:100]}); give the pictures that these answers are of."
            )
        rows = {names[key]: np.array(found, dtype=np.float32) for key, found in self._found.items()}
        height, width = data.image_shape[1:]
        beyond = sum(int(((each[:, 2] > width + 1) | (each[:, 3] > height + 1)).sum()) for each in rows.values())
        if beyond:
            raise UserError(
                f"Of the boxes in the table {self.name}, {beyond:,} reach beyond images of {width}x{height} pixels; "
                "they are of images in another size, so leave --resize out."
            )
        self._by_hash = {digest: rows.get(row, _NONE) for row, digest in enumerate(image_hashes(data.images))}

    def _ask(self, batch: torch.Tensor) -> object:
        images: UInt8Array = batch.numpy().astype(np.uint8)
        found: list[Any] = [self._by_hash.get(digest) for digest in image_hashes(images)]
        unknown = sum(each is None for each in found)
        if unknown:
            raise UserError(
                f"The table {self.name} has no answer to {unknown:,} of {len(images):,} images; it says nothing of "
                "images that it does not list."
            )
        return found
