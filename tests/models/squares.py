"""A small detector: a network without training that finds bright squares on dark grounds."""

from dataclasses import replace

import numpy as np
import torch

from diffgen.models.base import BlackBox
from diffgen.models.model_settings import ModelSettings

SIDE = 12  # of a square, pixels
PLACES = 8  # boxes of an answer


class Squares(BlackBox):
    """Says where squares are, and how bright each is; the sums of bright and of dark pixels are two convolutions.

    Args:
        name: of the model.
        gain: what scores are multiplied by.
        offset: pixels that boxes are moved by.
        names: of the classes; a square whose right half is dark is of the second one.
    """

    def __init__(self, name: str, gain: float = 1.0, offset: float = 0.0, names: tuple[str, ...] = ("sun", "moon")):
        super().__init__(ModelSettings(name, class_names=names))
        self.gain, self.offset, self.asked = gain, offset, 0

    def prepare(self, images: torch.Tensor | np.ndarray) -> None:
        self.image_shape = tuple(map(int, images.shape[1:]))
        self.num_classes = len(self.class_names)
        self.preprocessing = replace(self.preprocessing, outputs="boxes")

    def predict(self, images: torch.Tensor | np.ndarray) -> torch.Tensor | np.ndarray:
        self.asked += len(images)
        pixels = torch.as_tensor(images).float().mean(dim=1, keepdim=True) / 255
        left, right = (torch.nn.functional.avg_pool2d(each, (SIDE, SIDE // 2), 1) for each in (pixels, pixels))
        left, right = left[..., : -(SIDE // 2)], right[..., SIDE // 2 :]
        score = torch.maximum(left, right) * self.gain
        both = (left + right) / 2
        peak = torch.nn.functional.max_pool2d(both, 9, 1, 4) == both
        flat = torch.where(peak, score, 0).flatten(1)
        best, place = flat.topk(PLACES, dim=1)
        row, column = place // both.shape[-1], place % both.shape[-1]
        dark = (right.flatten(1).gather(1, place) < 0.5 * left.flatten(1).gather(1, place)).float()
        corner = torch.stack([column, row], dim=-1) + self.offset
        boxes = torch.cat([corner, corner + SIDE, best.clamp(0, 1)[..., None], dark[..., None]], dim=-1)
        boxes[best <= 0.01] = torch.tensor([0.0, 0, 0, 0, 0, -1])
        said = boxes.flatten(1)
        return said if isinstance(images, torch.Tensor) else said.numpy()

    def without_answer(self, images: np.ndarray) -> np.ndarray:
        return np.zeros(len(images), dtype=np.bool_)

    def _ask(self, batch: torch.Tensor) -> object:
        raise AssertionError("it computes in predict")


def pictures(count: int, seed: int = 0) -> np.ndarray:
    """uint8 (N, 3, 48, 48): dark grounds with up to three squares of any brightness."""
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 12, (count, 3, 48, 48))
    for image in made:
        for place in rng.choice(4, rng.integers(1, 4), replace=False):
            row, column = 4 + 24 * (place // 2) + rng.integers(0, 6), 4 + 24 * (place % 2) + rng.integers(0, 6)
            bright = rng.integers(70, 255)
            width = SIDE if rng.random() < 0.7 else SIDE // 2
            image[:, row : row + SIDE, column : column + width] = bright
    return made.astype(np.uint8)
