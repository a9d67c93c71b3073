"""Opens whatever the user names as a model, as a black box."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from diffgen.config import DEFAULT_MODEL_TIMEOUT, Isolate, Preprocessing, RemoteConfig, Weights, is_address
from diffgen.errors import UserError
from diffgen.home import expanded
from diffgen.models.base import BlackBox
from diffgen.models.class_names import in_order
from diffgen.models.isolation.wall import walls
from diffgen.models.model_settings import ModelSettings
from diffgen.models.remote.address import parse_address
from diffgen.models.sidecar import read_names_beside, read_processor_file, read_sidecar
from diffgen.models.sniffing import FileKind, describe_directory, describe_file, sniff
from diffgen.models.torch_module import CallableModel, TorchModule
from diffgen.models.untrusted import MalformedError, MissingWeightsError, UntrustedError, external_files
from diffgen.runs.opening import check_regular

ModelLike = str | os.PathLike[str] | Callable[[Any], Any] | torch.nn.Module | BlackBox


def load(
    model: ModelLike,
    *,
    device: torch.device | str = "cpu",
    batch_size: int = 256,
    preprocessing: Preprocessing | None = None,
    name: str | None = None,
    arch: str | None = None,
    weights: Weights | None = None,
    allow_pickle: bool = False,
    class_names: Sequence[str] = (),
    class_order: Sequence[int] = (),
    sidecar: bool = True,
    remote: RemoteConfig | None = None,
    isolate: Isolate = "auto",
    model_timeout: float = DEFAULT_MODEL_TIMEOUT,
) -> BlackBox:
    """A black box for a model. Call its ``prepare`` before its ``predict``.

    Args:
        model: path of a TorchScript, torch.export, ONNX, Keras (.keras, .h5) or TensorFlow Lite file, or of weights
            with ``arch``, or of a pickled network with ``allow_pickle``, or a table of answers; or the address
            ``http(s)://HOST/v2/models/NAME`` of a server; or a torch module (used as it is, not copied); or a function
            from a float32 numpy array (N, C, H, W) to (N, K); or a black box, which is given back as it is.
        device: where tensors of probabilities are wanted; torch and Keras compute there too, ONNX if onnxruntime can,
            TensorFlow Lite never.
        preprocessing: what is done to the images first; what it does not say is taken from the sidecar beside the
            file, then from what the file itself declares, from a JSON file of another library beside it (see
            :mod:`diffgen.models.sidecar`), and from ``DEFAULT_PREPROCESSING``.
        name: what the model is called in messages and reports, or None: its file's name, or its own.
        arch: ``package.module:factory`` that builds the network of a file with weights alone. Runs that code.
        weights: "ema" takes the averaged ones of a checkpoint that has two kinds, with ``arch``.
        allow_pickle: open a pickle, or another file that does more than compute. Runs whatever code is in the file.
        class_names: K names in the order of the model's answers, or none: those of the sidecar, of the file, or of
            ``id2label`` or ``label_names`` in such a JSON file.
        class_order: K numbers, for each class of the model the one that it is counted as, or none.
        sidecar: whether to look for a sidecar, and for such a JSON file.
        remote: how a model at an address is asked.
        isolate: "on" opens the file in a process of its own that can do nothing but compute; "auto" does so where
            this system can, for models on the CPU that no code of the user's own belongs to; "off" never.
        model_timeout: seconds that opening an isolated file, and each batch, may take.

    Raises:
        UserError: there is no such file, it cannot be read as a model (the message says what it is and how to convert
            it), the server at an address has no such model, or there is no such device.

    Example:
        >>> box = load(lambda pixels: pixels.reshape(len(pixels), -1)[:, :10], name="first ten pixels")
        >>> box.prepare(np.zeros((4, 1, 28, 28), dtype=np.uint8))
        >>> box.predict(np.zeros((2, 1, 28, 28), dtype=np.uint8)).shape
        (2, 10)
    """
    if isinstance(model, BlackBox):
        return model
    settings = ModelSettings(
        name=name if name is not None else _own_name(model),
        device=_device(device),
        batch_size=batch_size,
        preprocessing=preprocessing if preprocessing is not None else Preprocessing(),
        class_names=tuple(class_names),
        class_order=tuple(class_order),
        weights=weights,
    )
    if is_address(model):
        from diffgen.models.remote.model import RemoteModel

        address = parse_address(str(model))
        named = replace(settings, name=name if name is not None else address.name)
        return RemoteModel(address, named, remote or RemoteConfig())
    if isinstance(model, (str, os.PathLike)):
        path = expanded(model)
        kind, digest = identify(path)
        settings = replace(settings, path=path, digest=digest)
        if sidecar:
            beside = read_sidecar(path)
            settings = replace(
                settings,
                preprocessing=settings.preprocessing.over(beside.preprocessing),
                class_names=settings.class_names or beside.class_names,
            )
        if is_isolated(kind, settings, isolate, arch=arch, allow_pickle=allow_pickle):
            from diffgen.models.isolation.model import IsolatedModel

            box: BlackBox = IsolatedModel(path, kind, settings, allow_pickle=allow_pickle, timeout=model_timeout)
        else:
            box = open_file(path, kind, settings, arch=arch, allow_pickle=allow_pickle)
        fed = read_processor_file(path) if sidecar else None
        if fed is not None:
            box.fed_by = fed[0]
            box.declare(fed[1])
        if sidecar and not box.class_names:
            box.class_names = in_order(read_names_beside(path), box.class_order)
        return box
    if isolate == "on":
        raise UserError(
            f"Model {settings.name} is an object of this Python process, which --isolate on cannot put into another "
            "one; give a file, or leave it out."
        )
    if isinstance(model, type):
        raise UserError(f"The model {settings.name} is a class; give an object of it, such as {settings.name}().")
    if isinstance(model, torch.nn.Module):
        return TorchModule(model, settings, lent=True)
    if callable(model):
        return CallableModel(model, settings)
    raise UserError(
        f"A {type(model).__name__} is not a model; give the path of a TorchScript or ONNX file, a torch module, or a "
        "function from images to class probabilities."
    )


def file_digest(path: str | os.PathLike[str]) -> str:
    """What identifies a model file's contents, without opening it as a model. UserError if it cannot be read."""
    return identify(expanded(path))[1]


