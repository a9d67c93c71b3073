"""diffgen.data.image_folder, file_tree and picture_file, on folders; what only a zip can do is in test_zip.py"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import ExifTags, Image, ImageOps
from torchvision.datasets import ImageFolder

from diffgen.data import file_tree, load, picture_stack
from diffgen.data.picture_file import decode
from diffgen.data.reading import PictureNotes
from diffgen.errors import UserError
from tests.recording import Recording


def encoded(image: Image.Image, kind: str, **options: Any) -> bytes:
    stream = io.BytesIO()
    image.save(stream, format=kind, **options)
    return stream.getvalue()


def test_class_folders(tmp_path: Path, make: Any) -> None:
    found = load(make.write_folder(tmp_path, make.classes(("dog", "cat"))))
    assert found.images.shape == (50, 1, 8, 8)
    assert found.class_names == ("cat", "dog")
    assert found.names is not None and found.names[::49] == ("cat/000.png", "dog/024.png")
    assert found.labels is not None
    assert found.labels.tolist() == [0] * 25 + [1] * 25
    assert found.images[:, 0, 0, 0].tolist() == [*range(100, 125), *range(25)]


def test_pictures_without_class_folders_have_no_labels(tmp_path: Path, make: Any) -> None:
    found = load(make.write_folder(tmp_path, {f"{n:02}.png": make.picture(n) for n in range(60)}))
    assert found.labels is None
    assert found.class_names is None
    assert found.images[:, 0, 0, 0].tolist() == list(range(60))


def test_one_class_folder_gives_no_labels(tmp_path: Path, make: Any) -> None:
    assert load(make.write_folder(tmp_path, make.classes(("cat",), each=50))).labels is None


def test_numbers_are_sorted_by_value_and_the_user_hears_of_it(tmp_path: Path, make: Any) -> None:
    names = tuple(str(number) for number in range(11))
    heard = Recording()
    found = load(make.write_folder(tmp_path, make.classes(names, each=5, mode="1")), progress=heard.progress)
    assert found.class_names == names
    assert "2 before 10" in heard.heard[0]
    heard = Recording()
    load(make.write_folder(tmp_path / "short", make.classes(names[:10], each=5, mode="1")), progress=heard.progress)
    assert heard.heard == []


def test_names_with_letters_are_sorted_as_text(tmp_path: Path, make: Any) -> None:
    found = load(make.write_folder(tmp_path, make.classes(("c10", "c2"))))
    assert found.class_names == ("c10", "c2")


def test_an_empty_class_folder_keeps_its_number(tmp_path: Path, make: Any) -> None:
    make.write_folder(tmp_path, make.classes(("ant", "cat")))
    (tmp_path / "bee").mkdir()
    found = load(tmp_path)
    assert found.class_names == ("ant", "bee", "cat")
    assert found.labels is not None
    assert sorted(set(found.labels.tolist())) == [0, 2]


def test_a_folder_beside_the_classes_without_pictures(tmp_path: Path, make: Any, refused: Any) -> None:
    make.write_folder(tmp_path, make.classes() | {"notes/a.txt": b"text"})
    refused(tmp_path, "'notes'", "holds files but no image", case="a folder of notes beside the class folders")


def test_hidden_and_other_files_are_left_out(tmp_path: Path, make: Any) -> None:
    extra = {".git/x.png": b"", "cat/.thumb.png": b"", "cat/readme.txt": b"", "labels.csv": b"", "__MACOSX/a.png": b""}
    assert len(load(make.write_folder(tmp_path, make.classes() | extra))) == 50


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "webp", "pgm", "tiff"])
@pytest.mark.parametrize("ending", ["", ".jfif", ".x"])
@pytest.mark.parametrize("zipped", [False, True])
def test_the_content_decides_and_not_the_ending(
    tmp_path: Path, make: Any, suffix: str, ending: str, zipped: bool
) -> None:
    heard = Recording()
    names = {f"{label}/{n:03}": make.picture(4 * n, suffix=suffix) for label in "ab" for n in range(25)}
    known = load(make.write_folder(tmp_path / "known", {f"{name}.png": content for name, content in names.items()}))
    files = {name + ending: content for name, content in names.items()}
    renamed = make.write_zip(tmp_path / "set", files) if zipped else make.write_folder(tmp_path / "set", files)
    found = load(renamed, progress=heard.progress)
    assert np.array_equal(found.images, known.images)
    assert found.class_names == ("a", "b")
    assert heard.heard == []


def test_files_of_another_kind_are_left_out_and_named(tmp_path: Path, make: Any) -> None:
    heard = Recording()
    companions = {
        "cat/Thumbs.db": b"\xd0\xcf\x11\xe0",
        "README": b"BMX bikes",
        "cat/a.txt": b"P1 is a place",
        "dog/b.JSON": b"{}",
    }
    others = {"cat/a.avif": b"\0\0\0\x1cftypavif", "dog/notes": b"BM is no bitmap, nor is this one"}
    make.write_folder(tmp_path, make.classes() | companions)
    assert len(load(tmp_path, progress=heard.progress)) == 50
    assert heard.heard == []
    assert len(load(make.write_folder(tmp_path, others), progress=heard.progress)) == 50
    (warning,) = heard.heard
    assert warning.startswith("2 of the 56 files of ")
    assert warning.endswith("are left out: 'cat/a.avif', 'dog/notes'.")


def test_a_table_beside_pictures_without_labels_is_named(tmp_path: Path, make: Any) -> None:
    heard = Recording()
    pictures = {f"{number}.png": make.picture(number) for number in range(50)}
    make.write_folder(tmp_path / "flat", pictures | {"labels.csv": b"0.png,3"})
    assert load(tmp_path / "flat", progress=heard.progress).labels is None
    (warning,) = heard.heard
    assert "have no labels" in warning
    assert "('labels.csv')" in warning
    assert "one folder for each class" in warning
    # beside class folders it says nothing new
    make.write_folder(tmp_path / "sorted", make.classes() | {"labels.csv": b"0.png,3"})
    assert load(tmp_path / "sorted", progress=heard.progress).labels is not None
    assert heard.heard == [warning]


def test_a_picture_beside_the_class_folders(tmp_path: Path, make: Any, refused: Any) -> None:
    make.write_folder(tmp_path, make.classes() | {"preview.png": make.picture(0)})
    refused(tmp_path, "'preview.png'", "lies beside the class folders", case="a picture beside the class folders")


@pytest.mark.parametrize("zipped", [False, True])
def test_folders_within_class_folders_are_read_as_torchvision_reads_them(
    tmp_path: Path, make: Any, zipped: bool
) -> None:
    """At any depth, beside pictures or not; but folders around all classes, and halves, are no classes."""
    deep = {f"cat/{'a/b' if n % 2 else 'c'}/{n:02}.png": make.picture(n) for n in range(30)}
    files = {f"set/test/{name}": content for name, content in (deep | make.classes(("cat", "dog"))).items()}
    root = make.write_folder(tmp_path / "all", files | {"set/train/dog/x/y.png": make.picture(0)})
    wanted = ImageFolder(root / "set" / "test")
    heard = Recording()
    source = make.write_zip(tmp_path / "all.zip", files) if zipped else root
    found = load(source, progress=heard.progress)
    assert found.class_names == tuple(wanted.classes) == ("cat", "dog")
    assert found.labels is not None and found.labels.tolist() == wanted.targets
    read = [(int(image[0, 0, 0]), label) for image, label in zip(found.images, found.labels.tolist(), strict=True)]
    assert sorted(read) == sorted((image.getpixel((0, 0))[0], label) for image, label in wanted)
    (said,) = heard.heard
    assert "('set/test/cat/a/b', 'set/test/cat/c') count as part of their class" in said


def test_a_link_in_a_circle(tmp_path: Path, make: Any, refused: Any) -> None:
    make.write_folder(tmp_path, make.classes())
    (tmp_path / "cat" / "again").symlink_to(tmp_path, target_is_directory=True)
    refused(tmp_path, "deep")


def test_linked_class_folders_are_followed(tmp_path: Path, make: Any) -> None:
    make.write_folder(tmp_path / "real", make.classes())
    (tmp_path / "set").mkdir()
    for name in ("cat", "dog"):
        (tmp_path / "set" / name).symlink_to(tmp_path / "real" / name, target_is_directory=True)
    assert load(tmp_path / "set").class_names == ("cat", "dog")


def test_splits(tmp_path: Path, make: Any, refused: Any) -> None:
    test = {f"test/{name}": content for name, content in make.classes().items()}
    train = {f"train/{name}": content for name, content in make.classes(each=30).items()}
    make.write_folder(tmp_path / "data", train | test)
    assert len(load(tmp_path / "data")) == 50
    assert len(load(tmp_path)) == 50
    assert load(f"{tmp_path}:test").class_names == ("cat", "dog")
    assert len(load(f"{tmp_path}/data:train")) == 60
    refused(f"{tmp_path}/data/test:train", "no folder 'train'")
    make.write_folder(tmp_path / "one", test)
    assert len(load(f"{tmp_path}/one:test")) == 50
    refused(f"{tmp_path}/one:train", "no folder 'train', only test")


def test_classes_that_happen_to_be_named_train(tmp_path: Path, make: Any) -> None:
    assert load(make.write_folder(tmp_path, make.classes(("bus", "train")))).class_names == ("bus", "train")


def test_sizes_differ(tmp_path: Path, make: Any, refused: Any) -> None:
    make.write_folder(tmp_path, make.classes() | {"dog/003.png": make.picture(0, size=(9, 7))})
    refused(
        tmp_path,
        "'cat/000.png' has 8x8",
        "'dog/003.png' has 9x7",
        "scale all of them to one size",
        case="pictures of different sizes",
    )


def test_a_damaged_picture(tmp_path: Path, make: Any, refused: Any) -> None:
    make.write_folder(tmp_path, make.classes() | {"dog/003.png": make.picture(3)[:40]})
    refused(tmp_path, "'dog/003.png'", "damaged", case="a picture that is cut off")
    (tmp_path / "dog" / "003.png").write_bytes(b"no picture at all")
    said = refused(tmp_path, "'dog/003.png'", "not an image", case="text under the name of a picture")
    assert "0x" not in said


def test_a_dangling_link(tmp_path: Path, make: Any, refused: Any) -> None:
    make.write_folder(tmp_path, make.classes())
    (tmp_path / "cat" / "zzz.png").symlink_to(tmp_path / "nowhere")
    refused(tmp_path, "'cat/zzz.png'", "cannot be read", case="a link to a picture that is not there")


def test_a_file_too_large(tmp_path: Path, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tree, "MAX_FILE_BYTES", 2**20)
    make.write_folder(tmp_path, make.classes() | {"cat/000.png": bytes(2**20 + 1)})
    refused(tmp_path, "'cat/000.png'", "larger than 1 MiB", case="a picture of too many bytes")


def test_too_many_files(tmp_path: Path, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tree, "MAX_FILES", 20)
    refused(make.write_folder(tmp_path, make.classes()), "More than 20 files")


def test_a_folder_that_cannot_be_listed(
    tmp_path: Path, make: Any, refused: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    make.write_folder(tmp_path, make.classes())
    scandir = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("dog"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    refused(tmp_path, "dog", "Permission denied")


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "There are no images in"),
        ({"a.npy": b"", "b.npy": b""}, "mostly '.npy' files"),
        ({"test.zip": b""}, "'test.zip'"),
        ({"Makefile": b""}, "'Makefile'"),
    ],
)
def test_no_pictures(tmp_path: Path, make: Any, refused: Any, files: dict[str, bytes], words: str) -> None:
    refused(make.write_folder(tmp_path, files), words, case=f"a folder with {', '.join(files) or 'nothing'}")


def test_too_few_pictures(tmp_path: Path, make: Any, refused: Any) -> None:
    refused(make.write_folder(tmp_path, make.classes(each=24)), "only 48 images", case="48 pictures")


def test_class_names_that_are_not_text(tmp_path: Path, make: Any, refused: Any) -> None:
    refused(
        make.write_folder(tmp_path, make.classes(("cat", "dog\x1b[31m"))),
        "not printable",
        case="a class folder whose name turns the screen red",
    )


@pytest.mark.parametrize("suffix", ["png", "jpg", "jpeg", "bmp", "webp", "ppm", "tiff"])
def test_kinds_of_colour_files(tmp_path: Path, make: Any, suffix: str) -> None:
    files = {f"{n:02}.{suffix}": make.picture(4 * n, mode="RGB", suffix=suffix) for n in range(50)}
    found = load(make.write_folder(tmp_path, files))
    # grey in all channels, but colour files: the channels are kept
    assert found.images.shape == (50, 3, 8, 8)
    assert np.abs(found.images[:, 0, 0, 0].astype(int) - np.arange(0, 200, 4)).max() <= 3


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "pgm", "tiff"])
def test_kinds_of_grey_files(tmp_path: Path, make: Any, suffix: str) -> None:
    files = {f"{n:02}.{suffix}": make.picture(4 * n, suffix=suffix) for n in range(50)}
    found = load(make.write_folder(tmp_path, files))
    assert found.images.shape == (50, 1, 8, 8)
    assert found.images[:, 0, 0, 0].tolist() == list(range(0, 200, 4))


def test_grey_and_colour_together(tmp_path: Path, make: Any) -> None:
    heard = Recording()
    files = make.classes() | {"dog/003.png": make.picture(77, mode="RGB")}
    found = load(make.write_folder(tmp_path, files), progress=heard.progress)
    assert found.images.shape == (50, 3, 8, 8)
    assert np.array_equal(found.images[0, 0], found.images[0, 2])
    assert found.images[28, :, 0, 0].tolist() == [77, 77, 77]
    assert "49 of the 50 images" in heard.heard[0]


def test_black_and_white() -> None:
    image = Image.new("1", (3, 2))
    image.putpixel((1, 0), 1)
    assert decode(encoded(image, "PNG"), "x", "s").tolist() == [[0, 255, 0], [0, 0, 0]]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_sixteen_bits_keep_the_upper_eight(kind: str) -> None:
    levels = np.array([[0, 255, 256], [0x7FFF, 0xFF00, 0xFFFF]], dtype=np.uint16)
    assert decode(encoded(Image.fromarray(levels), kind), "x", "s").tolist() == [[0, 0, 1], [127, 255, 255]]


@pytest.mark.parametrize("kind", ["png", "tiff", "ppm"])
@pytest.mark.parametrize(
    ("highest", "bits", "shift"), [(255, 8, 0), (1023, 10, 2), (1024, 12, 4), (4080, 12, 4), (9999, 14, 6)]
)
def test_sixteen_bits_that_hold_fewer(
    tmp_path: Path, make: Any, kind: str, highest: int, bits: int, shift: int
) -> None:
    levels = np.linspace(0, highest, 60).astype(np.uint16)
    files = {f"{n:02}.{kind}": encoded(Image.new("I;16", (8, 8), int(v)), kind.upper()) for n, v in enumerate(levels)}
    files["60.png"] = make.picture(77)  # of 8 bits, which stays as it is
    heard = Recording()
    found = load(make.write_folder(tmp_path, files), progress=heard.progress)
    assert found.images[:, 0, 0, 0].tolist() == [*(levels >> shift).tolist(), 77]
    assert heard.heard == [
        f"60 of the 61 images of '{tmp_path}' have 16 bits a pixel and no value above {highest:,}; they are read as "
        f"{bits} bits, of which {2**bits - 1:,} is white."
    ]


@pytest.mark.parametrize("highest", [0, 16_384, 65_535])
def test_sixteen_bits_that_are_used_up(tmp_path: Path, make: Any, highest: int) -> None:
    levels = np.linspace(0, highest, 60).astype(np.uint16)
    files = {f"{n:02}.png": encoded(Image.new("I;16", (8, 8), int(v)), "PNG") for n, v in enumerate(levels)}
    heard = Recording()
    found = load(make.write_folder(tmp_path, files), progress=heard.progress)
    assert found.images[:, 0, 0, 0].tolist() == (levels >> 8).tolist()
    assert heard.lines == []


def test_sizes_are_counted_once_where_sixteen_bits_hold_fewer(tmp_path: Path, make: Any) -> None:
    files = {f"{n:02}.png": encoded(Image.new("I;16", (30, 20), 60 * n), "PNG") for n in range(60)}
    heard = Recording()
    load(make.write_folder(tmp_path, files), resize=16, progress=heard.progress)
    assert heard.lines[0].startswith("Resized 60 of 60 images")


@pytest.mark.parametrize("values", [np.float32([[0.5]]), np.int32([[70_000]]), np.int32([[-1]])])
def test_values_without_an_8_bit_meaning(values: np.ndarray) -> None:
    with pytest.raises(UserError, match="8-bit grey or RGB"):
        decode(encoded(Image.fromarray(values), "TIFF"), "x", "s")


def test_transparent_parts_are_white() -> None:
    colours = np.array([[[200, 100, 50, 255], [200, 100, 50, 0]]], dtype=np.uint8)
    pixels = decode(encoded(Image.fromarray(colours, "RGBA"), "PNG"), "x", "s")
    assert pixels.tolist() == [[[200, 100, 50], [255, 255, 255]]]
    greys = np.array([[[80, 255], [80, 0]]], dtype=np.uint8)
    assert decode(encoded(Image.fromarray(greys, "LA"), "PNG"), "x", "s").tolist() == [[80, 255]]


def test_pictures_with_transparent_parts_are_counted(tmp_path: Path, make: Any) -> None:
    clear, opaque = Image.new("RGBA", (8, 8), (9, 9, 9, 0)), Image.new("RGBA", (8, 8), (9, 9, 9, 255))
    files = {f"{n:02}.png": encoded(clear if n < 7 else opaque, "PNG") for n in range(50)}
    heard = Recording()
    found = load(make.write_folder(tmp_path, files), progress=heard.progress)
    assert found.images[:, 0, 0, 0].tolist() == [255] * 7 + [9] * 43
    assert [warning.startswith("7 of the 50 images") for warning in heard.warnings] == [True]
    assert "transparent parts, which are read as white" in heard.warnings[0]


def with_orientation(number: int, kind: str = "JPEG") -> bytes:
    """A picture of 12 x 8 pixels, bright above and to the left, that is to be turned in one of eight ways."""
    levels = np.add.outer(np.arange(8)[::-1] * 20, np.arange(12)[::-1] * 9).astype(np.uint8)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = number
    return encoded(Image.fromarray(levels), kind, exif=exif)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("number", [0, *range(1, 9), 99])
def test_an_orientation_is_followed_where_it_is_asked_for(kind: str, number: int) -> None:
    """As Pillow turns them, and otherwise as torchvision's ImageFolder reads them."""
    content = with_orientation(number, kind)
    notes = {upright: PictureNotes(upright=upright) for upright in (False, True)}
    found = {upright: decode(content, "x", "s", notes[upright]) for upright in (False, True)}
    grey = found[False].ndim == 2  # WebP has no grey
    as_it_is, turned = (image.convert("L" if grey else "RGB") for image in (opened(content), upright_of(content)))
    assert np.array_equal(found[False], as_it_is) and np.array_equal(found[True], turned)
    counted = kind != "TIFF" and 2 <= number <= 8  # Pillow itself turns TIFF files
    assert [bool(each.about_orientation(1, "s")) for each in notes.values()] == [counted, counted]


