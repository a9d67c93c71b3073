"""What a model file holds, told by its contents alone: endings lie. Nothing of it is executed."""

from __future__ import annotations

import codecs
import struct
import zipfile
import zlib
from collections.abc import Callable
from enum import Enum
from mmap import ACCESS_READ, mmap
from pathlib import Path

from diffgen.models.untrusted import BYTES, VARINT, Field, MalformedError, fields, holds_only_tensors, unpacks_too_far


class FileKind(Enum):
    """Kinds of files that are told apart; the value says it in words that follow "is"."""

    TORCHSCRIPT = "a TorchScript file"
    ONNX = "an ONNX file"

    EMPTY = "empty"
    CUT_ONNX = "an ONNX file that is cut off"
    CUT_ZIP = "a zip archive (as PyTorch and Keras write them) that is cut off or damaged"
    BOMB = "a zip archive that would unpack to many times its size, as PyTorch and Keras write none"
    GIT_LFS = "a Git LFS pointer, not the file that it stands for"
    HTML = "a web page"
    TEXT = "plain text"

    TORCH_WEIGHTS = "a PyTorch state_dict or checkpoint (weights without their network)"
    TORCH_MODULE = "a pickled PyTorch network (torch.save of a whole module)"
    TORCH_EXPORT = "a torch.export program (.pt2)"
    PICKLE = "a Python pickle"
    SAFETENSORS = "a safetensors file (weights without their network)"
    KERAS_ZIP = "a Keras 3 model (.keras)"
    KERAS_HDF5 = "a Keras model in an HDF5 file"
    KERAS_WEIGHTS = "an HDF5 file without a network (perhaps weights of a Keras model)"
    TFLITE = "a TensorFlow Lite model"
    SAVED_MODEL = "the graph of a TensorFlow SavedModel"
    GRAPH_DEF = "a frozen graph of TensorFlow 1 (.pb)"
    CORE_ML = "a Core ML model (.mlmodel)"
    OPENVINO = "an OpenVINO model (.xml)"
    TENSORRT = "a TensorRT engine"
    PADDLE = "a PaddlePaddle model (.pdmodel)"
    ORT = "an onnxruntime model (.ort)"
    NUMPY = "a file of NumPy arrays"
    ANSWERS_NPZ = "a table of answers (.npz)"
    ANSWERS_CSV = "a table of answers (CSV)"
    ANSWERS_COCO = "a table of boxes (COCO JSON)"
    PARQUET = "a Parquet table"
    OTHER_ZIP = "a zip archive, but of no model format that diffgen knows"
    UNKNOWN = "of no format that diffgen knows"


_HEAD = 4096
#: Columns of a table of answers that name an image, and those that hold a label.
ANSWER_NAMES, ANSWER_LABELS = ("hash", "id"), ("label", "labels")
# The pickled number that PyTorch before 1.6 began its files with.
_LEGACY_TORCH = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
_HDF5 = b"\x89HDF\r\n\x1a\n"
_HDF5_OFFSETS = (0, 512, 1024, 2048)
#: Everything that zipfile raises on archives that are damaged or cut off.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
# Fields of ModelProto in onnx.proto3 with their wire types.
_ONNX_FIELDS = {1: VARINT, 5: VARINT} | dict.fromkeys((2, 3, 4, 6, 7, 8, 14, 20, 25, 26), BYTES)
_ONNX_GRAPH = 7
_SAVED_MODEL_FIELDS = {1: VARINT, 2: BYTES}
# Of GraphDef, and of Paddle's ProgramDesc: both begin with a message, of which the first field tells them apart.
_GRAPH_FIELDS = {1: BYTES, 2: BYTES, 3: VARINT, 4: BYTES, 5: BYTES}
_CORE_ML_KINDS = 200  # Core ML has the network, of whatever kind, in a field from this number on


