"""Decides which models are isolated."""

from __future__ import annotations

from diffgen.config import Isolate
from diffgen.errors import UserError
from diffgen.models.isolation.wall import walls
from diffgen.models.model_settings import ModelSettings
from diffgen.models.sniffing import FileKind

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
