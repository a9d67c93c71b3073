"""How far what detectors say, or maps, is what is known of the real images: as these are asked about, never again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from diffgen.comparison.known_boxes import beside_known, truth_of
from diffgen.comparison.known_maps import known_cells
from diffgen.gate.average_precision import mean_average_precision
from diffgen.gate.maps import against_masks, mean_iou
from diffgen.metrics.intervals import exact_interval
from diffgen.models.panel import Panel
from diffgen.tasks.detection import VALUES, Detection
from diffgen.tasks.segmentation import Segmentation
from diffgen.types import Float32Array, ImageSet, Int64Array
from diffgen.wording import count_of

_LEFT_OUT = 0.05  # of the boxes on which both models agree, surely more than these without a known one


@dataclass(frozen=True)
class KnownFigures:
    """What the answers to images with known boxes or masks show.

    Attributes:
        scores: of each model its mean average precision, or mean IoU with masks, 0..1; none where nothing is known.
        beside, both: boxes that both of two detectors report, where the data has none, and all; of images that have
            a box, since of one without somebody says that there is nothing.
    """

    scores: tuple[float, ...] = ()
    beside: int = 0
    both: int = 0

    @property
    def leaves_out(self) -> bool:
        """Whether objects of the images have no box."""
        return self.both > 0 and exact_interval(self.beside, self.both)[0] > _LEFT_OUT

    def remark(self, source: str) -> str:
        """A sentence about data that leaves objects out, or nothing."""
        if not self.leaves_out:
            return ""
        return (
            f"Of {count_of(self.both, 'box', 'boxes')} that both models report in real images, {self.beside:,} lie "
            f"where {source} has none: it leaves objects out, so that nobody says who is right where it has no box."
        )


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
        self._beside = self._both = 0

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
            cells = known_cells(self._task, self._data, rows)
            self._counts.append(against_masks(self._task.maps_of(answers), cells, len(self._task.classes)))
            return
        assert isinstance(self._task, Detection)
        for row, said in zip(rows.tolist(), answers, strict=True):
            if (known := self._truth[row]) is not None:
                self._boxes.append(said)
                self._known.append(known)
        every = self._data.boxes or ()
        drawn = {
            place: each for place, row in enumerate(rows.tolist()) if (each := every[row]) is not None and len(each)
        }
        if drawn and answers.shape[1] == 2:
            beside, both = beside_known(self._task, answers[list(drawn)], list(drawn.values()))
            self._beside, self._both = self._beside + beside, self._both + both

    def figures(self) -> KnownFigures:
        """Of all that was heard."""
        scores = np.empty(0)
        if self._counts and len(counts := np.concatenate(self._counts)):
            scores = mean_iou(counts)[0]
        elif any(map(len, self._known)):
            answers = np.stack(self._boxes)
            boxes = answers.reshape(*answers.shape[:2], -1, VALUES)
            scores, _ = mean_average_precision(boxes, self._known, resamples=0)
        return KnownFigures(tuple(scores.tolist()), self._beside, self._both)
