"""Mean average precision against the reference that COCO's own program is, and what it must be."""

import numpy as np
import pytest

from diffgen.gate.average_precision import drop_interval, mean_average_precision


def drawn(seed: int, pictures: int = 12) -> tuple[np.ndarray, list[np.ndarray]]:
    """Answers float32 (N, 2, P, 6) of two models, the second the worse one, and the truth, corners and class."""
    rng = np.random.default_rng(seed)
    truth, answers = [], np.zeros((pictures, 2, 20, 6), dtype=np.float32)
    answers[..., 5] = -1
    for picture in range(pictures):
        count = rng.integers(0, 6)
        corner, side = rng.uniform(0, 100, (count, 2)), rng.uniform(10, 60, (count, 2))
        known = np.column_stack([corner, corner + side, rng.integers(0, 3, count)])
        truth.append(known.astype(np.float32))
        for model, noise in enumerate((2, 6)):
            found = np.concatenate([known, known[: rng.integers(0, 3)]])
            found[:, :4] += rng.normal(0, noise, (len(found), 4))
            found[:, 2:4] = np.maximum(found[:, 2:4], found[:, :2] + 1)
            others = rng.random(len(found)) < 0.15
            found[others, 4] = rng.integers(0, 3, others.sum())
            answers[picture, model, : len(found)] = np.insert(found, 4, rng.uniform(0.05, 1, len(found)), axis=1)
    return answers, truth


def by_reference(answers: np.ndarray, truth: list[np.ndarray]) -> float:
    coco = pytest.importorskip("faster_coco_eval", reason="pip install faster-coco-eval to compare with it")

    def entry(number: int, picture: int, box: np.ndarray, label: float, **more: float) -> dict[str, object]:
        x1, y1, x2, y2 = map(float, box)
        sides = x2 - x1, y2 - y1
        about = {"id": number, "image_id": picture, "category_id": int(label), "bbox": [x1, y1, *sides]}
        return {**about, "area": sides[0] * sides[1], "iscrowd": 0, **more}

    known = [(i, each) for i, own in enumerate(truth) for each in own]
    found = [(i, each) for i, own in enumerate(answers) for each in own if each[5] >= 0]
    gold = coco.COCO(
        {
            "images": [{"id": each, "width": 200, "height": 200} for each in range(len(truth))],
            "categories": [{"id": each, "name": str(each)} for each in range(3)],
            "annotations": [entry(n + 1, i, each[:4], each[4]) for n, (i, each) in enumerate(known)],
        }
    )
    said = gold.loadRes([entry(n + 1, i, each[:4], each[5], score=float(each[4])) for n, (i, each) in enumerate(found)])
    measured = coco.COCOeval_faster(gold, said, "bbox", print_function=lambda *_: None)
    measured.run()
    return float(measured.stats_as_dict["AP_all"])


@pytest.mark.parametrize("seed", range(8))
def test_it_is_what_coco_says(seed: int) -> None:
    """On boxes of three classes that are shifted, doubled and named wrongly."""
    answers, truth = drawn(seed)
    found, _ = mean_average_precision(answers, truth, resamples=1)
    for model in range(2):
        assert found[model] == pytest.approx(by_reference(answers[:, model], truth), abs=1e-6)


def test_the_truth_has_all_of_it_and_nothing_has_none() -> None:
    """The ends of the scale, and pictures without objects."""
    _, truth = drawn(3)
    answers = np.full((len(truth), 2, 8, 6), -1, dtype=np.float32)
    for own, known in zip(answers[:, 0], truth, strict=True):
        own[: len(known)] = np.insert(known, 4, 0.9, axis=1)
    found, _ = mean_average_precision(answers, truth)
    np.testing.assert_allclose(found, (1, 0), atol=1e-9)
    nothing, _ = mean_average_precision(answers, [np.empty((0, 5), dtype=np.float32)] * len(truth))
    assert np.isnan(nothing).all()


def test_the_interval_holds_the_drop_and_is_one_of_pictures() -> None:
    """More pictures of the same kind narrow it."""
    widths = []
    for pictures in (12, 120):
        found, resampled = mean_average_precision(*drawn(5, pictures))
        low, high = drop_interval(resampled)
        assert low < found[0] - found[1] < high
        widths.append(high - low)
    assert widths[1] < widths[0]