def sniff(path: Path) -> FileKind:
    """What kind of file a model file is.

    Args:
        path: a regular file.

    Raises:
        OSError: the file cannot be read.
    """
    if path.stat().st_size == 0:  # so are the files of /proc, of which some never end
        return FileKind.EMPTY
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK"):
        return _zip_kind(path)
    if any(head[offset : offset + len(_HDF5)] == _HDF5 for offset in _HDF5_OFFSETS):
        return _hdf5_kind(path)
    return (
        _by_magic(head, path)
        or _protobuf_kind(path)
        or _foreign_protobuf_kind(path)
        or _text_kind(head)
        or FileKind.UNKNOWN
    )


def _by_magic(head: bytes, path: Path) -> FileKind | None:
    if head[4:8] == b"TFL3":
        return FileKind.TFLITE
    if head[4:8] == b"ORTM":
        return FileKind.ORT
    if head.startswith(b"ftrt"):
        return FileKind.TENSORRT
    if head.startswith(b"PAR1"):
        return FileKind.PARQUET
    if head.startswith(b"\x93NUMPY"):
        return FileKind.NUMPY
    if head[0] == 0x80 and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return _legacy_pickle_kind(path)
    if head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= path.stat().st_size - 8:
        return FileKind.SAFETENSORS
    return None


def _zip_kind(path: Path) -> FileKind:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            if unpacks_too_far(archive, path.stat().st_size):
                return FileKind.BOMB
            if _has(names, "constants.pkl") and any("/code/" in f"/{name}" for name in names):
                return FileKind.TORCHSCRIPT
            if _has(names, "serialized_exported_program.json") or (
                _has(names, "archive_format") and any("/models/" in f"/{name}" for name in names)
            ):
                return FileKind.TORCH_EXPORT
            pickled = _has(names, "data.pkl")
            if pickled is not None:
                with archive.open(pickled) as program:
                    return FileKind.TORCH_WEIGHTS if holds_only_tensors(program) else FileKind.TORCH_MODULE
    except ZIP_ERRORS:
        return FileKind.CUT_ZIP
    if {"config.json", "metadata.json"} <= set(names) or "model.weights.h5" in names:
        return FileKind.KERAS_ZIP
    if names and all(name.endswith(".npy") for name in names):
        arrays = {name.removesuffix(".npy") for name in names}
        answers = arrays & {"probabilities", *ANSWER_LABELS} and "images" not in arrays
        return FileKind.ANSWERS_NPZ if answers else FileKind.NUMPY
    return FileKind.OTHER_ZIP


def _has(names: list[str], file: str) -> str | None:
    """The entry with a file name at the top of the archive or in the one folder that PyTorch puts everything into."""
    return next((name for name in names if name == file or (name.count("/") == 1 and name.endswith(f"/{file}"))), None)


def _legacy_pickle_kind(path: Path) -> FileKind:
    """PyTorch before 1.6 wrote a magic number, a protocol, a description of the machine and the object in turn."""
    with path.open("rb") as program:
        if program.read(len(_LEGACY_TORCH)) != _LEGACY_TORCH:
            return FileKind.PICKLE
        program.seek(0)
        return FileKind.TORCH_WEIGHTS if holds_only_tensors(program, pickles=4) else FileKind.TORCH_MODULE


def _hdf5_kind(path: Path) -> FileKind:
    # Keras keeps the network as JSON in an attribute of this name.
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        has_network = data.find(b"model_config") >= 0
    return FileKind.KERAS_HDF5 if has_network else FileKind.KERAS_WEIGHTS


def _protobuf_kind(path: Path) -> FileKind | None:
    """ONNX and TensorFlow have no magic number; the numbers and types of the outermost fields tell."""
    seen: dict[int, Field] = {}
    cut_off = False
    if path.stat().st_size == 0:  # a file that the system makes up while it is read cannot be mapped
        return None
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        try:
            for found in fields(data):
                if _ONNX_FIELDS.get(found.number) != found.wire:
                    return None
                seen[found.number] = found
        except MalformedError as error:
            if not error.cut_off:
                return None
            cut_off = True
        starts_as_onnx = data[0] == (1 << 3 | VARINT) and len(seen) > 1
    if cut_off:
        return FileKind.CUT_ONNX if starts_as_onnx else None
    if _ONNX_GRAPH in seen:
        return FileKind.ONNX
    if set(seen) == set(_SAVED_MODEL_FIELDS):
        return FileKind.SAVED_MODEL
    return FileKind.CUT_ONNX if starts_as_onnx else None


