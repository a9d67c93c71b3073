"""How far what detectors say, or maps, is what is known of the real images: as these are asked about, never again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from diffgen.comparison.known_boxes import truth_of
from diffgen.comparison.known_maps import known_cells
from diffgen.gate.average_precision import mean_average_precision
from diffgen.gate.maps import against_masks, mean_iou
from diffgen.models.detections import as_boxes
from diffgen.models.panel import Panel
from diffgen.tasks.detection import Detection
from diffgen.tasks.segmentation import Segmentation
from diffgen.types import Float32Array, ImageSet, Int64Array


class KnownScores:
    """Collects what the members of a panel say of images whose boxes or masks are known.

    Args:
        panel: of M models.
        data: the real images.
    """

    def __init__(self, panel: Panel, data: ImageSet) -> None:
        self._panel, self._task, self._data = panel, panel.task, data
        self._truth = truth_of(panel.task, data) if isinstance(panel.task, Detection) else data.masks
        self._boxes, self._counts, self._known = list[Float32Array](), list[Int64Array](), list[Float32Array]()

    @contextmanager
    def listen(self, rows: Int64Array) -> Iterator[None]:
        """While the block asks all members about the images of n rows."""
        self._panel.heard = heard = list[Float32Array]()
        try:
            yield
        finally:
            self._panel.heard = None
        if self._truth is not None:
            # the first member asks about all of them; one whose batches are others asks again
            for answers in heard:
                self._add(rows[: len(answers)], answers)
                rows = rows[len(answers) :]
                if len(rows) == 0:
                    break

    def _add(self, rows: Int64Array, answers: Float32Array) -> None:
        assert self._truth is not None
        if isinstance(self._task, Segmentation):
            cells = known_cells(self._task, self._data.at(rows))
            self._counts.append(against_masks(self._task.maps_of(answers), cells, len(self._task.classes)))
            return
        for row, said in zip(rows.tolist(), answers, strict=True):
            if (known := self._truth[row]) is not None:
                self._boxes.append(said)
                self._known.append(known)

    def of_models(self) -> tuple[float, ...]:
        """Of each model its mean average precision, or mean IoU with masks, 0..1; none where nothing is known."""
        if self._counts and len(counts := np.concatenate(self._counts)):
            return tuple(mean_iou(counts)[0].tolist())
        if not any(map(len, self._known)):
            return ()
        width = max(each.shape[1] for each in self._boxes)
        padded = np.full((len(self._boxes), self._boxes[0].shape[0], width), -1, dtype=np.float32)
        for place, each in enumerate(self._boxes):
            padded[place, :, : each.shape[1]] = each
        boxes = np.stack([as_boxes(each) for each in np.moveaxis(padded, 1, 0)], axis=1)
        return tuple(mean_average_precision(boxes, self._known, resamples=0)[0].tolist())
