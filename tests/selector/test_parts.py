"""What the selector is made of: examples, divisions, figures, and the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from diffgen.config import SelectorConfig
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.features.encoder import DomainEncoder
from diffgen.features.pretrained import Vgg16
from diffgen.selector.evaluation import Cost, evaluate
from diffgen.selector.examples import A, B, make_examples
from diffgen.selector.forest import cross_validated, fit_forest
from diffgen.selector.onnx_file import METADATA, PixelNetwork, Vgg16Network, load_selector, save_selector

CONFIG = SelectorConfig(trees=20, seed=3)
MODELS = {"A": {}, "B": {}}


def test_examples_are_what_one_model_is_right_on() -> None:
    labels = np.array([3] * 6 + [4] * 7 + [5, -1, -2])
    said = np.array([[3, 4]] * 13 + [[6, 7]] * 3)
    behaviours = np.column_stack([said, np.arange(16) % 2])
    examples = make_examples(labels, said, behaviours)
    assert examples.rows.tolist() == list(range(13))
    assert examples.targets.tolist() == [A] * 6 + [B] * 7
    assert examples.both_wrong == 1
    assert np.array_equal(examples.groups, np.arange(13) % 2)
    assert len(make_examples(labels, said, behaviours, limit=12, seed=1)) == 12


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([-2] * 20, "No trigger of the run has a label"),
        ([-1] * 20, "No trigger of the run has a label"),
        ([3] * 20, "model B is right on 0 only, so there is nothing to tell apart"),
        ([4] * 16 + [3] * 4, "model A is right on 4 only"),
    ],
)
def test_labels_of_one_kind(labels: list[int], message: str) -> None:
    said = np.array([[3, 4]] * 20)
    with pytest.raises(UserError, match=message):
        make_examples(np.array(labels), said, np.column_stack([said, np.zeros(20, int)]))


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 1)), min_size=1, max_size=40))
def test_figures_against_counting(cases: list[tuple[bool, bool, int]]) -> None:
    right = np.array([[a, b] for a, b, _ in cases])
    chosen = np.array([choice for _, _, choice in cases])
    found = evaluate("here", chosen, right)
    count = len(cases)
    assert found.ensemble == pytest.approx(sum((a, b)[c] for a, b, c in cases) / count)
    assert found.oracle == pytest.approx(sum(a or b for a, b, _ in cases) / count)
    assert found.regret == pytest.approx(found.oracle - found.ensemble)
    assert found.regret >= 0
    best = max(sum(a for a, _, _ in cases), sum(b for _, b, _ in cases)) / count
    assert found.gain == pytest.approx(found.ensemble - best)
    decisive = [(0 if a else 1, c) for a, b, c in cases if a != b]
    assert found.decisive == len(decisive)
    for i in (0, 1):
        for j in (0, 1):
            assert found.confusion[i][j] == decisive.count((i, j))
    if decisive:
        assert found.accuracy == pytest.approx(sum(t == c for t, c in decisive) / len(decisive))
        shares = [sum(t == 0 for t, _ in decisive), sum(t == 1 for t, _ in decisive)]
        assert found.majority == pytest.approx(max(shares) / len(decisive))
        recalls = [decisive.count((kind, kind)) / shares[kind] for kind in (0, 1) if shares[kind]]
        assert found.balanced_accuracy == (pytest.approx(sum(recalls) / 2) if len(recalls) == 2 else None)
    json.dumps(found.as_dict())


def test_the_interval_is_wider_where_pictures_come_in_groups() -> None:
    rng = np.random.default_rng(0)
    right = np.eye(2, dtype=bool)[rng.integers(2, size=200)]
    good = np.repeat(rng.random(20) < 0.7, 10)  # ten pictures of a group are chosen well, or none
    chosen = np.where(good, right.argmax(axis=1), right.argmin(axis=1))
    alone, grouped = (
        evaluate("here", chosen, right, groups).balanced_interval for groups in (None, np.repeat(np.arange(20), 10))
    )
    assert alone is not None and grouped is not None
    assert grouped[1] - grouped[0] > 2 * (alone[1] - alone[0])
    # of single pictures it is that of two shares, each with its binomial variance
    shares, counts = zip(*((good[right[:, kind]].mean(), right[:, kind].sum()) for kind in (0, 1)), strict=True)
    deviation = np.sqrt(sum(p * (1 - p) / n for p, n in zip(shares, counts, strict=True))) / 2
    assert alone == pytest.approx((np.mean(shares) - 1.96 * deviation, np.mean(shares) + 1.96 * deviation), abs=0.01)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans(), st.integers(0, 2)), min_size=1, max_size=40))
def test_figures_of_three_against_counting(cases: list[tuple[bool, bool, bool, int]]) -> None:
    right = np.array([case[:3] for case in cases])
    found = evaluate("here", np.array([case[3] for case in cases]), right)
    decisive = [case for case in cases if 0 < sum(case[:3]) < 3]
    assert found.decisive == len(decisive)
    assert found.ensemble == pytest.approx(sum(case[case[3]] for case in cases) / len(cases))
    for model in range(3):
        own = [case for case in decisive if case[model]]
        assert found.confusion[model] == tuple(sum(case[3] == chosen for case in own) for chosen in range(3))
    if decisive:
        assert found.accuracy == pytest.approx(sum(case[case[3]] for case in decisive) / len(decisive))
        assert found.majority == pytest.approx(max(sum(case[m] for case in decisive) for m in range(3)) / len(decisive))
    assert set(found.as_dict()) >= {"model_a", "model_b", "model_c"}


def test_of_several_that_are_right_the_best_is_learnt() -> None:
    said = np.array([[0, 0, 1]] * 8 + [[1, 0, 1]] * 6 + [[1, 1, 0]] * 5 + [[2, 1, 1]] * 2)
    labels = np.zeros(len(said), dtype=np.int64)
    behaviours = np.column_stack([said, np.zeros(len(said), int)])
    examples = make_examples(labels, said, behaviours)
    # B is right on 14 pictures, A on 8, C on 5; on the first eight A and B are
    assert examples.targets.tolist() == [1] * 14 + [2] * 5
    assert examples.both_wrong == 2 and examples.right.shape == (19, 3)
    with pytest.raises(UserError, match="no model but B is right on 5 on which B is wrong"):
        make_examples(labels[:18], said[:18], behaviours[:18])


def test_a_file_that_trusts_some_of_four(digits: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    images, targets = digits
    features = PixelNetwork()(torch.from_numpy(images).float()).numpy()
    forest = fit_forest(features, np.where(targets == 0, 1, 3), CONFIG)
    about = {"models": {role: {} for role in "ABCD"}}
    save_selector(tmp_path / "selector.onnx", PixelNetwork(), forest, (1, 28, 28), about)
    selector = load_selector(tmp_path / "selector.onnx")
    chosen = selector.choose(images)
    assert set(chosen.tolist()) == {1, 3} and selector.models == 4
    assert (chosen == np.where(targets == 0, 1, 3)).mean() > 0.97
    # a model that is not there, and one model with "none is right"
    for kind in (7, 4):
        forest = fit_forest(features, np.where(targets == 0, 1, kind), CONFIG)
        save_selector(tmp_path / "wrong.onnx", PixelNetwork(), forest, (1, 28, 28), about)
        with pytest.raises(UserError, match="holds no selector"):
            load_selector(tmp_path / "wrong.onnx")


def test_cost_is_that_of_what_is_asked() -> None:
    cost = Cost(models=(4.0, 1.0), selector=0.5, shares=(0.25, 0.75), of_real=True)
    assert cost.ensemble == 0.5 + 0.25 * 4 + 0.75 * 1
    assert cost.saved == pytest.approx(1 - 2.25 / 5)


def test_a_behaviour_never_lies_on_both_sides() -> None:
    """A forest that knows every behaviour by heart must be at a loss when whole behaviours are held apart."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 10)
    targets = rng.integers(0, 2, 40)[groups]
    features = np.eye(40, dtype=np.float32)[groups]
    apart = cross_validated(features, targets, groups, CONFIG)
    mixed = cross_validated(features, targets, None, CONFIG)
    assert apart is not None
    assert mixed is not None
    assert (mixed == targets).mean() > 0.95
    assert (apart == targets).mean() < 0.7