def identify(path: Path) -> tuple[FileKind, str]:
    """The kind of a model file, and the digest of its contents. UserError if it cannot be read, or is not there."""
    if "://" in str(path) or str(path).startswith(("http:/", "https:/")):
        raise UserError(
            f"{path} is an address on the network but not http(s)://HOST/v2/models/NAME as text; download the model "
            "and give the path of its file."
        )
    try:
        if path.is_dir():
            raise UserError(describe_directory(path))
        if not path.exists():
            raise UserError(f"The model file {path} does not exist; check the path (looked up from {Path.cwd()}).")
        if not path.is_file():
            raise UserError(f"{path} is not a regular file; give the path of a model file.")
        check_regular(path)
        kind = sniff(path)
        return kind, onnx_sha256(path) if kind is FileKind.ONNX else file_sha256(path)
    except OSError as error:
        raise UserError(f"The model file {path} cannot be read ({error.strerror}); give another.") from error


def open_file(path: Path, kind: FileKind, settings: ModelSettings, *, arch: str | None, allow_pickle: bool) -> BlackBox:
    """The black box of a file in this process; each format is imported only when there is one.

    Args:
        arch, allow_pickle: see :func:`load`.

    Raises:
        UserError: see :func:`load`.
    """
    if kind is FileKind.TORCHSCRIPT:
        from diffgen.models.torchscript import TorchScriptModel

        return TorchScriptModel(path, settings, allow_pickle=allow_pickle)
    if kind is FileKind.ONNX:
        from diffgen.models.onnx import OnnxModel

        return OnnxModel(path, settings)
    if kind is FileKind.TORCH_EXPORT:
        from diffgen.models.exported import ExportedModel

        return ExportedModel(path, settings, allow_pickle=allow_pickle)
    if kind is FileKind.TFLITE:
        from diffgen.models.tflite import TfliteModel

        return TfliteModel(path, settings)
    if kind in (FileKind.KERAS_ZIP, FileKind.KERAS_HDF5):
        from diffgen.models.keras import KerasModel

        return KerasModel(path, settings, archive=kind is FileKind.KERAS_ZIP)
    if kind in (FileKind.ANSWERS_NPZ, FileKind.ANSWERS_CSV, FileKind.PARQUET):
        from diffgen.models.answer_table import AnswerTable

        return AnswerTable(path, kind, settings)
    if kind is FileKind.ANSWERS_COCO:
        from diffgen.models.coco_answers import CocoAnswers

        return CocoAnswers(path, settings)
    weights = kind in (FileKind.TORCH_WEIGHTS, FileKind.SAFETENSORS)
    if arch is not None and (weights or kind is FileKind.TORCH_MODULE):
        from diffgen.models.state_dict import StateDictModel

        # a file that looks like weights alone is read as weights alone, whatever else is allowed
        trusted = allow_pickle and not weights
        settings = replace(settings, arch=arch, unpickled=trusted)
        return StateDictModel(path, settings, safetensors=kind is FileKind.SAFETENSORS, allow_pickle=trusted)
    if allow_pickle and kind in (FileKind.TORCH_MODULE, FileKind.PICKLE):
        from diffgen.models.state_dict import load_pickled

        return load_pickled(path, replace(settings, unpickled=True), plain=kind is FileKind.PICKLE)
    raise UserError(describe_file(path, kind))


