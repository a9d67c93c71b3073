"""torch.export programs: an archive is looked through before torch, which trusts it, opens it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import re
import zipfile
from functools import partial

import numpy as np
import pytest
import torch

from diffgen.errors import UserError
from diffgen.models import load as load_model
from diffgen.models.untrusted import UntrustedError, check_program, checked_copy

load = partial(load_model, isolate="off")  # the first wall alone


class Mark:
    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return (os.mkdir, (str(self.place),))


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Name inside the archive -> contents, of an ordinary network with an open batch."""
    path = tmp_path_factory.mktemp("export") / "net.pt2"
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    shapes = ({0: torch.export.Dim("batch", min=1, max=64)},)
    torch.export.save(torch.export.export(net, (torch.zeros(2, 1, 4, 4),), dynamic_shapes=shapes), path)
    with zipfile.ZipFile(path) as archive:
        return {name.split("/", 1)[1]: archive.read(name) for name in archive.namelist()}


def write(path, entries):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(f"net/{name}", content)
    return path


def changed(program, old, new):
    """The program with a piece of its JSON replaced."""
    model = program["models/model.json"].decode()
    assert old in model
    return {**program, "models/model.json": model.replace(old, new).encode()}


def attacks(program, mark):
    """Ways in which torch.export.load, or asking the model, would run code that makes a folder."""
    pickled = pickle.dumps(Mark(mark))
    saved = io.BytesIO()
    torch.save(Mark(mark), saved)
    code = f"__import__('os').mkdir('{mark}')"
    weights = json.loads(program["data/weights/model_weights_config.json"])
    for entry in weights["config"].values():
        entry["use_pickle"] = True
    constants = {"config": {"x": {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True}}}
    target = '"target": "torch.ops.aten.linear.default"'
    guards = json.loads(program["models/model.json"])
    guards["guards_code"] = [f"{code} is None"]
    tree = json.dumps(json.dumps([1, {"type": "collections.defaultdict", "context": "{}", "children_spec": []}]))[1:-1]
    enum = json.dumps(json.dumps([1, {"type": "builtins.dict", "context": '{"__enum__": 1}', "children_spec": []}]))[
        1:-1
    ]
    model = json.loads(program["models/model.json"])
    model["graph_module"]["module_call_graph"][0]["signature"]["in_spec"] = "SPEC"
    spec = {**program, "models/model.json": json.dumps(model).encode()}
    return {
        "expression": changed(program, "Symbol('s", f"{code} or Symbol('s"),
        "expression with attribute": changed(program, "Symbol('s", "().__class__ or Symbol('s"),
        "guard": {**program, "models/model.json": json.dumps(guards).encode()},
        "operator": changed(program, target, '"target": "torch.hub.load"'),
        "file operator": changed(program, target, '"target": "torch.ops.aten.from_file.default"'),
        "example": {**program, "data/sample_inputs/model.pt": saved.getvalue()},
        "pickled weights": {
            **program,
            "data/weights/model_weights_config.json": json.dumps(weights).encode(),
            "data/weights/weight_0": saved.getvalue(),
        },
        "object": {
            **program,
            "data/constants/model_constants_config.json": json.dumps(constants).encode(),
            "data/constants/opaque_obj_0": pickled,
        },
        "compiled library": {**program, "data/aotinductor/model/lib.so": b"\x7fELF"},
        "container": changed(spec, "SPEC", tree),
        "enum": changed(spec, "SPEC", enum),
        "name": changed(program, '"name": "input"', '"name": "input): pass #"'),
    }


ATTACKS = (
    *("expression", "expression with attribute", "guard", "operator", "file operator", "example", "pickled weights"),
    *("object", "compiled library", "container", "enum", "name"),
)


