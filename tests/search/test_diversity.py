"""Eq. 2 against a plain loop, and the representatives in every corner."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from diffgen.config import SearchConfig
from diffgen.features.encoder import DomainEncoder
from diffgen.runs.triggers import TriggerTable
from diffgen.search import diversity as module
from diffgen.search.archive import Archive
from diffgen.search.diversity import (
    Diversity,
    FeatureEmbedding,
    PixelEmbedding,
    representative_rows,
    stratified_rows,
    warm_up,
)
from diffgen.techniques import preset
from diffgen.types import ImageSet

CPU = torch.device("cpu")
PIXELS = PixelEmbedding()


def fill(archive: Archive, images: np.ndarray) -> None:
    probabilities = np.tile(np.eye(2, dtype=np.float32), (len(images), 1, 1))
    query = np.arange(1, len(images) + 1)
    archive.add(TriggerTable.of(images, probabilities, query=query))


def points(images: np.ndarray) -> np.ndarray:
    return PIXELS.points(torch.from_numpy(images)).numpy()


def loop_diversity(images: np.ndarray, numbers: list[int], archive: Archive, representatives: list[int]) -> list[float]:
    """Eq. 2 pixel by pixel."""
    known = {number: archive.images(np.array([number]))[0].ravel().tolist() for number in representatives}
    found = []
    for image, number in zip(images, numbers, strict=True):
        x = [float(v) for v in image.ravel()]
        norm_x = math.sqrt(sum(v * v for v in x))
        if norm_x == 0:
            found.append(0.0)
            continue
        distances = [1.0]
        for other, y in known.items():
            if other == number:
                continue
            norm_y = math.sqrt(sum(v * v for v in y))
            dot = sum(a * b for a, b in zip(x, y, strict=True))
            distances.append(1 - dot / (norm_x * norm_y) if norm_y else 1.0)
        found.append(min(distances))
    return found


def test_score_equals_a_plain_loop(digits: ImageSet) -> None:
    archive = Archive(digits.image_shape)
    fill(archive, digits.images[:300])
    diversity = Diversity(archive, SearchConfig(cluster_growth=0), space=PIXELS, seed=0, device=CPU)
    assert diversity.update()
    representatives = diversity.representatives.tolist()
    assert 1 < len(representatives) < 300
    # representatives themselves, other archived images, images never archived, a blank one
    images = np.concatenate([digits.images[:20], digits.images[-20:], np.zeros((1, 1, 28, 28), np.uint8)])
    numbers = [*range(20), *[-1] * 21]
    found = diversity.score(torch.from_numpy(images), torch.tensor(numbers)).tolist()
    assert np.allclose(found, loop_diversity(images, numbers, archive, representatives), atol=1e-6)


def test_an_image_is_compared_with_all_but_itself(digits: ImageSet) -> None:
    archive = Archive(digits.image_shape)
    fill(archive, digits.images[:2])
    diversity = Diversity(archive, SearchConfig(cluster_growth=0), space=PIXELS, seed=0, device=CPU)
    diversity.restore(np.array([0]), clustered=2)
    images = torch.from_numpy(digits.images[:2])
    itself, other = diversity.score(images, torch.tensor([0, 1])).tolist()
    assert itself == 1.0  # it is the only representative
    copy_of_it, _ = diversity.score(images, torch.tensor([-1, -1])).tolist()
    assert copy_of_it == pytest.approx(0.0, abs=1e-6)
    assert 0 < other < 1


def test_an_empty_archive_makes_everything_new_but_a_blank_image(digits: ImageSet) -> None:
    diversity = Diversity(Archive(digits.image_shape), SearchConfig(), space=PIXELS, seed=0, device=CPU)
    assert not diversity.update()
    images = torch.from_numpy(np.concatenate([digits.images[:2], np.zeros((1, 1, 28, 28), np.uint8)]))
    assert diversity.score(images, torch.tensor([-1, -1, -1])).tolist() == [1.0, 1.0, 0.0]


def test_clustering_follows_the_growth_of_the_archive(digits: ImageSet) -> None:
    archive = Archive(digits.image_shape)
    diversity = Diversity(archive, SearchConfig(cluster_growth=0.5), space=PIXELS, seed=0, device=CPU)
    sizes = []
    for start in range(0, 400, 10):
        fill(archive, digits.images[start : start + 10])
        if diversity.update():
            sizes.append(len(archive))
    assert sizes[0] == 20  # not after every handful
    assert all(b >= 1.5 * a for a, b in pairwise(sizes))
    assert diversity.version == len(sizes)


def test_clustering_is_the_same_for_the_same_seed_and_bounded(digits: ImageSet) -> None:
    config = SearchConfig(cluster_growth=0, cluster_sample=100, noise_representatives=10)
    archive = Archive(digits.image_shape)
    fill(archive, digits.images[:400])
    first, second, other = (Diversity(archive, config, space=PIXELS, seed=seed, device=CPU) for seed in (1, 1, 2))
    for each in (first, second, other):
        each.update()
    assert first.representatives.tolist() == second.representatives.tolist()
    assert first.representatives.tolist() != other.representatives.tolist()
    assert len(first.representatives) <= 100


@pytest.mark.parametrize("count", [1, 2, 6])
def test_too_few_images_stand_for_themselves(digits: ImageSet, count: int) -> None:
    rows = representative_rows(points(digits.images[:count]), SearchConfig(min_cluster_size=3), seed=0)
    assert rows.tolist() == list(range(count))


def test_images_all_alike_have_one_representative(digits: ImageSet) -> None:
    images = np.repeat(digits.images[:1], 50, axis=0)
    assert representative_rows(points(images), SearchConfig(), seed=0).tolist() == [0]


def test_all_noise_still_has_representatives(digits: ImageSet) -> None:
    # clusters of at least half of the images do not exist among ten kinds of digits
    images = digits.images[:60]
    rows = representative_rows(points(images), SearchConfig(min_cluster_size=29, noise_representatives=20), seed=0)
    assert 1 <= len(rows) <= 21
    assert (
        len(representative_rows(points(images), SearchConfig(min_cluster_size=29, noise_representatives=0), seed=0))
        >= 1
    )


def test_each_cluster_has_a_member_for_representative(digits: ImageSet) -> None:
    assert digits.labels is not None
    two = np.flatnonzero(np.isin(digits.labels, [0, 1]))[:150]
    rows = representative_rows(
        points(digits.images[two]), SearchConfig(min_cluster_size=10, noise_representatives=0), seed=0
    )
    assert set(digits.labels[two][rows].tolist()) == {0, 1}


@pytest.mark.slow  # UMAP is compiled first
@pytest.mark.parametrize("kind", ["apart", "two groups", "three pictures", "on a line"])
def test_umap_copes_with_few_points(kind: str) -> None:
    """Its spectral beginning needs more points than dimensions; from the fewest that are clustered at all."""
    rng = np.random.default_rng(0)
    for count in (7, 8, 12, 19, 20, 21, 22, 23, 30):
        points = rng.random((count, 50)).astype(np.float32)
        if kind == "two groups":
            points[count // 2 :] += 5
        elif kind == "three pictures":
            points = points[np.arange(count) % 3]
        elif kind == "on a line":
            points = np.linspace(0, 1, count, dtype=np.float32)[:, None].repeat(50, axis=1)
        for dim in (2, 20):
            rows = representative_rows(points, SearchConfig(reducer="umap", reducer_dim=dim), seed=0)
            assert len(rows) >= 1
            assert (rows >= 0).all()
            assert (rows < count).all()


@pytest.mark.slow
def test_umap_gives_the_same_representatives_for_the_same_seed(digits: ImageSet) -> None:
    config = SearchConfig(reducer="umap", reducer_dim=2, noise_representatives=0)
    first = representative_rows(points(digits.images[:200]), config, seed=3)
    assert 1 < len(first) < 200
    assert first.tolist() == representative_rows(points(digits.images[:200]), config, seed=3).tolist()


@pytest.mark.parametrize("reducer", ["pca", pytest.param("umap", marks=pytest.mark.slow)])  # UMAP is compiled
def test_it_computes_with_one_thread_whatever_others_do(
    digits: ImageSet, monkeypatch: pytest.MonkeyPatch, reducer: str
) -> None:
    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    def watched(*arguments: Any) -> np.ndarray:
        seen.append(threads())
        return reduce(*arguments)

    seen: list[set[int]] = []
    reduce = module._reduce
    config = SearchConfig(reducer=reducer)
    monkeypatch.setattr(module, "_reduce", watched)
    found = []
    for count in (1, 2):
        with threadpool_limits(count, user_api="blas"):
            found.append(representative_rows(points(digits.images[:200]), config, seed=0).tolist())
            assert threads() == {count}
    assert seen == [{1}, {1}]
    assert found[0] == found[1]


def test_clusters_agree_with_every_trigger(digits: ImageSet) -> None:
    """Fewer representatives are never nearer, and who is far from all is rather far from them too."""
    from scipy.stats import spearmanr

    archive = Archive(digits.image_shape)
    fill(archive, digits.images[:600])
    diversity = Diversity(archive, SearchConfig(cluster_sample=400), space=PIXELS, seed=0, device=CPU)
    new = torch.from_numpy(digits.images[600:])
    diversity.update()
    clustered = diversity.score(new, torch.full((len(new),), -1)).numpy()
    diversity.restore(np.arange(600), clustered=600)
    exact = diversity.score(new, torch.full((len(new),), -1)).numpy()
    assert (clustered >= exact - 1e-6).all()
    assert spearmanr(exact, clustered).statistic > 0.25


def test_distances_in_feature_space_equal_a_plain_loop(digits: ImageSet) -> None:
    torch.manual_seed(0)
    encoder = DomainEncoder(digits.image_shape).eval()
    archive = Archive(digits.image_shape)
    fill(archive, digits.images[:80])
    config = SearchConfig(diversity="features", cluster_growth=0)
    diversity = Diversity(archive, config, space=FeatureEmbedding(encoder), seed=0, device=CPU)
    assert diversity.score(torch.from_numpy(digits.images[:1]), torch.tensor([0])).tolist() == [2.0]
    diversity.update()
    features = encoder.encode(torch.from_numpy(digits.images[:120])).numpy().astype(np.float64)
    expected = []
    for row in range(120):
        nearest = 2.0
        for number in diversity.representatives.tolist():
            if number != row:
                cosine = features[row] @ features[number]
                cosine /= np.linalg.norm(features[row]) * np.linalg.norm(features[number])
                nearest = min(nearest, 1 - cosine)
        expected.append(nearest)
    numbers = torch.tensor([row if row < 80 else -1 for row in range(120)])
    found = diversity.score(torch.from_numpy(digits.images[:120]), numbers)
    assert np.allclose(found.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize(("models", "classes"), [(5, 10_000), (7, 1_000), (70, 10)])
def test_a_stratified_sample_is_drawn_among_many_models_and_classes(models: int, classes: int) -> None:
    labels = np.full((500, models), classes - 1)
    labels[:10, -1] = 0
    labels[10:20, 0] = 0
    rows = stratified_rows(labels, 30, np.random.default_rng(0))
    assert set(range(20)) <= set(rows.tolist()), "the rare tuples give all that they have"
    assert len(set(rows.tolist())) == 30


def test_a_stratified_sample_takes_evenly_from_all_label_pairs() -> None:
    labels = np.repeat(np.array([[0, 1], [1, 0], [2, 0], [5, 3]]), [1000, 30, 4, 1], axis=0)
    rows = stratified_rows(labels, 64, np.random.default_rng(0))
    assert len(np.unique(rows)) == 64
    assert (np.diff(rows) > 0).all()
    _, counts = np.unique(labels[rows], axis=0, return_counts=True)
    assert counts.tolist() in ([29, 30, 4, 1], [30, 29, 4, 1])
    again = stratified_rows(labels, 64, np.random.default_rng(0))
    assert rows.tolist() == again.tolist()
    assert rows.tolist() != stratified_rows(labels, 64, np.random.default_rng(1)).tolist()


def test_the_default_search_finds_its_clustering_imported() -> None:
    warm_up(preset("diffgan", "default").search)
    assert {"hdbscan", "sklearn.decomposition"} <= sys.modules.keys()


@pytest.mark.slow  # UMAP is compiled
def test_nothing_of_umap_is_left_to_compile() -> None:
    config = preset("diffgan", "paper").search
    warm_up(config)
    from numba.core import event

    points = np.random.default_rng(1).random((4200, 20), dtype=np.float32)
    for count in (30, 300, 4200):  # the last number takes another way through UMAP
        with event.install_recorder("numba:compile") as recorded:
            representative_rows(points[:count], config, seed=1)
        assert [str(each[1].data.get("dispatcher")) for each in recorded.buffer if each[1].is_start] == []
