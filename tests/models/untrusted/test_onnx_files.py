"""Files beside an ONNX file: their names are a stranger's, and all of them belong to the digest."""

from __future__ import annotations

import os

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from diffgen.errors import UserError
from diffgen.models import load
from diffgen.models.loading import LARGEST_BYTES, file_sha256
from diffgen.models.untrusted import external_files


def outside(name, location, values=(1.0, 2.0)):
    """A tensor whose numbers are in a file."""
    tensor = numpy_helper.from_array(np.array(values, dtype=np.float32), name)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    return tensor


def constant(name, location):
    return helper.make_node("Constant", [], [name], value=outside(name, location))


def branch(name, location):
    value = helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])
    return helper.make_graph([constant(name, location)], "branch", [], [value])


def saved(path, *, nodes=(), initializers=(), functions=()):
    """Flatten, and whatever else."""
    flatten = helper.make_node("Flatten", ["pixels"], ["logits"])
    shape = helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["n", 1, 2, 2])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 4])
    graph = helper.make_graph([*nodes, flatten], "g", [shape], [logits], initializer=list(initializers))
    opset = [helper.make_opsetid("", 17)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opset, functions=list(functions), ir_version=9).SerializeToString()
    )
    return path


def test_every_place_of_a_tensor_is_found(tmp_path):
    for name in "abcdef":
        (tmp_path / name).write_bytes(bytes(8))
    which = helper.make_tensor("which", TensorProto.BOOL, [], [True])
    node = helper.make_node("If", ["which"], ["x"], then_branch=branch("t", "b"), else_branch=branch("e", "c"))
    function = helper.make_function("own", "F", [], ["y"], [constant("y", "d")], [helper.make_opsetid("", 17)])
    sparse = helper.make_sparse_tensor(
        outside("v", "e"), helper.make_tensor("i", TensorProto.INT64, [2], [0, 1]), dims=[4]
    )
    holder = helper.make_node("Constant", [], ["s"], sparse_value=sparse)
    path = saved(
        tmp_path / "m.onnx",
        nodes=[constant("k", "a"), node, holder],
        initializers=[which, outside("w", "f")],
        functions=[function],
    )
    assert external_files(path) == list("abcdef")


def test_the_digest_covers_the_constants_of_nodes(tmp_path):
    (tmp_path / "hidden.bin").write_bytes(np.zeros(2, np.float32).tobytes())
    path = saved(tmp_path / "m.onnx", nodes=[constant("k", "hidden.bin")])
    digest = load(path).digest
    assert digest != file_sha256(path)
    (tmp_path / "hidden.bin").write_bytes(np.ones(2, np.float32).tobytes())
    assert load(path).digest != digest


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("../../../../dev/zero", "leads out of its folder"),
        ("../../../../proc/kmsg", "leads out of its folder"),
        ("sub/../../x", "leads out of its folder"),
        ("/dev/zero", "does not name a file beside it"),
        ("C:\\\\x", "does not name a file beside it"),
        ("..\\\\x", "leads out of its folder"),
        ("", "does not name a file beside it"),
        ("a\x1b]0;title\x07b", r"'a\\x1b\]0;title\\x07b', which does not name"),
        ("a\0b", r"'a\\x00b', which does not name"),
        ("zero", "a link that leads out of its folder"),
        ("kmsg", "a link that leads out of its folder"),
        ("pipe", "not a regular file with something in it"),
        ("empty", "not a regular file with something in it"),
        ("folder", "not a regular file with something in it"),
    ],
)
@pytest.mark.parametrize("place", ["initializer", "constant"])
def test_names_that_lead_elsewhere_are_not_followed(tmp_path, location, why, place, told):
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "kmsg").symlink_to("/proc/kmsg")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    given = {"nodes": [constant("k", location)]} if place == "constant" else {"initializers": [outside("w", location)]}
    path = saved(tmp_path / "m.onnx", **given)
    with pytest.raises(UserError, match=f"is not opened because its weights are in .*{why}") as caught:
        load(path)
    assert str(caught.value).isprintable()
    told("Model files", f"ONNX with weights in {location!r}", caught.value)


def test_links_of_a_cache_of_downloads(tmp_path):
    """The model and its weights are links into one folder."""
    for folder in ("blobs", "snapshot"):
        (tmp_path / folder).mkdir()
    saved(tmp_path / "blobs/123", nodes=[constant("k", "m.data")])
    (tmp_path / "blobs/456").write_bytes(bytes(8))
    (tmp_path / "snapshot/m.onnx").symlink_to("../blobs/123")
    (tmp_path / "snapshot/m.data").symlink_to("../blobs/456")
    assert external_files(tmp_path / "snapshot/m.onnx") == ["m.data"]


def test_a_sparse_file_is_not_hashed(tmp_path, told):
    with (tmp_path / "net.pt").open("wb") as file:
        file.truncate(64 * LARGEST_BYTES)
    with pytest.raises(UserError, match=r"has 1,024 GiB, and models of up to 16 GiB are opened") as caught:
        load(tmp_path / "net.pt")
    told("Model files", "a sparse file of 1 TiB", caught.value)


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="There is no /proc.")
def test_a_file_that_the_system_makes_up_is_none():
    """Those of /proc have no size, and some never end."""
    with pytest.raises(UserError, match=r"maps cannot be read \(it is no file on a disk but a view into the system\)"):
        load("/proc/self/maps")
