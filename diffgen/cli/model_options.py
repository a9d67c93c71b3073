"""Options that say how models are opened and fed: for all, and with ``--a-``, ``--b-``, ... for one of them."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from diffgen.cli import options
from diffgen.cli.settings_options import Options
from diffgen.config import MAX_MODELS, ModelSpec, Opening, Preprocessing, applied, is_address, replace, roles
from diffgen.config.layers import Layer
from diffgen.config.schema import Setting, describe, every_setting
from diffgen.errors import UserError

_DESCRIPTION = "The sidecar beside the model's file (net.onnx.toml) says what is not said here."
_ALL = "For all models; --a-mean, --b-arch, ... for one. A file's sidecar (net.onnx.toml) says the rest."
_PREFIXES = tuple(f"{role}-" for role in roles(MAX_MODELS).lower())


def add_preprocessing_options(of: Options) -> None:
    """--mean, --std, ... of one model."""
    group = of.parser.add_argument_group("model", _DESCRIPTION)
    of.add(group, every_setting(Preprocessing))


def add_model_options(of: Options, *, models: int = MAX_MODELS) -> None:
    """--mean, --std, ..., --arch and --allow-pickle, and of several ``models`` also those for each alone."""
    group = of.parser.add_argument_group("models", _DESCRIPTION if models == 1 else _ALL)
    of.add(group, [*_settings(), describe(ModelSpec, "class_names_file")])
    if models > 1:
        of.add(group, [describe(ModelSpec, "label_map")])
        own = [*_settings(), describe(ModelSpec, "class_names_file")]
        for prefix in _PREFIXES[:models]:
            # the classes of all others are mapped onto those of A
            mapped = [] if prefix == _PREFIXES[0] else [describe(ModelSpec, "label_map")]
            of.add(group, [*own, *mapped], prefix=prefix, shown=False)


def add_last(parser: argparse.ArgumentParser, *, models: int = MAX_MODELS) -> None:
    """What stands last in the help of most verbs: the options of the models, and of what is printed."""
    of = Options(parser)
    add_model_options(of, models=models)
    of.rare(options.add_talk(parser))


def _settings() -> Iterator[Setting]:
    yield from every_setting(Preprocessing)
    yield from every_setting(Opening)


def preprocessing_from(arguments: argparse.Namespace, prefix: str = "") -> Preprocessing:
    """What the options say of the pre-processing; None for what they don't.

    Args:
        prefix: "", "a-" or "b-".

    Raises:
        UserError: a value that cannot be.
    """
    return applied(Preprocessing(), _given(arguments, prefix, "preprocessing"))


def spec_from(arguments: argparse.Namespace, prefix: str = "") -> ModelSpec:
    """What the options say of one model: how it is fed, opened and asked. UserError for a value that cannot be."""
    opening = {**_given(arguments, prefix, "opening"), "remote": _given(arguments, prefix, "remote")}
    return ModelSpec(
        preprocessing=preprocessing_from(arguments, prefix),
        opening=applied(Opening(), opening),
        class_names_file=getattr(arguments, f"{prefix}models.class_names_file", None),
        label_map=getattr(arguments, f"{prefix}models.label_map", None),
    )


def specs_from(arguments: argparse.Namespace, models: int) -> tuple[ModelSpec, ...]:
    """What the options say of each model; what is said of all counts where nothing is said of one.

    Raises:
        UserError: a value that cannot be, or something is said of a model that is not there.
    """
    every = spec_from(arguments)
    for prefix in _PREFIXES[models:]:
        said = [name for name, value in vars(arguments).items() if name.startswith(prefix) and value is not None]
        if said:
            from diffgen.tasks.classification import listed  # --help does without numpy

            raise UserError(
                f"An option is said of model {prefix[0].upper()} (--{prefix}...), but there are {models} models, "
                f"{listed(roles(models))}; leave it out, or say it of one of these."
            )
    first, *others = (spec_from(arguments, prefix).over(every) for prefix in _PREFIXES[:models])
    return replace(first, label_map=None), *others


def specs_of_run(arguments: argparse.Namespace, run: str | Path) -> tuple[ModelSpec, ...]:
    """What the options say of each model of a run. UserError as :func:`specs_from`; or no run is there."""
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


# one of these is there where torch may find a GPU, whose models are not isolated
_GPUS = ("/dev/nvidiactl", "/dev/kfd")


def start_isolation(specs: Sequence[ModelSpec], device: str) -> None:
    """Start the process that isolates models, where one of these will be isolated as far as can be told from settings.

    It is started before torch is imported here: for most files it imports torch too, on another core. What is not
    started here is started when a model is opened; what is started in vain ends with diffgen.

    Args:
        device: where networks compute, as the user says it.
    """
    from diffgen.models.isolation.starting import start
    from diffgen.models.isolation.wall import walls

    may_be_gpu = device != "cpu" and (device != "auto" or any(Path(each).exists() for each in _GPUS))
    paths = [str(each.path) for each in specs if _may_be_isolated(each)]
    if paths and not may_be_gpu and walls().missing is None:
        # a guess: other files called so have torch imported later
        start(torch=not all(each.lower().endswith((".onnx", ".tflite")) for each in paths))


def _may_be_isolated(spec: ModelSpec) -> bool:
    opening = spec.opening
    if opening.isolate == "off" or opening.allow_pickle or opening.arch is not None:
        return False
    # not Path.is_file(), which raises where a folder may not be looked into; opening the model says so in a sentence
    return spec.path is not None and not is_address(spec.path) and os.path.isfile(os.path.expanduser(spec.path))