def opened(content: bytes) -> Image.Image:
    return Image.open(io.BytesIO(content))


def upright_of(content: bytes) -> Image.Image:
    return ImageOps.exif_transpose(opened(content))


@pytest.mark.parametrize("exif", [b"Exif\0\0", b"nonsense", b"Exif\0\0MM\0*\0\0\0\x08\0\x09\x01\x12"])
def test_damaged_exif_data_leave_a_picture_whole(exif: bytes) -> None:
    image = Image.new("L", (4, 6), 9)
    for kind in ("JPEG", "PNG"):
        content = encoded(image, kind, exif=exif)
        assert decode(content, "x", "s", PictureNotes(upright=True)).tolist() == [[9] * 4] * 6


@pytest.mark.parametrize("large", [False, True])
def test_pictures_with_an_orientation_are_counted(
    tmp_path: Path, make: Any, cache: Path, monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    if large:  # decoded into the cache, one set for each rule; what was said is said again
        monkeypatch.setattr(picture_stack, "LARGE_BYTES", 1000)
    plain = [with_orientation(1), encoded(Image.new("L", (8, 12)), "JPEG")]  # as large as the others when these lie
    for rule, other in (("ignore", plain[0]), ("apply", plain[1])):
        files = {f"{n:02}.jpg": with_orientation(6) if n < 7 else other for n in range(50)}
        folder = make.write_folder(tmp_path / rule, files)
        for _ in range(2):
            heard = Recording()
            found = load(folder, exif=rule, progress=heard.progress)
            assert found.images.shape[2:] == ((8, 12) if rule == "ignore" else (12, 8))
            told = [line for line in heard.heard if "7 of the 50 images" in line and "EXIF orientation" in line]
            assert len(told) == 1 and (told == heard.warnings) == (rule == "ignore")
            assert ("say --exif apply" in told[0]) == (rule == "ignore")
    with pytest.raises(UserError, match="differ in size"):
        load(tmp_path / "ignore", exif="apply")


def test_palettes_become_colours() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    assert decode(encoded(image, "PNG"), "x", "s").tolist() == [[[10, 20, 30], [200, 100, 50]]]
    clear = decode(encoded(image, "PNG", transparency=0), "x", "s")
    assert clear.tolist() == [[[255, 255, 255], [200, 100, 50]]]


def test_palettes_of_which_only_greys_are_used_are_grey() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 10, 10, 200, 200, 200, 255, 0, 0])
    image.putpixel((1, 0), 1)
    assert decode(encoded(image, "PNG"), "x", "s").tolist() == [[10, 200]]
    assert decode(encoded(image, "PNG", transparency=0), "x", "s").tolist() == [[255, 200]]


def test_several_frames_are_refused() -> None:
    frames = [Image.new("L", (4, 4), level) for level in (0, 200)]
    with pytest.raises(UserError, match="several frames"):
        decode(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]), "x", "s")


def test_a_picture_with_too_many_pixels() -> None:
    with pytest.raises(UserError, match="9000x9000 pixels"):
        decode(encoded(Image.new("1", (9000, 9000)), "PNG"), "x", "s")
