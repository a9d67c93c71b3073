"""Every kind of file: told apart by its contents, never executed, refused with advice."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import re
import sys
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diffgen.config import Preprocessing
from diffgen.errors import UserError
from diffgen.models import BlackBox, load
from diffgen.models.loading import file_sha256
from diffgen.models.sniffing import FileKind, sniff


class Hostile:
    """Leaves a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return (os.mkdir, (str(self.mark),))


def varint(number):
    out = b""
    while number > 0x7F:
        out, number = out + bytes([number & 0x7F | 0x80]), number >> 7
    return out + bytes([number])


def message(number, content):
    """A field of protobuf that holds another message, or text."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def zipped(entries, compression=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def torch_saved(thing, **options):
    buffer = io.BytesIO()
    torch.save(thing, buffer, **options)
    return buffer.getvalue()


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, tuple[FileKind, bytes, str]]:
    """Name -> kind, contents, what the message must hold (None for those that load)."""
    safetensors_torch = pytest.importorskip("safetensors.torch")
    folder = tmp_path_factory.mktemp("files")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3)).eval()
    state = net.state_dict()
    optimizer = torch.optim.Adam(net.parameters()).state_dict()
    example = torch.zeros(1, 1, 4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.save(torch.jit.trace(net, example), str(folder / "script.pt"))
        torch.onnx.export(net, (example,), str(folder / "net.onnx"), dynamo=False)
        torch.export.save(torch.export.export(net, (example,)), folder / "net.pt2")
    array = io.BytesIO()
    np.save(array, np.zeros(3))
    graph = message(1, b"\n\x05hello" + b"x" * 200)
    elsewhere = "give the file that it was converted from, or let it answer where it runs: give the address of a server"
    keras = {"metadata.json": "{}", "config.json": "{}", "model.weights.h5": b"\x89HDF\r\n\x1a\n"}
    traced = r"torch\.jit\.save\(torch\.jit\.trace\(.*, torch\.zeros\(1, 3, 224, 224\)\)"
    kinds = FileKind
    return {
        "script": (kinds.TORCHSCRIPT, (folder / "script.pt").read_bytes(), ""),
        "net.onnx": (kinds.ONNX, (folder / "net.onnx").read_bytes(), ""),
        "weights.pt": (
            kinds.TORCH_WEIGHTS,
            torch_saved(state),
            rf"--arch package\.module:factory.*load_state_dict.*{traced}",
        ),
        "checkpoint": (kinds.TORCH_WEIGHTS, torch_saved({"net": state, "opt": optimizer, "epoch": 3}), "state_dict"),
        "weights4": (kinds.TORCH_WEIGHTS, torch_saved(state, pickle_protocol=4), "state_dict"),
        "old.pth": (
            kinds.TORCH_WEIGHTS,
            torch_saved(state, _use_new_zipfile_serialization=False),
            "state_dict",
        ),
        "whole.pt": (
            kinds.TORCH_MODULE,
            torch_saved(net),
            r"--allow-pickle.*torch\.jit\.trace\(torch\.load\(\"whole\.pt\", weights_only=False\)",
        ),
        "whole4": (kinds.TORCH_MODULE, torch_saved(net, pickle_protocol=4), r"torch\.jit\.save"),
        "oldwhole": (
            kinds.TORCH_MODULE,
            torch_saved(net, _use_new_zipfile_serialization=False),
            "pickled PyTorch network",
        ),
        "net.pt2": (kinds.TORCH_EXPORT, (folder / "net.pt2").read_bytes(), ""),
        "forest.pkl": (kinds.PICKLE, pickle.dumps({"a": 1}), "--allow-pickle if you trust it"),
        "net.safetensors": (kinds.SAFETENSORS, safetensors_torch.save(state), "load_state_dict"),
        "net.keras": (kinds.KERAS_ZIP, zipped(keras), r"pip install 'diffgen\[keras\]'"),
        "net.h5": (
            kinds.KERAS_HDF5,
            b"\x89HDF\r\n\x1a\n" + b"\0" * 99 + b"model_config {}",
            r"pip install 'diffgen\[keras\]'",
        ),
        "weights.h5": (kinds.KERAS_WEIGHTS, b"\0" * 512 + b"\x89HDF\r\n\x1a\n" + b"\0" * 99, "without a network"),
        "net.tflite": (kinds.TFLITE, b"\x1c\0\0\0TFL3" + b"\0" * 99, r"pip install 'diffgen\[tflite\]'"),
        "saved_model.pb": (kinds.SAVED_MODEL, b"\x08\x01" + message(2, graph), "--saved-model"),
        "frozen.pb": (kinds.GRAPH_DEF, message(1, message(1, b"x") + message(2, b"Placeholder")) * 2, "--graphdef"),
        "net.pdmodel": (kinds.PADDLE, message(1, b"\x08\x00\x10\x00" + message(4, b"")), "paddle2onnx --model_dir"),
        "net.mlmodel": (kinds.CORE_ML, b"\x08\x04" + message(2, b"") + message(500, b""), elsewhere),
        "net.xml": (kinds.OPENVINO, b'<?xml version="1.0"?>\n<net name="m" version="11">\n</net>\n', elsewhere),
        "net.engine": (kinds.TENSORRT, b"ftrt" + b"\0" * 99, elsewhere),
        "other.engine": (kinds.UNKNOWN, b"\xff\x00" * 99, f"a TensorRT engine by its name; {elsewhere}"),
        "net.ort": (kinds.ORT, b"\x1c\0\0\0ORTM" + b"\0" * 99, "ONNX file that it was made from"),
        "array.npy": (kinds.NUMPY, array.getvalue(), "not a model"),
        "array.npz": (kinds.NUMPY, zipped({"a.npy": array.getvalue()}), "not a model"),
        "other.zip": (kinds.OTHER_ZIP, zipped({"readme": "hello"}), "TorchScript"),
        "empty": (kinds.EMPTY, b"", "is empty"),
        "cut.zip": (kinds.CUT_ZIP, zipped({"readme": "hello"})[:-9], "cut off"),
        "bomb": (
            kinds.BOMB,
            zipped({"m/constants.pkl": bytes(80 << 20), "m/code/x.py": b""}, zipfile.ZIP_DEFLATED),
            "damaged or hostile",
        ),
        "lfs": (kinds.GIT_LFS, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        "page": (kinds.HTML, b"\n<!DOCTYPE html><html></html>", "download it again"),
        "text": (kinds.TEXT, "héllo\n".encode() * 2000, "plain text"),
        "protocol0": (kinds.TEXT, pickle.dumps(Hostile(folder / "mark"), protocol=0), "plain text"),
        "net.gz": (kinds.UNKNOWN, gzip.compress(b"hello"), "no format"),
        "noise": (kinds.UNKNOWN, bytes(range(255, 0, -1)) * 3, "no format"),
        "byte": (kinds.UNKNOWN, b"\x08", "no format"),
    }


def test_every_format_is_told_apart_by_its_contents_and_refused_with_advice(files, tmp_path, told, monkeypatch):
    for part in ("h5py", "ai_edge_litert.interpreter"):  # as where the extras are missing
        monkeypatch.setitem(sys.modules, part, None)
    for name, (kind, contents, message) in files.items():
        path = tmp_path / name
        path.write_bytes(contents)
        assert sniff(path) is kind, name
        if message:
            with pytest.raises(UserError) as caught:
                load(path, isolate="off")  # a process of its own has the extras
            text = str(caught.value)
            assert text.startswith(f"{path} is ") and text.endswith(".") and "\n" not in text
            assert re.search(message, text), text
            told("Model files", f"`{name}`: {kind.value}", text)
        else:
            box = load(path)
            assert (box.path, box.digest, box.name) == (path, file_sha256(path), name)
            box.prepare(np.zeros((2, 1, 4, 4), dtype=np.uint8))


LOADABLE = ("script", "net.onnx", "net.pt2")
CUTTABLE = (*LOADABLE, "weights.pt", "whole.pt", "old.pth", "oldwhole", "net.safetensors", "net.keras")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(CUTTABLE), share=st.floats(0, 1, exclude_max=True), from_the_end=st.booleans())
def test_files_that_are_cut_off_anywhere_are_refused(files, tmp_path, name, share, from_the_end):
    _, contents, _ = files[name]
    # The last bytes hold what matters most in a zip archive: cut there as often as in all the rest.
    left = len(contents) - 1 - int(share * min(len(contents), 400)) if from_the_end else int(share * len(contents))
    path = tmp_path / "cut"
    path.write_bytes(contents[: max(left, 0)])
    with pytest.raises(UserError):
        load(path)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(CUTTABLE), place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_damaged_files_are_always_told_to_be_something(files, tmp_path, name, place, byte):
    contents = bytearray(files[name][1])
    contents[int(place * len(contents))] = byte
    path = tmp_path / "damaged"
    path.write_bytes(contents)
    assert isinstance(sniff(path), FileKind)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    start=st.sampled_from([b"", b"PK\x03\x04", b"PK\x05\x06", b"\x80\x02", b"\x08\x07", b"\x89HDF"]), rest=st.binary()
)
def test_any_bytes_are_refused(tmp_path, start, rest):
    path = tmp_path / "any"
    path.write_bytes(start + rest)
    with pytest.raises(UserError):
        load(path)


@pytest.mark.parametrize("form", ["zip", "old", "pickle", "disguised"])
def test_a_hostile_pickle_is_never_executed(tmp_path, form, told):
    mark, path = tmp_path / "mark", tmp_path / "model.pt"
    if form == "pickle":
        path.write_bytes(pickle.dumps(Hostile(mark)))
    elif form == "disguised":
        # looks like TorchScript from outside
        bad = pickle.dumps(Hostile(mark), protocol=2)
        names = ("data.pkl", "constants.pkl", "version", "code/__torch__.py")
        path.write_bytes(zipped({f"m/{name}": bad for name in names}))
    else:
        path.write_bytes(torch_saved(Hostile(mark), _use_new_zipfile_serialization=form == "zip"))
    with pytest.raises(UserError) as caught:
        load(path)
    assert not mark.exists()
    told("Model files", f"a hostile pickle ({form})", caught.value)


# --- what is no file


def test_what_is_no_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "saved").mkdir()
    (tmp_path / "net.mlpackage").mkdir()
    (tmp_path / "saved/saved_model.pb").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    for model, message in [
        ("missing.pt", r"The model file missing\.pt does not exist"),
        (tmp_path / "folder", r"is a directory; give a TorchScript \(torch"),
        (tmp_path / "net.mlpackage", r"is the directory of a Core ML model; give the file that it was converted from"),
        (tmp_path / "saved", r"SavedModel; .*tf2onnx\.convert --saved-model .* --output saved\.onnx"),
        ("pipe", "pipe is not a regular file"),
        # to stat a regular file, whose reading waits for the kernel's next message
        ("/proc/kmsg", "view into the system" if Path("/proc/kmsg").exists() else "does not exist"),
        ("https://example.org/net.onnx", "not that of a model on a server; .* or download a model file"),
        ("a" * 5000, r"cannot be read \(File name too long\); give another"),
        (torch.nn.Linear, r"The model Linear is a class; give an object of it"),
        (7, "A int is not a model"),
    ]:
        with pytest.raises(UserError, match=message):
            load(model)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path):
    path = tmp_path / "net.pt"
    path.write_bytes(b"PK")
    path.chmod(0)
    with pytest.raises(UserError, match="cannot be read"):
        load(path)


def test_devices_and_batch_sizes_are_checked(net):
    with pytest.raises(UserError, match="'abacus' is not known"):
        load(net, device="abacus")
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="sees no GPU"):
            load(net, device="cuda")
    with pytest.raises(UserError, match="batch size 0"):
        load(net, batch_size=0)


def test_names_and_black_boxes(net, save_torchscript):
    box = load(save_torchscript(net), name="old model")
    assert (box.name, load(net).name, load(np.sum).name) == ("old model", "Sequential", "sum")
    assert load(box) is box and isinstance(box, BlackBox)
    assert load(net).digest is None and load(net).path is None


def test_torchscripts_deprecation_is_not_shown_and_other_warnings_are(net, save_torchscript):
    path = save_torchscript(net)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(path)
        with pytest.raises(FutureWarning):
            warnings.warn("something else", FutureWarning, stacklevel=1)


def test_published_weights_are_refused_with_advice(shared_folder):
    paths = sorted((shared_folder / "models").glob("*/*.th"))
    assert paths, f"{shared_folder} has none"
    for path in paths:
        assert sniff(path) is FileKind.TORCH_WEIGHTS
        with pytest.raises(UserError, match="--arch"):
            load(path)


@pytest.mark.gpu
def test_a_gpu_gives_the_same(net, images, save_torchscript, save_onnx, expected):
    if not torch.cuda.is_available():
        pytest.skip("There is no GPU.")
    many = torch.from_numpy(images)
    for model in (save_torchscript(net), save_onnx(net), save_onnx(net, fixed=True, name="fixed.onnx"), net):
        box = load(model, device="cuda")
        box.prepare(images)
        for asked in (many, many.cuda()):
            found = box.predict(asked)
            assert found.is_cuda
            np.testing.assert_allclose(found.cpu().numpy(), expected(net.cpu(), images), atol=1e-3)
            net.to(box.device)
        assert isinstance(box.predict(images), np.ndarray)
    levels = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16)
    seen = []

    class Look(torch.nn.Module):
        def forward(self, pixels):
            seen.append(pixels.cpu())
            return pixels.flatten(1)[:, :2]

    box = load(Look(), device="cuda", preprocessing=Preprocessing(outputs="logits"))
    box.prepare(levels)
    box.predict(levels)
    assert torch.equal(seen[-1].flatten(), torch.from_numpy(np.arange(256, dtype=np.float32) / np.float32(255)))
