"""The sidecar: a small TOML file beside a model, ``net.onnx.toml`` for ``net.onnx``, with its pre-processing."""

from __future__ import annotations

import contextlib
import difflib
import errno
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from diffgen.config import DEFAULT_PREPROCESSING, Preprocessing, replace, to_dict
from diffgen.errors import UserError
from diffgen.models.class_names import is_name, names_in_config
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


# -- JSON files of other libraries -----------------------------------------------------------------------------------
#
# Known by their contents are preprocessor_config.json of Hugging Face's transformers, config.json of timm
# (pretrained_cfg), and the keywords of torchvision's weights.transforms under "transforms". They are read as if a
# stranger had written them, and nothing but numbers and a few words is taken from them.

Interpolation: TypeAlias = Literal["bilinear", "bicubic", "nearest"]
_MAX_BYTES = 2**20
_IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
# Pillow's numbers; Lanczos is most like bicubic, and the two that average are most like bilinear
_PILLOW: dict[int, Interpolation] = {
    0: "nearest",
    1: "bicubic",
    2: "bilinear",
    3: "bicubic",
    4: "bilinear",
    5: "bilinear",
}
_WORDS: dict[str, Interpolation] = {
    "nearest": "nearest",
    "bilinear": "bilinear",
    "bicubic": "bicubic",
    "lanczos": "bicubic",
    "box": "bilinear",
}
_STRETCHED_FROM = 384  # the shorter side from which ConvNeXt's processor cuts nothing off
_Values = Mapping[str, Any]


def read_processor_file(model: Path) -> tuple[str, Preprocessing] | None:
    """What a file beside a model says of its pre-processing, and the name of that file; None: there is none.

    Looked for are ``net.onnx.json`` and ``net.json`` for ``net.onnx``, ``preprocessor_config.json`` and
    ``config.json``; for a model in a folder "onnx", as optimum exports it, the last two also above that.

    Raises:
        UserError: such a file says what cannot be.
    """
    for path, values in _json_beside(model):
        kind = _kind(values)
        if kind is None:
            continue
        reader, part = kind
        try:
            return path.name, reader(part)
        except (UserError, ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"The file {path} says of the pre-processing of the model beside it what cannot be ({error}); repair "
                "it, or take it away and say the pre-processing with options."
            ) from None
    return None


def read_names_beside(model: Path) -> tuple[str, ...]:
    """The class names in such a file beside a model (:func:`read_processor_file`), in the order of its answers."""
    return next((names for _, values in _json_beside(model) if (names := names_in_config(values))), ())


def _json_beside(model: Path) -> Iterator[tuple[Path, _Values]]:
    """The JSON objects in the files that are looked for; a file that holds none says nothing."""
    shared = ("preprocessor_config.json", "config.json")
    places = [model.parent / name for name in (f"{model.name}.json", f"{model.stem}.json", *shared)]
    if model.parent.name == "onnx":
        places += [model.parent.parent / name for name in shared]
    for path in places:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if not path.is_file():
                continue
            with path.open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
            if len(content) <= _MAX_BYTES and isinstance(values := json.loads(content), dict):
                yield path, values


def _kind(values: _Values) -> tuple[Callable[[_Values], Preprocessing], _Values] | None:
    """Whose file this is, and the part of it that speaks of pre-processing."""
    own = values.get("pretrained_cfg", values)
    if isinstance(own, dict) and "input_size" in own and "mean" in own and "std" in own:
        return _of_timm, own
    given = values.get("transforms", values)
    if isinstance(given, dict) and "crop_size" in given and ("transforms" in values or "resize_size" in given):
        return _of_torchvision, given
    if any(key in values for key in ("image_mean", "do_rescale", "image_processor_type", "feature_extractor_type")):
        return _of_transformers, values
    return None


