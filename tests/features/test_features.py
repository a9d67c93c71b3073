"""diffgen.features: the domain encoder and the cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.neighbors import KNeighborsClassifier

from diffgen.data import load as load_data
from diffgen.errors import RunError, UserError
from diffgen.features import cells as cell_store
from diffgen.features import encoder as encoders
from diffgen.features.cells import Cells
from diffgen.features.encoder import FEATURES, DomainEncoder
from diffgen.runs.cache import ENVIRONMENT
from diffgen.types import ImageSet
from tests.recording import Recording


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load_data("digits:test")


@pytest.fixture(scope="module")
def cells(digits: ImageSet, whole_lessons: None) -> Cells:
    """As every run on the digits would make them."""
    return cell_store.build(digits)


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten steps instead of hundreds, where what is learned does not matter."""
    for name in ("_STEPS_GREY", "_STEPS_COLOUR"):
        monkeypatch.setattr(encoders, name, 10)


def unlabelled(data: ImageSet, count: int) -> ImageSet:
    return ImageSet(images=data.images[:count], labels=None, class_names=None, source="here")


def same_weights(a: DomainEncoder, b: DomainEncoder) -> bool:
    return all(torch.equal(value, b.state_dict()[name]) for name, value in a.state_dict().items())


# -- the encoder -----------------------------------------------------------------------------------------------------


def test_features_tell_classes_of_other_images_apart(cells: Cells, digits: ImageSet) -> None:
    """Neighbours among the images it was trained on, asked about images that it never saw."""
    others = load_data("digits:train")
    train, test = (cells.encoder.encode(torch.from_numpy(each.images)).numpy() for each in (digits, others))
    neighbours = KNeighborsClassifier(5).fit(train, digits.labels)
    assert neighbours.score(test, others.labels) > 0.9
    assert neighbours.score(np.zeros_like(test), others.labels) < 0.2  # what chance gives


def test_what_the_encoder_gives(cells: Cells, digits: ImageSet) -> None:
    images = torch.from_numpy(digits.images)
    features = cells.encoder.encode(images)
    assert features.shape == (898, FEATURES)
    assert features.dtype == torch.float32
    assert torch.isfinite(features).all()
    assert not cells.encoder.training
    assert not any(parameter.requires_grad for parameter in cells.encoder.parameters())
    assert torch.equal(images, torch.from_numpy(load_data("digits:test").images))


@pytest.mark.parametrize("batch_size", [1, 7, 63, 64, 65])
def test_features_do_not_depend_on_the_batch(cells: Cells, digits: ImageSet, batch_size: int) -> None:
    images = torch.from_numpy(digits.images[:64])
    torch.testing.assert_close(
        cells.encoder.encode(images, batch_size=batch_size), cells.encoder.encode(images), rtol=0, atol=1e-4
    )


def test_no_images(cells: Cells) -> None:
    none = torch.empty(0, 1, 28, 28, dtype=torch.uint8)
    assert cells.encoder.encode(none).shape == (0, FEATURES)
    assert cells.assign(none).shape == (0,)
    assert cells.assign(none).dtype == np.int64


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.usefixtures("short_training")
def test_same_seed_same_encoder(digits: ImageSet, labelled: bool) -> None:
    images = torch.from_numpy(digits.images[:200])
    labels = torch.from_numpy(digits.labels[:200]) if labelled else None
    torch.manual_seed(11)
    before = torch.get_rng_state()
    first = encoders.train(images, labels)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert same_weights(first, encoders.train(images, labels))
    assert not same_weights(first, encoders.train(images, labels, seed=1))


