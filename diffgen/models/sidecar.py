"""The sidecar: a small TOML file beside a model, ``net.onnx.toml`` for ``net.onnx``, with its pre-processing."""

from __future__ import annotations

import difflib
import errno
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing, replace, to_dict
from diffgen.errors import UserError
from diffgen.models.class_names import is_name
from diffgen.runs.opening import read_toml

_KNOWN = (*(f.name for f in fields(Preprocessing)), "class_names")
# These name or allow code; a file that lies beside a model may come from a stranger.
_NOT_HERE = {"arch": "--arch", "allow_pickle": "--allow-pickle"}
_TUPLES = ("mean", "std", "size")


@dataclass(frozen=True)
class Sidecar:
    """What stands in a sidecar.

    Attributes:
        preprocessing: None where it says nothing.
        class_names: in the order of the model's answers, or empty.
    """

    preprocessing: Preprocessing = field(default_factory=Preprocessing)
    class_names: tuple[str, ...] = ()


def sidecar_path(model: Path) -> Path:
    """Where the sidecar of a model file lies."""
    return model.with_name(f"{model.name}.toml")


def read_sidecar(model: Path) -> Sidecar:
    """The sidecar of a model file; an empty one if there is none.

    Raises:
        UserError: it cannot be read, or says something that is not known or cannot be.
    """
    path = sidecar_path(model)
    try:
        if not path.is_file():
            return Sidecar()
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # so that there can be none
            return Sidecar()
        raise UserError(
            f"The sidecar {path} cannot be looked at ({error.strerror}); see who owns its folder."
        ) from error
    values = read_toml(path, "The sidecar")
    for key in values:
        _check_known(key, path)
    names = values.pop("class_names", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise UserError(
            f"The class_names in the sidecar {path} are not a list of different names; repair or remove them."
        )
    strange = next((name for name in names if not is_name(name)), None)
    if strange is not None:
        raise UserError(
            f"The class_names in the sidecar {path} hold {strange!r}, which is not printable text; rename the class."
        )
    if isinstance(values.get("size"), int) and not isinstance(values["size"], bool):
        values["size"] = [values["size"]] * 2
    try:
        return Sidecar(Preprocessing(**{key: _value(key, value) for key, value in values.items()}), tuple(names))
    except UserError as error:
        raise UserError(f"The sidecar {path} cannot be used: {error}") from error


def sidecar_text(preprocessing: Preprocessing, class_names: tuple[str, ...], remark: str) -> str:
    """The contents of a sidecar; what is as usual is left out, but for layout, scale and outputs.

    Args:
        preprocessing: nothing in it is None.
        class_names: or none.
        remark: one line for people.
    """
    import tomli_w

    usual = replace(DEFAULT_PREPROCESSING, layout=None, scale=None, outputs=None, background="none")
    said = {
        f.name: getattr(preprocessing, f.name)
        for f in fields(Preprocessing)
        if getattr(preprocessing, f.name) != getattr(usual, f.name)
    }
    values = to_dict(Preprocessing(**said))
    if class_names:
        values["class_names"] = list(class_names)
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in remark).split())
    return f"# {line}\n{tomli_w.dumps(values)}"


def _check_known(key: str, path: Path) -> None:
    if key in _NOT_HERE:
        raise UserError(
            f"The sidecar {path} sets {key}, which runs code and cannot be allowed by a file; remove it and give "
            f"{_NOT_HERE[key]} on the command line."
        )
    if key not in _KNOWN:
        near = difflib.get_close_matches(key, _KNOWN, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(_KNOWN)}."
        raise UserError(f"The sidecar {path} sets {key!r}, which is not known; {hint}")


def _value(key: str, value: Any) -> Any:
    if key in _TUPLES and isinstance(value, int | float) and not isinstance(value, bool):
        return (value,)
    return tuple(value) if isinstance(value, list) else value