def _of_timm(values: _Values) -> Preprocessing:
    _, height, width = values["input_size"]
    share = float(values.get("crop_pct") or 1)
    squashed = values.get("crop_mode") == "squash" and share == 1
    return Preprocessing(
        size=(height, width),
        crop=0.0 if squashed else min(share, 1.0),
        interpolation=_WORDS.get(values.get("interpolation", "")),
        **_scaled(1 / 255, 0.0, values["mean"], values["std"]),
    )


def _of_torchvision(values: _Values) -> Preprocessing:
    values = {"resize_size": 256, **_IMAGENET, **values}
    size = _sides(values["crop_size"])
    word = str(values.get("interpolation", "bilinear")).rpartition(".")[2].lower()
    return Preprocessing(
        size=size,
        crop=min(1.0, size[0] / min(_sides(values["resize_size"]))),
        interpolation=_WORDS.get(word),
        antialias=values.get("antialias") is not False,
        **_scaled(1 / 255, 0.0, values["mean"], values["std"]),
    )


def _of_transformers(values: _Values) -> Preprocessing:
    size, crop = _resized_and_cropped(values)
    factor, offset = 1.0, 0.0
    if values.get("do_rescale", True):
        factor = float(values.get("rescale_factor", 1 / 255))
        offset = 1.0 if values.get("rescale_offset") else 0.0
    normalized = values.get("do_normalize", True)
    return Preprocessing(
        channels="bgr" if values.get("do_flip_channel_order") else None,
        size=size,
        crop=crop,
        interpolation=_PILLOW.get(values.get("resample", -1)),
        **_scaled(
            factor,
            offset,
            values.get("image_mean") if normalized else None,
            values.get("image_std") if normalized else None,
        ),
    )


def _resized_and_cropped(values: _Values) -> tuple[tuple[int, int] | None, float | None]:
    """The size that the model is handed, and the share of the resized image that it shows."""
    resized = _sides(values["size"]) if values.get("do_resize", True) and values.get("size") else None
    if values.get("do_center_crop") and values.get("crop_size"):
        size = _sides(values["crop_size"])
        return size, 1.0 if resized is None else min(1.0, size[0] / resized[0])
    if resized is None:
        return None, None
    by_shorter_side = isinstance(values["size"], dict) and "shortest_edge" in values["size"]
    if values.get("crop_pct") and by_shorter_side:
        return resized, float(values["crop_pct"]) if resized[0] < _STRETCHED_FROM else 0.0
    return resized, 1.0 if by_shorter_side else 0.0


def _sides(value: Any) -> tuple[int, int]:
    """Height and width from a side, both, or a table of them."""
    if isinstance(value, dict):
        value = value["shortest_edge"] if "shortest_edge" in value else (value["height"], value["width"])
    sides = tuple(value) if isinstance(value, list | tuple) else (value,)
    height, width = sides * 2 if len(sides) == 1 else sides
    return height, width


def _scaled(factor: float, offset: float, mean: Any, std: Any) -> dict[str, Any]:
    """Scale, mean and std for (grey level * factor - offset - mean) / std, where mean and std may be missing."""
    means, stds = _numbers(mean, 0.0), _numbers(std, 1.0)
    if factor == 1:
        scale, whole = "0..255", 1.0
    else:
        scale, whole = "0..1", 255 * factor
        whole = 1.0 if math.isclose(whole, 1) else whole
    if offset or whole != 1 or mean is not None or std is not None:
        return {
            "scale": scale,
            "mean": tuple((each + offset) / whole for each in means),
            "std": tuple(each / whole for each in stds),
        }
    return {"scale": scale, "mean": (), "std": ()}


def _numbers(value: Any, usual: float) -> tuple[float, ...]:
    values = [usual] if value is None else value if isinstance(value, list) else [value]
    if not values or not all(isinstance(each, int | float) and math.isfinite(each) for each in values):
        raise ValueError(f"{value!r} are no numbers")
    return tuple(float(each) for each in values)