def test_the_program_itself_is_opened(program, tmp_path):
    box = load(write(tmp_path / "any.name", program), allow_pickle=True)
    images = np.zeros((3, 1, 4, 4), dtype=np.uint8)
    box.prepare(images)
    assert box.predict(images).shape == (3, 3)
    assert (box.batch_size, box.fixed_batch, box.unpickled) == (64, None, False)


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_could_run_code_is_refused(program, tmp_path, attack, told):
    mark = tmp_path / "mark"
    path = write(tmp_path / "net.pt2", attacks(program, mark)[attack])
    with pytest.raises(UserError, match=r"is not opened because .* add --allow-pickle if you trust it") as caught:
        load(path)
    assert not mark.exists()
    assert "\n" not in str(caught.value)
    told("Model files", f"hostile .pt2 ({attack})", caught.value)


@pytest.mark.parametrize("attack", ["expression", "example"])
def test_the_attacks_are_real(program, tmp_path, attack):
    """With the user's word, torch opens it, and what is in it runs."""
    mark = tmp_path / "mark"
    path = write(tmp_path / "net.pt2", attacks(program, mark)[attack])
    with contextlib.suppress(UserError):
        load(path, allow_pickle=True)
    assert mark.is_dir()


@pytest.mark.parametrize(
    "target",
    [
        *("torch.ops.aten.save.default", "torch.ops.aten._reshape_alias.default", "torch.ops.aten.set_.source_Storage"),
        *("torch.ops.aten.linear.default ", "torch.ops.aten.linear", "torch.ops.aten.linear.default.__call__"),
        *("torch.ops.prim.Print.default", "torch.ops.quantized.linear.default", "torch.ops.higher_order.cond"),
        *("math.__loader__", "_operator.methodcaller", "_operator.call", "torch.sym_fresh_size", "builtins.open"),
    ],
)
def test_operators_outside_of_the_list_are_refused(program, tmp_path, target):
    path = write(tmp_path / "net.pt2", changed(program, "torch.ops.aten.linear.default", target))
    with pytest.raises(UserError, match=r"it calls .* not on the list of operators that only compute"):
        load(path)


def test_what_torch_made_of_it_is_looked_through_too():
    """Whatever the description looked like."""

    class Inner(torch.nn.Module):
        def forward(self, pixels):
            return torch.ops.aten._reshape_alias(pixels, [2, 16], [16, 1])

    class Called:
        def __init__(self, graph_module):
            self.graph_module = graph_module

    foreign = torch.fx.Graph()
    foreign.output(foreign.call_function(torch.from_numpy, (foreign.placeholder("pixels"),)))
    harmless = torch.export.export(torch.nn.Flatten(), (torch.zeros(2, 1, 4, 4),))
    check_program(harmless)
    with pytest.raises(UntrustedError, match="_reshape_alias"):
        check_program(torch.export.export(Inner(), (torch.zeros(2, 1, 4, 4),)))
    with pytest.raises(UntrustedError, match="step of the kind 'call_module'"):
        check_program(Called(torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Flatten()))))
    with pytest.raises(UntrustedError, match="it calls '<built-in"):
        check_program(Called(torch.fx.GraphModule({}, foreign)))


@pytest.mark.parametrize("expression", ["9**9**9", "Pow(9, 99999)", "((9**9)**9)**9", "1 << 99999", "Pow(9, s0)"])
def test_numbers_do_not_grow_without_bound(program, tmp_path, expression):
    path = write(tmp_path / "net.pt2", changed(program, "Symbol('s", f"{expression} + Symbol('s"))
    with pytest.raises(UserError, match="it holds the expression"):
        load(path)


@pytest.mark.parametrize(
    "expression", ["Mul(Integer(4), {})", "Add(Mul(Integer(197), {}), Integer(1))", "Pow({}, Integer(2))"]
)
def test_expressions_of_open_sides(program, tmp_path, expression):
    """As networks have them that cut images into patches."""
    model = program["models/model.json"].decode()
    symbols = set(re.findall(r"Symbol\([^()]*\)", model))
    assert symbols
    for symbol in symbols:
        model = model.replace(symbol, expression.format(symbol))
    path = write(tmp_path / "net.pt2", {**program, "models/model.json": model.encode()})
    with zipfile.ZipFile(path) as archive:
        checked_copy(archive)


