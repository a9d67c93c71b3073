"""Class names from metadata, and the map from the classes of B to those of A."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch

from diffgen.errors import UserError
from diffgen.models import load, read_class_names, read_label_map
from diffgen.models.class_names import background_in, names_from_metadata, told_apart

NAMES = ("cat", "dog", "fish")


@pytest.mark.parametrize(
    ("metadata", "names"),
    [
        ({"names": "{0: 'cat', 1: 'dog', 2: 'fish'}"}, NAMES),
        ({"names": "{1: 'dog', 2: 'fish', 0: 'cat'}"}, NAMES),
        ({"classes": '["cat", "dog", "fish"]'}, NAMES),
        ({"labels": '{"0": "cat", "1": "dog", "2": "fish"}'}, NAMES),
        ({"labels": "cat, dog\nfish"}, NAMES),
        ({"names": "", "labels": "cat,dog,fish"}, NAMES),
        ({"names": "{0: 'cat', 5: 'dog'}"}, ()),
        ({"names": "{'a': 'cat'}"}, ()),
        ({"names": "['cat', 'cat']"}, ()),
        ({"names": "[['cat']]"}, ()),
        ({"names": "__import__('os')"}, ()),
        ({"names": "[" * 5000}, ()),
        ({"names": "7"}, ()),
        ({"names": '["cat", "\\u001b[2Jdog"]'}, ()),
        ({"names": '["cat", " "]'}, ()),
        ({"author": "cat, dog"}, ()),
        ({}, ()),
    ],
)
def test_names_in_metadata(metadata, names):
    assert names_from_metadata(metadata) == names


def test_an_onnx_file_brings_its_names(net_of, save_onnx, images):
    path = save_onnx(net_of(classes=3))
    graph = onnx.load(path)
    for names, wanted in ((NAMES, NAMES), (("one", "two"), ())):
        del graph.metadata_props[:]
        graph.metadata_props.add(key="names", value=str(dict(enumerate(names))))
        onnx.save(graph, path)
        box = load(path)
        box.prepare(images)
        assert box.class_names == wanted  # two names for three classes name something else
    assert load(path, class_names=NAMES).class_names == NAMES


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.toml", '"poisson" = "fish"\nchat = "cat"\n"chien" = 1\n'),
        ("m.json", '{"chien": "dog", "1": 0, "poisson": 2}'),
        ("m.csv", "b,a\nchien,dog\nchat,cat\n\npoisson,fish\n"),
        ("m.csv", "0,1\n1,0\n2,2"),
        ("m.CSV", "\ufeffchien;,dog\n".replace(";", "") + '"chat","cat"\n2,2\n'),
    ],
)
def test_every_way_to_write_a_label_map(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_label_map(tmp_path / name, 3, NAMES, ("chien", "chat", "poisson")) == (1, 0, 2)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("m.txt", "", "neither .toml, .json nor .csv"),
        ("m.toml", "a = ", "cannot be read"),
        ("m.json", "[1, 2]", "is not a map from classes of B"),
        ("m.json", '{"chien": [1]}', "is not a map"),
        ("m.csv", "chien,dog,1", "Line 1 .* has 3 columns; give two"),
        ("m.json", '{"chien": "dog", "chat": "cat"}', r"leaves out 1 class of B \(poisson\)"),
        ("m.json", "{}", r"leaves out 3 classes of B \(chien, chat, poisson\)"),
        ("m.json", '{"chien": "dog", "chat": "dog", "poisson": 2}', "two classes of B the class 'dog' of A"),
        ("m.json", '{"chien": "dog", "0": "cat", "poisson": 2}', "the class '0' of B twice"),
        (
            "m.json",
            '{"hund": "dog"}',
            "names 'hund', which is not a class of B; give a number from 0 to 2 or 'chien', 'chat' or",
        ),
        ("m.json", '{"chien": 3}', "names '3', which is not a class of A"),
        ("m.json", '{"chien": -1}', "which is not a class of A"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, name, text, message, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_label_map(tmp_path / name, 3, NAMES, ("chien", "chat", "poisson"))
    told("`--label-map`", f"`{name}`: `{text}`", caught.value)


def test_a_missing_label_map(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_label_map(tmp_path / "none.csv", 3, (), ())


def test_columns_and_names_are_put_into_the_other_order(images):
    def answers(pixels):
        return torch.nn.functional.one_hot(torch.arange(len(pixels)) % 3, 3).float()

    box = load(answers, class_names=("chien", "chat", "poisson"))
    box.prepare(images)
    box.map_classes((1, 2, 0))  # chien is class 1 of A, chat 2, poisson 0
    assert box.class_names == ("poisson", "chien", "chat")
    assert box.own_class_names == ("chien", "chat", "poisson")
    np.testing.assert_array_equal(box.predict(images[:3]), np.eye(3)[[1, 2, 0]])
    again = load(answers, class_names=("chien", "chat", "poisson"), class_order=(1, 2, 0))
    again.prepare(images)
    assert again.class_names == box.class_names
    np.testing.assert_array_equal(again.predict(images[:3]), box.predict(images[:3]))
    with pytest.raises(UserError, match="has 2 numbers but the model answers with 3 classes"):
        load(answers, class_order=(1, 0)).prepare(images)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.txt", "cat\ndog\nfish\n\n"),
        ("names.txt", "\ufeffcat\r\n dog \r\nfish"),
        ("names.json", '["cat", "dog", "fish"]'),
        ("names.JSON", '{"1": ["n02", "dog"], "0": ["n01", "cat"], "2": ["n03", "fish"]}'),
        ("names.json", '{"0": "cat", "1": "dog", "2": "fish"}'),
    ],
)
def test_every_way_to_write_class_names(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_class_names(tmp_path / name) == NAMES


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("names.txt", "cat\n\nfish\n", "Name 2 .* is empty or not printable"),
        ("names.txt", "cat\n\u001b[2Jdog\n", "Name 2 .* not printable"),
        ("names.txt", "", "are empty; give one name a line"),
        ("names.json", "7", "it is not a list of names"),
        ("names.json", '{"0": "cat", "2": "dog"}', "its numbers are not 0, 1, 2"),
        ("names.json", "[" * 100_000, "cannot be read"),
    ],
)
def test_what_is_no_file_of_class_names(tmp_path, name, text, message):
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=message):
        read_class_names(tmp_path / name)


def test_class_names_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match=r"cannot be read .*check the path"):
        read_class_names(tmp_path / "none.txt")


def test_names_that_occur_twice_are_told_apart():
    assert told_apart(("crane", "dog", "crane")) == ("crane (0)", "dog", "crane (2)")
    assert len(set(told_apart(("crane", "crane (0)", "crane")))) == 3
    assert told_apart(NAMES) == NAMES


@pytest.mark.parametrize(
    ("names", "where"),
    [
        (("background", "cat"), "first"),
        (("cat", "__background__"), "last"),
        (("Background", "background"), "first"),
        (("cat", "backgrounds"), "none"),
        ((), "none"),
    ],
)
def test_where_the_background_is_named(names, where):
    assert background_in(names) == where
