"""Options that say how models are opened and fed: for all, and with ``--a-``, ``--b-``, ... for one of them."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diffgen.cli.settings_options import Options
from diffgen.config import MAX_MODELS, ModelSpec, Opening, Preprocessing, applied, replace, roles
from diffgen.config.layers import Layer
from diffgen.config.schema import Setting, describe, every_setting
from diffgen.errors import UserError
from diffgen.tasks.classification import listed

_DESCRIPTION = "The sidecar beside the model's file (net.onnx.toml) says what is not said here."
_ALL = "For all models; --a-mean, --b-arch, ... for one. A file's sidecar (net.onnx.toml) says the rest."
_PREFIXES = tuple(f"{role}-" for role in roles(MAX_MODELS).lower())


def add_preprocessing_options(options: Options) -> None:
    """--mean, --std, ... of one model."""
    group = options.parser.add_argument_group("model", _DESCRIPTION)
    options.add(group, every_setting(Preprocessing))


def add_model_options(options: Options, *, models: int = MAX_MODELS) -> None:
    """--mean, --std, ..., --arch and --allow-pickle, and of several ``models`` also those for each alone."""
    group = options.parser.add_argument_group("models", _DESCRIPTION if models == 1 else _ALL)
    options.add(group, [*_settings(), describe(ModelSpec, "class_names_file")])
    if models > 1:
        options.add(group, [describe(ModelSpec, "label_map")])
        own = [*_settings(), describe(ModelSpec, "class_names_file")]
        for prefix in _PREFIXES[:models]:
            # the classes of all others are mapped onto those of A
            mapped = [] if prefix == _PREFIXES[0] else [describe(ModelSpec, "label_map")]
            options.add(group, [*own, *mapped], prefix=prefix, shown=False)


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


def specs_from(arguments: argparse.Namespace, models: int) -> tuple[ModelSpec, ...]:
    """What the options say of each model; what is said of all counts where nothing is said of one.

    Args:
        arguments: parsed.
        models: how many there are.

    Raises:
        UserError: a value that cannot be, or something is said of a model that is not there.
    """
    every = spec_from(arguments)
    for prefix in _PREFIXES[models:]:
        said = [name for name, value in vars(arguments).items() if name.startswith(prefix) and value is not None]
        if said:
            raise UserError(
                f"An option is said of model {prefix[0].upper()} (--{prefix}...), but there are {models} models, "
                f"{listed(roles(models))}; leave it out, or say it of one of these."
            )
    first, *others = (spec_from(arguments, prefix).over(every) for prefix in _PREFIXES[:models])
    return replace(first, label_map=None), *others


def specs_of_run(arguments: argparse.Namespace, run: str | Path) -> tuple[ModelSpec, ...]:
    """What the options say of each model of a run.

    Raises:
        UserError: see :func:`specs_from`; or no run is there.
    """
    from diffgen.runs.folder import RunFolder

    return specs_from(arguments, max(2, len(RunFolder.open(run).manifest.get("files", ()))))


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
