"""Masks beside pictures: two layouts, brought to a size with their pictures, and refused where they cannot be."""

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffgen.data import load
from diffgen.errors import UserError
from diffgen.types import NO_CLASS, ImageSet
from tests.recording import Recording

GROUP = "Masks beside pictures"
PALETTE = [0, 0, 0, 200, 30, 30, 30, 200, 30, *[0] * 753]


def made(count: int = 50, height: int = 40, width: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """Pictures whose grey levels tell the class of each pixel in blocks of ten, and the masks."""
    blocks = np.random.default_rng(0).integers(0, 3, (count, height // 10, width // 10), dtype=np.uint8)
    masks = blocks.repeat(10, axis=1).repeat(10, axis=2)
    return 100 * masks, masks


def written(folder: Path, layout: str, masks: np.ndarray, images: np.ndarray) -> Path:
    """Without a mask for the first picture; colours of a palette in VOC's layout, beside its boxes."""
    places = {"voc": ("JPEGImages", "SegmentationClass"), "plain": ("images", "masks")}[layout]
    for place in places:
        (folder / "set" / place).mkdir(parents=True)
    for number, (image, mask) in enumerate(zip(images, masks, strict=True)):
        Image.fromarray(image).save(folder / "set" / places[0] / f"p{number:02}.png")
        if number:
            picture = Image.fromarray(mask)
            if layout == "voc":
                picture.putpalette(PALETTE)
            picture.save(folder / "set" / places[1] / f"p{number:02}.png")
    if layout == "voc":
        (folder / "set" / "SegmentationObject").mkdir()
        Image.fromarray(masks[1]).save(folder / "set" / "SegmentationObject" / "p01.png")
        (folder / "set" / "Annotations").mkdir()
        box = "".join(
            f"<{side}>{value}</{side}>"
            for side, value in zip(("xmin", "ymin", "xmax", "ymax"), (1, 2, 9, 8), strict=True)
        )
        (folder / "set" / "Annotations" / "p01.xml").write_text(
            f"<annotation><object><name>cat</name><bndbox>{box}</bndbox></object></annotation>"
        )
    return folder


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("layout", ["voc", "plain"])
def test_two_layouts(layout: str, zipped: bool, tmp_path: Path) -> None:
    images, masks = made()
    path = written(tmp_path / "data", layout, masks, images)
    if zipped:
        with zipfile.ZipFile(tmp_path / "data.zip", "w") as archive:
            for file in sorted(path.rglob("*.*")):
                archive.write(file, file.relative_to(path))
        path = tmp_path / "data.zip"
    heard = Recording()
    data = load(str(path), progress=heard.progress)
    np.testing.assert_array_equal(data.images[:, 0], images)
    assert data.masks is not None
    assert data.masks[0] is None and data.mask_names is None
    np.testing.assert_array_equal(np.stack(data.masks[1:]), masks[1:])
    assert (data.boxes is not None) == (layout == "voc")
    assert any("49 images" in text and "of 1 images nobody knows" in text for text in heard.heard)
    some = data.at(np.array([0, 3]))
    assert some.masks is not None and some.masks[0] is None
    assert some.digest != ImageSet(some.images, None, None, "x").digest


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_masks_go_where_the_pixels_go(fit: str, tmp_path: Path) -> None:
    images, masks = made()
    data = load(str(written(tmp_path, "plain", masks, images)), resize=(48, 40), fit=fit)
    assert data.masks is not None
    for image, mask in zip(data.images[1:, 0].astype(int), data.masks[1:], strict=True):
        assert mask is not None
        beside = mask == NO_CLASS
        assert beside.any() == (fit == "pad") and (image[beside] == 0).all()
        near = np.abs(image - 100 * np.where(beside, 0, mask.astype(int))) < 50
        assert near.mean() > 0.9  # but for blurred edges of blocks


def test_names_stand_beside_them(tmp_path: Path) -> None:
    images, masks = made()
    masks[5, :3] = NO_CLASS
    path = written(tmp_path, "plain", masks, images)
    (path / "set" / "classes.txt").write_text("sky\nsea\nland\n")
    data = load(str(path))
    assert data.mask_names == ("sky", "sea", "land") and data.class_names is None and data.labels is None
    assert data.masks is not None and data.masks[5] is not None and (data.masks[5][:3] == NO_CLASS).all()


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("a mask of another size than its picture", "has 30x20 pixels, and its picture 60x40"),
        ("a mask with a class that has no name", "has the class 2, and the 2 classes that have names"),
        ("a mask in colours", "has 60x40 pixels of type 'RGB'"),
        ("a mask that is damaged", "cannot be read"),
    ],
)
def test_masks_that_cannot_be_are_refused(
    case: str, words: str, tmp_path: Path, told: Callable[[str, str, object], None]
) -> None:
    images, masks = made(60)
    path = written(tmp_path, "plain", np.minimum(masks, 1), images)
    (path / "set" / "classes.txt").write_text("sky\nsea\n")
    file = path / "set" / "masks" / "p07.png"
    if "size" in case:
        Image.fromarray(masks[7, ::2, ::2]).save(file)
    elif "class" in case:
        Image.new("L", (60, 40), 2).save(file)
    elif "colours" in case:
        Image.new("RGB", (60, 40)).save(file)
    else:
        file.write_bytes(file.read_bytes()[:60])
    with pytest.raises(UserError, match=words) as caught:
        load(str(path))
    told(GROUP, case, caught.value)
    assert len(load(str(path), skip_broken=True)) == 59


def test_masks_in_memory_are_checked() -> None:
    images, masks = made()
    with pytest.raises(UserError, match="is no uint8 array of"):
        load(ImageSet(images[:, None], None, None, "mine", masks=tuple(masks[:, 1:])))
    with pytest.raises(UserError, match="image 0 of 'mine' has the class 2"):
        load(ImageSet(images[:, None], None, None, "mine", masks=tuple(masks), mask_names=("sky", "sea")))
