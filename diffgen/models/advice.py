"""What to tell the user about a file that is not a model which diffgen can ask: what it is, and how to convert it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from diffgen.models.sniffing import FileKind

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