def _foreign_protobuf_kind(path: Path) -> FileKind | None:
    """Formats of other programs, in which nothing is opened: they are only named."""
    with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as data:
        try:
            found = list(fields(data))
            numbers = {each.number: each.wire for each in found}
            if set(_SAVED_MODEL_FIELDS.items()) <= set(numbers.items()) and max(numbers) >= _CORE_ML_KINDS:
                return FileKind.CORE_ML
            if found[0].number == 1 and set(numbers.items()) <= set(_GRAPH_FIELDS.items()):
                first = next(fields(data, found[0].start, found[0].end), None)
                if first is not None and first.number == 1:
                    return {BYTES: FileKind.GRAPH_DEF, VARINT: FileKind.PADDLE}.get(first.wire)
        except MalformedError:
            pass
    return None


def _text_kind(head: bytes) -> FileKind | None:
    if head.startswith(b"version https://git-lfs.github.com/spec/"):
        return FileKind.GIT_LFS
    start = head.lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return FileKind.HTML
    if start.startswith((b"<?xml", b"<net ")) and b"<net " in start:
        return FileKind.OPENVINO
    try:
        # An incremental decoder, because the head may end in the middle of a character.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return None
    if not all(letter.isprintable() or letter in "\r\n\t\f\ufeff" for letter in text):
        return None
    if text.lstrip("\ufeff \t\r\n").startswith("[") and all(
        f'"{key}"' in text for key in ("bbox", "score", "image_id")
    ):
        return FileKind.ANSWERS_COCO
    columns = [name.strip().lower() for name in text.lstrip("\ufeff").partition("\n")[0].split(",")]
    table = len(columns) > 1 and len(set(columns)) == len(columns) and {*columns} & {*ANSWER_NAMES, *ANSWER_LABELS}
    return FileKind.ANSWERS_CSV if table else FileKind.TEXT


# -- what to tell the user about a file that is not a model which diffgen can ask ------------------------------------

_SUPPORTED = "give a TorchScript (torch.jit.save), torch.export (.pt2), ONNX, Keras or TensorFlow Lite file"
_ELSEWHERE = (
    "let it answer where it runs: give the address of a server that has it (http://HOST/v2/models/NAME), a Python "
    "function that asks it, or a table of its answers (.npz, CSV or Parquet)"
)
_ORIGIN = "give the file that it was converted from"
# Of formats whose content says little: files that are told to be of no known format are named by their endings.
_BY_ENDING = {
    ".engine": FileKind.TENSORRT,
    ".plan": FileKind.TENSORRT,
    ".trt": FileKind.TENSORRT,
    ".pdmodel": FileKind.PADDLE,
    ".mlmodel": FileKind.CORE_ML,
    ".pb": FileKind.GRAPH_DEF,
}
_EXAMPLE = "torch.zeros(1, 3, 224, 224)"
_SHAPE = "with the shape of your images in place of (1, 3, 224, 224)"


def describe_file(path: Path, kind: FileKind) -> str:
    """One sentence that names the file, what it is, and how to make a file of it that diffgen can use."""
    if kind is FileKind.UNKNOWN and path.suffix.lower() in _BY_ENDING:
        kind = _BY_ENDING[path.suffix.lower()]
        return f"{path} is {kind.value} by its name; {_ADVICE[kind](path)}."
    return f"{path} is {kind.value}; {_ADVICE[kind](path)}."


def describe_directory(path: Path) -> str:
    """The same for a directory."""
    if (path / "saved_model.pb").is_file():
        return f"{path} is the directory of a TensorFlow SavedModel; {_from_saved_model(path)}."
    if path.suffix.lower() in (".mlpackage", ".mlmodelc"):
        return f"{path} is the directory of a Core ML model; {_ADVICE[FileKind.CORE_ML](path)}."
    return f"{path} is a directory; {_SUPPORTED}."


