"""Changes real images by chains of operators, large ones on several threads."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from math import prod

import torch

from diffgen.numerics import torch_threads
from diffgen.origins import Step
from diffgen.sources.operators import OPERATORS, Operator, Scene

# Values of a picture up to which several threads would only wait for Python's lock, and those that a thread is handed
# at once: docs/decisions/055.
_SMALL, _AT_ONCE = 3 * 32 * 32, 2**18
_Part = tuple[Operator, list[tuple[int, Step]]]


def applied(chains: list[tuple[Step, ...]], images: torch.Tensor, scene: Scene) -> torch.Tensor:
    """What the steps of each image make of it; a trigger's recipe draws its picture again from the real image.

    Images of more than 3x32x32 values are shared out among as many threads as torch computes with; what becomes of
    an image does not depend on that.

    Args:
        chains: the steps of each image.
        images: uint8 (N, C, H, W).

    Returns:
        uint8 (N, C, H, W).
    """
    images = images.clone()

    def change(part: _Part) -> None:
        operator, own = part
        which = [row for row, _ in own]
        images[which] = operator.apply(images[which], scene, [dict(step.strengths) for _, step in own])

    values, threads = prod(images.shape[1:]), torch.get_num_threads()
    # large ones a few at a time, by one thread, too: what operators compute with takes several times what they change
    steps = _parts(chains, len(images) if values <= _SMALL else max(1, _AT_ONCE // values))
    if threads == 1 or values <= _SMALL:
        for parts in steps:
            list(map(change, parts))
        return images
    with torch_threads(1), ThreadPoolExecutor(threads, "operators") as pool:
        for parts in steps:
            list(pool.map(change, parts))
    return images


def _parts(chains: list[tuple[Step, ...]], most: int) -> list[list[_Part]]:
    """For the first steps, the second and so on: each operator with up to ``most`` of the images that it changes."""
    found = []
    for number in range(max(map(len, chains), default=0)):
        steps: defaultdict[str, list[tuple[int, Step]]] = defaultdict(list)
        for row, chain in enumerate(chains):
            if number < len(chain):
                steps[chain[number].operator].append((row, chain[number]))
        found.append(
            [
                (OPERATORS[name], own[first : first + most])
                for name, own in steps.items()
                for first in range(0, len(own), most)
            ]
        )
    return found