def _own_name(model: object) -> str:
    if isinstance(model, (str, os.PathLike)):
        return Path(model).name
    name = getattr(model, "__name__", None)
    return name if isinstance(name, str) else type(model).__name__


def _device(device: torch.device | str) -> torch.device:
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise UserError(f"The device {device!r} is not known to torch; give cpu or cuda.") from error
    if found.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"The device {device} is not there (torch sees no GPU); give cpu.")
    return found


# -- which models are isolated ---------------------------------------------------------------------------------------

# Files that are models by themselves: no code of the user's belongs to them.
KINDS = frozenset(
    {
        *(FileKind.TORCHSCRIPT, FileKind.TORCH_EXPORT, FileKind.ONNX),
        *(FileKind.KERAS_ZIP, FileKind.KERAS_HDF5, FileKind.TFLITE),
    }
)


def is_isolated(
    kind: FileKind, settings: ModelSettings, isolate: Isolate, *, arch: str | None, allow_pickle: bool
) -> bool:
    """Whether a file is opened in a process of its own.

    With "auto": where the system can, for a model on the CPU whose file the user has not said to trust (a trusted one
    may want to reach for files).

    Raises:
        UserError: with "on", and it cannot be.
    """
    if isolate == "off":
        return False
    if isolate == "auto":
        trusted = allow_pickle or (arch is not None and kind not in KINDS)
        return kind in KINDS and not trusted and settings.device.type == "cpu" and walls().missing is None
    missing = walls().missing
    if missing is not None:
        raise UserError(f"Models cannot be isolated here ({missing}); leave --isolate on out.")
    if settings.device.type != "cpu":
        raise UserError(
            f"Model {settings.name} cannot be isolated on {settings.device}, which needs the files of the device; give "
            "--device cpu, or leave --isolate on out."
        )
    if kind not in KINDS:
        if kind in _BY_OWN_CODE:
            raise UserError(
                f"Model {settings.name} is {kind.value}, which is built by code of your own and cannot be isolated; "
                "leave --isolate on out, or save it as TorchScript."
            )
        return False  # no model; opening it says what it is
    return True


_BY_OWN_CODE = frozenset({FileKind.TORCH_WEIGHTS, FileKind.TORCH_MODULE, FileKind.PICKLE, FileKind.SAFETENSORS})


# -- the digest that identifies a model file -------------------------------------------------------------------------

# No classifier of images comes near; a sparse file of a terabyte takes a minute to make and hours to read.
LARGEST_BYTES = 16 << 30


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's contents, as 64 hexadecimal digits.

    Raises:
        UserError: it is larger than any model.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        size = path.stat().st_size
        if size > LARGEST_BYTES:
            raise UserError(
                f"{path} has {size / 2**30:,.0f} GiB, and models of up to {LARGEST_BYTES >> 30} GiB are opened; give "
                "the path of a model file."
            )
        return hashlib.file_digest(file, "sha256").hexdigest()


def onnx_sha256(path: Path) -> str:
    """SHA-256 of an ONNX file, together with the files beside it that hold its weights, if there are any.

    Two models of the same network that keep their weights in files of their own, as torch.onnx.export does by now,
    are the same file byte for byte; the digest of that file alone would take them for one model.

    Raises:
        UserError: a file with weights is missing or lies elsewhere, or the file is damaged.
        OSError: a file cannot be read.
    """
    try:
        names = external_files(path)
    except MalformedError as error:
        raise UserError(f"{path} is an ONNX file that is damaged; copy or export it again.") from error
    except MissingWeightsError as error:
        raise UserError(f"{path} keeps its weights in a file {error} that is not beside it; put it there.") from error
    except UntrustedError as error:
        raise UserError(
            f"{path} is an ONNX file that is not opened because {error}; export it again with its weights inside or in "
            "a file beside it."
        ) from error
    if not names:
        return file_sha256(path)
    sha = hashlib.sha256(file_sha256(path).encode())
    for name in names:
        sha.update(f"\n{name} {file_sha256(path.parent / name)}".encode())
    return sha.hexdigest()