def _torchscript(network: str, path: Path) -> str:
    """The statement that saves a network as TorchScript under a name of its own."""
    return f'torch.jit.save(torch.jit.trace({network}, {_EXAMPLE}), "{path.stem}-torchscript.pt"), {_SHAPE}'


def _from_weights(path: Path) -> str:
    return (
        "name the function that builds its network with --arch package.module:factory, or load them with "
        f"model.load_state_dict and save both as TorchScript with {_torchscript('model.eval()', path)}"
    )


def _from_module(path: Path) -> str:
    network = f'torch.load("{path.name}", weights_only=False).eval()'
    return (
        "reading pickles can run any code, so add --allow-pickle if you trust it (in the folder of the program that "
        "has its classes), name the function that builds its network with --arch package.module:factory if it is a "
        f"checkpoint, or save it as TorchScript there, with {_torchscript(network, path)}"
    )


def _from_saved_model(path: Path) -> str:
    return (
        "convert it to ONNX with tf2onnx (pip install tensorflow tf2onnx): "
        f"python -m tf2onnx.convert --saved-model {path} --output {path.name}.onnx"
    )


def _from_graph_def(path: Path) -> str:
    return (
        "convert it to ONNX with tf2onnx (pip install tensorflow tf2onnx), with the names of its own input and output: "
        f"python -m tf2onnx.convert --graphdef {path} --inputs INPUT:0 --outputs OUTPUT:0 --output {path.stem}.onnx"
    )


def _from_paddle(path: Path) -> str:
    return (
        "convert it to ONNX with paddle2onnx (pip install paddle2onnx): "
        f"paddle2onnx --model_dir {path.parent} --model_filename {path.name} "
        f"--params_filename {path.stem}.pdiparams --save_file {path.stem}.onnx"
    )


def _always(advice: str) -> Callable[[Path], str]:
    return lambda path: advice


_ADVICE: dict[FileKind, Callable[[Path], str]] = {
    FileKind.EMPTY: _always(f"copy or save it again; {_SUPPORTED}"),
    FileKind.CUT_ONNX: _always("copy or export it again"),
    FileKind.CUT_ZIP: _always("copy or save it again"),
    FileKind.BOMB: _always("it is damaged or hostile; save the model again"),
    FileKind.GIT_LFS: _always("fetch the file itself with git lfs pull"),
    FileKind.HTML: _always("the download has given a page instead of the model, so download it again"),
    FileKind.TEXT: _always(_SUPPORTED),
    FileKind.TORCH_WEIGHTS: _from_weights,
    FileKind.TORCH_MODULE: _from_module,
    FileKind.PICKLE: _always(
        "reading pickles can run any code, so add --allow-pickle if you trust it and it holds a network, or "
        f"{_SUPPORTED}"
    ),
    FileKind.SAFETENSORS: _from_weights,
    FileKind.KERAS_WEIGHTS: _always(
        "if it holds weights, build their network, load them into it and save both together with model.save"
    ),
    FileKind.SAVED_MODEL: lambda path: _from_saved_model(path.parent),
    FileKind.GRAPH_DEF: _from_graph_def,
    FileKind.PADDLE: _from_paddle,
    FileKind.CORE_ML: _always(f"{_ORIGIN}, or {_ELSEWHERE}"),
    FileKind.OPENVINO: _always(f"{_ORIGIN}, or {_ELSEWHERE}"),
    FileKind.TENSORRT: _always(f"{_ORIGIN}, or {_ELSEWHERE}"),
    FileKind.ORT: _always("give the ONNX file that it was made from"),
    FileKind.NUMPY: _always(f"arrays are data, not a model; {_SUPPORTED}"),
    FileKind.OTHER_ZIP: _always(_SUPPORTED),
    FileKind.UNKNOWN: _always(f"if it is a model, convert it and {_SUPPORTED}"),
}
