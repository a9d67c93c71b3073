"""Options that say how models are opened and fed: for all, and with ``--a-`` or ``--b-`` for one of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from diffgen.cli.settings_options import Options
from diffgen.config import ModelSpec, Opening, Preprocessing, applied, replace
from diffgen.config.layers import Layer
from diffgen.config.schema import Setting, describe, every_setting
from diffgen.errors import UserError

_DESCRIPTION = (
    "What is not given here is taken from the sidecar beside the model's file (net.onnx.toml), then as usual."
)
_BOTH = (
    "Applies to both models; prefix an option with --a- or --b- (--a-mean, --b-arch, ...) for one of them. "
    + _DESCRIPTION
)
_PAIR = ("a-", "b-")


def add_preprocessing_options(options: Options) -> None:
    """--mean, --std, ... of one model."""
    group = options.parser.add_argument_group("model", _DESCRIPTION)
    options.add(group, every_setting(Preprocessing))


def add_model_options(options: Options, *, pair: bool = True) -> None:
    """--mean, --std, ..., --arch and --allow-pickle, and with ``pair`` also those for A or B alone."""
    group = options.parser.add_argument_group("models", _BOTH if pair else _DESCRIPTION)
    options.add(group, [*_settings(), describe(ModelSpec, "class_names_file")])
    if pair:
        options.add(group, [describe(ModelSpec, "label_map")])
        for prefix in _PAIR:
            own = [*_settings(), describe(ModelSpec, "class_names_file")]
            options.add(group, own, prefix=prefix, shown=False)


def _settings() -> Iterator[Setting]:
    yield from every_setting(Preprocessing)
    yield from every_setting(Opening)


def preprocessing_from(arguments: argparse.Namespace, prefix: str = "") -> Preprocessing:
    """What the options say of the pre-processing; None for what they don't.

    Args:
        arguments: parsed.
        prefix: "", "a-" or "b-".

    Raises:
        UserError: a value that cannot be.
    """
    return applied(Preprocessing(), _given(arguments, prefix, "preprocessing"))


def spec_from(arguments: argparse.Namespace, prefix: str = "") -> ModelSpec:
    """What the options say of one model: its pre-processing, how it is opened, and how a remote one is asked.

    Raises:
        UserError: a value that cannot be.
    """
    opening = {**_given(arguments, prefix, "opening"), "remote": _given(arguments, prefix, "remote")}
    return ModelSpec(
        preprocessing=preprocessing_from(arguments, prefix),
        opening=applied(Opening(), opening),
        class_names_file=getattr(arguments, f"{prefix}models.class_names_file", None),
        label_map=getattr(arguments, f"{prefix}models.label_map", None),
    )


def pair_from(arguments: argparse.Namespace) -> tuple[ModelSpec, ModelSpec]:
    """What the options say of A and of B; what is said of both counts where nothing is said of one.

    Raises:
        UserError: a value that cannot be.
    """
    both = spec_from(arguments)
    a, b = (spec_from(arguments, prefix).over(both) for prefix in _PAIR)
    # the classes of B are mapped onto those of A
    return replace(a, label_map=None), b


def _given(arguments: argparse.Namespace, prefix: str, table: str) -> Layer:
    start = f"{prefix}{table}."
    given: dict[str, Any] = {
        name.removeprefix(start): value
        for name, value in vars(arguments).items()
        if name.startswith(start) and value is not None
    }
    if "size" in given:
        given["size"] = _size(str(given["size"]))
    return given


def _size(text: str) -> tuple[int, int]:
    sides = text.lower().split("x")
    if not 1 <= len(sides) <= 2 or not all(side.isascii() and side.isdigit() for side in sides):
        raise UserError(f"--size {text!r} is not understood; write 224, or height and width as 224x192.")
    return int(sides[0]), int(sides[-1])