def test_parts_of_a_network_whose_names_are_no_words(tmp_path):
    network = torch.nn.Sequential(torch.nn.Flatten())
    network.add_module("block-1", torch.nn.Linear(16, 3))
    torch.export.save(torch.export.export(network.eval(), (torch.zeros(2, 1, 4, 4),)), tmp_path / "net.pt2")
    box = load(tmp_path / "net.pt2")
    box.prepare(np.zeros((2, 1, 4, 4), dtype=np.uint8))
    assert box.num_classes == 3


@pytest.mark.parametrize("name", ['x", open("here", "w"))', "x'", "x\n", "x;y", "x y", "x(1)"])
def test_names_that_would_become_code(program, tmp_path, name):
    path = write(tmp_path / "net.pt2", changed(program, "1.weight", json.dumps(name)[1:-1]))
    with pytest.raises(UserError, match="it names something"):
        load(path)


def test_weights_without_bytes_are_not_made_of_zeros(program, tmp_path):
    """torch would make as many as the file says."""
    with pytest.raises(UserError, match="its weights 'weight_0' are cut off"):
        load(write(tmp_path / "net.pt2", {**program, "data/weights/weight_0": b""}))


def test_a_name_in_other_letters_is_refused(program, tmp_path):
    """torch's reader of zip archives takes them for the same."""
    path = write(tmp_path / "net.pt2", {"models/MODEL.json": program["models/model.json"], **program})
    with pytest.raises(UserError, match="stands twice"):
        load(path)


def test_a_name_that_stands_twice_is_refused(program, tmp_path):
    path = write(tmp_path / "net.pt2", program)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("net/models/model.json", program["models/model.json"])
    with pytest.raises(UserError, match="stands twice"):
        load(path)


def test_inputs_that_are_no_images(tmp_path):
    class Two(torch.nn.Module):
        def forward(self, a, b):
            return a.flatten(1) + b

    cases = [
        (torch.nn.Linear(4, 3), (torch.zeros(2, 5, 4),), r"takes 1 input of shape \(2, 5, 4\)"),
        (Two(), (torch.zeros(2, 1, 2, 2), torch.zeros(2, 4)), "takes 2 inputs"),
        (torch.nn.Flatten(), (torch.zeros(2, 1, 2, 2, dtype=torch.int64),), "int64"),
    ]
    for module, example, message in cases:
        torch.export.save(torch.export.export(module.eval(), example), tmp_path / "net.pt2")
        with pytest.raises(UserError, match=message):
            load(tmp_path / "net.pt2")


def test_bytes_and_channels_last(tmp_path):
    class Bytes(torch.nn.Module):
        def forward(self, pixels):
            return pixels.to(torch.float32).flatten(1)[:, :5]

    torch.export.save(torch.export.export(Bytes(), (torch.zeros(4, 5, 6, 3, dtype=torch.uint8),)), tmp_path / "net.pt2")
    images = np.random.default_rng(0).integers(0, 256, (7, 3, 5, 6), dtype=np.uint8)
    box = load(tmp_path / "net.pt2")
    box.prepare(images)
    assert (box.preprocessing.layout, box.preprocessing.scale, box.fixed_batch) == ("nhwc", "0..255", 4)
    wanted = images.transpose(0, 2, 3, 1).reshape(7, -1)[:, :5].astype(np.float64)
    powers = np.exp(wanted - wanted.max(axis=1, keepdims=True))
    np.testing.assert_allclose(box.predict(images), powers / powers.sum(axis=1, keepdims=True), atol=1e-6)
    with pytest.raises(
        UserError, match="takes 3x5x6 images but the data has 1x28x28; add --channels grey-to-rgb --size 5x6"
    ):
        load(tmp_path / "net.pt2").prepare(np.zeros((2, 1, 28, 28), dtype=np.uint8))