@pytest.mark.parametrize("shape", [(3, 28, 28), (1, 32, 32), (3, 32, 32), (1, 30, 42), (3, 31, 29)])
@pytest.mark.usefixtures("short_training")
def test_other_shapes(shape: tuple[int, int, int]) -> None:
    noise = torch.randint(256, (60, *shape), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    assert encoders.train(noise, None).encode(noise).shape == (60, FEATURES)


# -- cells -----------------------------------------------------------------------------------------------------------


def test_every_image_gets_its_nearest_cell(cells: Cells, digits: ImageSet) -> None:
    found = cells.assign(torch.from_numpy(digits.images))
    assert found.shape == (898,)
    assert found.dtype == np.int64
    features = cells.encoder.encode(torch.from_numpy(digits.images)).double().numpy()
    for feature, cell in zip(features, found, strict=True):
        distances = [np.sqrt(((feature - centroid) ** 2).sum()) for centroid in cells.centroids.double().numpy()]
        assert distances[cell] <= min(distances) + 1e-3


def test_cells_are_thirty_and_none_is_empty(cells: Cells, digits: ImageSet) -> None:
    assert cells.centroids.shape == (30, FEATURES)
    assert cells.centroids.dtype == torch.float32
    assert set(cells.assign(torch.from_numpy(digits.images)).tolist()) == set(range(30))


def test_centroids_are_the_means_of_their_images(cells: Cells, digits: ImageSet) -> None:
    images = torch.from_numpy(digits.images)
    features, found = cells.encoder.encode(images), torch.from_numpy(cells.assign(images))
    scale = features.std()
    for cell in range(30):
        torch.testing.assert_close(
            features[found == cell].mean(dim=0), cells.centroids[cell], rtol=0, atol=0.05 * scale
        )


@pytest.mark.parametrize(
    ("count", "expected"), [(1, 1), (9, 1), (10, 1), (19, 1), (20, 2), (299, 29), (300, 30), (400, 30)]
)
@pytest.mark.usefixtures("short_training")
def test_small_sets_have_fewer_cells(digits: ImageSet, count: int, expected: int) -> None:
    made = cell_store.build(unlabelled(digits, count))
    assert len(made.centroids) == expected


# -- on disk ---------------------------------------------------------------------------------------------------------


def test_saved_cells_are_the_same_cells(cells: Cells, digits: ImageSet, tmp_path: Path) -> None:
    cell_store.save(cells, tmp_path / "cells")
    assert [each.name for each in tmp_path.iterdir()] == ["cells"]
    again = cell_store.load(tmp_path / "cells", digits.image_shape)
    images = torch.from_numpy(digits.images)
    assert torch.equal(again.centroids, cells.centroids)
    assert torch.equal(again.encoder.encode(images), cells.encoder.encode(images))
    assert np.array_equal(again.assign(images), cells.assign(images))
    assert not again.encoder.training


def test_files_that_are_no_cells(cells: Cells, tmp_path: Path) -> None:
    path = tmp_path / "cells"
    cell_store.save(cells, path)
    whole = path.read_bytes()
    for length in [0, 7, 8, 100, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(UserError, match="delete the file"):
            cell_store.load(path, (1, 28, 28))
    path.write_bytes(whole)
    for shape in [(3, 28, 28), (1, 32, 32)]:
        with pytest.raises(UserError, match="x".join(map(str, shape))):
            cell_store.load(path, shape)
    with pytest.raises(UserError, match="delete the file"):
        cell_store.load(tmp_path / "none", (1, 28, 28))


def test_a_place_that_cannot_be_written_is_a_run_error(cells: Cells, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written"):
        cell_store.save(cells, tmp_path / "missing" / "cells")


def test_damaged_cells_in_the_cache_are_made_anew(
    digits: ImageSet, short_training: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENVIRONMENT, str(tmp_path))
    few = unlabelled(digits, 60)
    made = cell_store.prepare(few)
    (file,) = (tmp_path / "cells").glob("*.safetensors")
    whole = file.read_bytes()
    for damage in (whole[:-100], b"", b"nonsense"):
        file.write_bytes(damage)
        listener = Recording()
        again = cell_store.prepare(few, progress=listener.progress)
        assert [("cannot be read" in line, line.endswith("It is made anew now.")) for line in listener.warnings] == [
            (True, True)
        ]
        assert torch.equal(again.centroids, made.centroids)
        assert file.read_bytes() == whole
    listener = Recording()
    assert same_weights(cell_store.prepare(few, progress=listener.progress).encoder, made.encoder)
    assert listener.warnings == []