def test_too_few_to_divide() -> None:
    features, targets = np.zeros((6, 2), np.float32), np.array([0, 1, 1, 1, 1, 1])
    assert cross_validated(features, targets, None, CONFIG) is None
    assert cross_validated(features, np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 2, 3]), CONFIG) is None


def test_a_kind_with_one_example_takes_no_judgement_of_the_others_away() -> None:
    features = np.repeat(np.arange(20), 3).astype(np.float32)[:, None]
    targets = np.repeat(np.arange(20) % 2, 3)
    targets[7] = 2
    for groups in (None, np.repeat(np.arange(20), 3)):
        said = cross_validated(features, targets, groups, CONFIG)
        assert said is not None and {A, B} <= set(said.tolist())


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    data = load("digits:test")
    return data.images[:300], (data.labels[:300] >= 5).astype(np.int64)


@pytest.fixture(scope="module")
def vgg16_weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real network with random weights: what the shapes and the file are tested with."""
    from torchvision.models import vgg16

    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "vgg16.pth"
    torch.save({f"features.{k}": v for k, v in vgg16(weights=None).features.state_dict().items()}, path)
    return path


def test_vgg16_in_the_file_is_the_extractor(vgg16_weights: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    extractor = Vgg16(vgg16_weights)
    images = torch.from_numpy(digits[0][:4])
    ours, theirs = Vgg16Network(extractor)(images.float()), extractor.encode(images)
    assert ours.shape == (4, 512)
    # their low-pass filter does nothing where images become larger
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["pixels", "domain", "vgg16"])
def test_the_file_answers_as_the_forest(
    kind: str, tmp_path: Path, digits: tuple[np.ndarray, np.ndarray], request: pytest.FixtureRequest
) -> None:
    images, targets = digits
    if kind == "vgg16":
        images, targets = images[:40], targets[:40]
        network: torch.nn.Module = Vgg16Network(Vgg16(request.getfixturevalue("vgg16_weights")))
    else:
        torch.manual_seed(0)
        network = PixelNetwork() if kind == "pixels" else DomainEncoder((1, 28, 28)).eval()
    with torch.inference_mode():
        features = network(torch.from_numpy(images).float()).numpy()
    forest = fit_forest(features, targets, CONFIG)
    save_selector(tmp_path / "selector.onnx", network, forest, (1, 28, 28), {"models": MODELS, "note": "ß"})
    selector = load_selector(tmp_path / "selector.onnx", batch_size=64)
    wanted = forest.predict_proba(features)
    found = selector.probabilities(images)
    # thresholds of trees are sharp: features that differ in the last bit may take another branch
    assert (np.abs(found - wanted).max(axis=1) < 1e-5).mean() >= 0.97
    assert (selector.choose(images) == wanted.argmax(axis=1)).mean() >= 0.97
    assert selector.metadata["note"] == "ß"
    # an image's answer does not depend on its neighbours
    assert np.array_equal(selector.probabilities(images[:1]), found[:1])
    assert selector.choose(images[:0]).shape == (0,)


@pytest.mark.parametrize("sides", [(224, 224), (96, 80)])
def test_a_file_for_photographs_averages_them_down_as_the_encoder_does(tmp_path: Path, sides: tuple[int, int]) -> None:
    """80 pixels are averaged to 27, so that some pixels count for two."""
    torch.manual_seed(0)
    images = np.random.default_rng(0).integers(0, 256, (40, 3, *sides), dtype=np.uint8)
    images[::2] //= 2
    network = DomainEncoder((3, *sides)).eval()
    with torch.inference_mode():
        features = network(torch.from_numpy(images).float()).numpy()
    forest = fit_forest(features, np.arange(40) % 2, CONFIG)
    save_selector(tmp_path / "selector.onnx", network, forest, (3, *sides), {"models": MODELS})
    found = load_selector(tmp_path / "selector.onnx", batch_size=16).probabilities(images)
    assert (np.abs(found - forest.predict_proba(features)).max(axis=1) < 1e-5).mean() >= 0.95


def test_what_is_judged_chooses_as_the_file_does(tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    images, _ = digits
    features = images.reshape(len(images), -1).astype(np.float32) / 255
    targets = np.arange(len(images)) % 3  # nothing to learn, so that all kinds are probable
    forest = fit_forest(features[:200], targets[:200], CONFIG)
    save_selector(tmp_path / "selector.onnx", PixelNetwork(), forest, (1, 28, 28), {"models": {**MODELS, "C": {}}})
    by_file = load_selector(tmp_path / "selector.onnx").choose(images[200:])
    assert (forest.predict(features[200:]) == by_file).mean() >= 0.97
    said = cross_validated(features, targets, None, CONFIG)
    assert said is not None and set(said.tolist()) == {0, 1, 2}


def test_no_selector(tmp_path: Path, digits: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.raises(UserError, match="There is no selector"):
        load_selector(tmp_path / "selector.onnx")
    (tmp_path / "text.onnx").write_text("not a model")
    with pytest.raises(UserError, match="holds no selector"):
        load_selector(tmp_path / "text.onnx")
    images, targets = digits
    forest = fit_forest(images.reshape(300, -1).astype(np.float32), targets, CONFIG)
    file = tmp_path / "selector.onnx"
    save_selector(file, PixelNetwork(), forest, (1, 28, 28), {"models": MODELS})
    content = file.read_bytes()
    file.write_bytes(content.replace(METADATA.encode(), b"another.program!"))
    with pytest.raises(UserError, match="holds no selector"):
        load_selector(file)
    file.write_bytes(content.replace(b'"schema_version": 1', b'"schema_version": 9'))
    with pytest.raises(UserError, match="newer diffgen"):
        load_selector(file)
    assert b"sklearn" not in content  # data, no pickled classes


@pytest.mark.parametrize("wrong", [{"trees": 0}, {"folds": 1}, {"limit": 3}, {"seed": -1}])
def test_settings_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(UserError):
        SelectorConfig(**wrong)
