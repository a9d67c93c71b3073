"""Options that say how models are opened and fed: for both, and with ``--a-`` or ``--b-`` for one of them."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import Any

from diffgen.config import (
    DEFAULT_MODEL_TIMEOUT,
    DEFAULT_REMOTE,
    CompareConfig,
    ModelConfig,
    Preprocessing,
    RemoteConfig,
    replace,
)
from diffgen.config.schema import describe
from diffgen.errors import UserError

_DESCRIPTION = (
    "What is not given here is taken from the sidecar beside the model's file (net.onnx.toml), then as usual."
)
_BOTH = (
    "Applies to both models; prefix an option with --a- or --b- (--a-mean, --b-arch, ...) for one of them. "
    + _DESCRIPTION
)
# option -> setting of Preprocessing; all others have the name of theirs
_OUTPUT = "output_name"


def add_preprocessing_options(parser: argparse.ArgumentParser) -> None:
    """--mean, --std, ... of one model."""
    _add(parser.add_argument_group("model", _DESCRIPTION), "", shown=True, opening=False)


def add_model_options(parser: argparse.ArgumentParser, *, pair: bool = True) -> None:
    """--mean, --std, ..., --arch and --allow-pickle, and with ``pair`` also those for A or B alone."""
    group = parser.add_argument_group("models", _BOTH if pair else _DESCRIPTION)
    _add(group, "", shown=True)
    if pair:
        group.add_argument(
            "--label-map", metavar="FILE", help="classes of B and those of A that they are (.toml, .json or .csv)"
        )
        _add(group, "a-", shown=False)
        _add(group, "b-", shown=False)


def _add(group: Any, prefix: str, *, shown: bool, opening: bool = True) -> None:
    def add(name: str, text: str, **settings: Any) -> None:
        group.add_argument(f"--{prefix}{name}", help=text if shown else argparse.SUPPRESS, **settings)

    add("mean", "subtracted after scaling, one for each channel or one for all", type=float, nargs="+", metavar="X")
    add("std", "divided by, after the mean", type=float, nargs="+", metavar="X")
    add("scale", "what 0..255 becomes: 0..1 (default) or 0..255", **_choice("scale"))
    add("channels", "rgb (default: as the data has them), bgr, grey-to-rgb, rgb-to-grey", **_choice("channels"))
    add("invert", "make black white, and white black", action=argparse.BooleanOptionalAction)
    add("size", "size that the model takes; images are resized to it, bilinearly", metavar="N|HxW")
    add("antialias", "smooth images that are made smaller (default: yes)", action=argparse.BooleanOptionalAction)
    add("layout", "auto (default), nchw, nhwc, or flat: (N, C*H*W), one row of values per image", **_choice("layout"))
    add("outputs", "auto (default), probabilities, logits or scores", **_choice("outputs"))
    add("output-name", "which output to read, of a model that gives several", metavar="NAME")
    if not opening:
        return
    add("arch", "builds the network of a state_dict; runs that code", metavar="PACKAGE.MODULE:FACTORY")
    add("allow-pickle", "open pickled models, which runs any code that is in them", action="store_true", default=None)
    modes = describe(ModelConfig, "isolate").choices
    add("isolate", "open files where they can only compute: auto (default), on, off", choices=modes, metavar="MODE")
    add(
        "model-timeout",
        f"that opening an isolated model, and each batch, may take (default: {DEFAULT_MODEL_TIMEOUT:g})",
        type=float,
        metavar="SECONDS",
    )
    add("auth-env", "environment variable with the Authorization header of a remote model", metavar="NAME")
    add("query-budget", "most images sent to a remote model, repeated ones too", type=int, metavar="N")
    add("timeout", f"of a remote model's answer (default: {DEFAULT_REMOTE.timeout:g})", type=float, metavar="SECONDS")
    add("retries", f"of a request that failed (default: {DEFAULT_REMOTE.retries})", type=int, metavar="N")
    add("allow-remote", "send pictures to the address in a run folder", action="store_true", default=None)


def _choice(name: str) -> dict[str, Any]:
    allowed = describe(Preprocessing, name).choices
    return {"choices": allowed, "metavar": "|".join(allowed)}


def preprocessing_from(arguments: argparse.Namespace, prefix: str = "") -> Preprocessing:
    """What the options say of the pre-processing; None for what they don't.

    Args:
        arguments: parsed.
        prefix: "", "a_" or "b_".

    Raises:
        UserError: a size that is none.
    """
    values: dict[str, Any] = {}
    for f in fields(Preprocessing):
        value = getattr(arguments, prefix + (_OUTPUT if f.name == "output" else f.name), None)
        values[f.name] = tuple(value) if isinstance(value, list) else value
    if values["size"] is not None:
        values["size"] = _size(str(values["size"]))
    return Preprocessing(**values)


def opening_from(arguments: argparse.Namespace, prefix: str = "") -> ModelConfig:
    """--arch, --allow-pickle, --isolate, and how a remote model is asked."""
    return ModelConfig(
        arch=getattr(arguments, f"{prefix}arch"),
        allow_pickle=bool(getattr(arguments, f"{prefix}allow_pickle")),
        allow_remote=bool(getattr(arguments, f"{prefix}allow_remote")),
        isolate=getattr(arguments, f"{prefix}isolate"),
        model_timeout=getattr(arguments, f"{prefix}model_timeout"),
        remote=RemoteConfig(**{f.name: getattr(arguments, f"{prefix}{f.name}") for f in fields(RemoteConfig)}),
    )


def apply(arguments: argparse.Namespace, config: CompareConfig) -> CompareConfig:
    """The settings with those of the options put over them.

    Raises:
        UserError: a value that cannot be.
    """
    both, opening = preprocessing_from(arguments), opening_from(arguments)

    def settled(prefix: str, preprocessing: Preprocessing, model: ModelConfig) -> tuple[Preprocessing, ModelConfig]:
        own = opening_from(arguments, prefix)
        said = preprocessing_from(arguments, prefix).over(both).over(preprocessing)
        arch = own.arch or opening.arch or model.arch
        allow_pickle = own.allow_pickle or opening.allow_pickle or model.allow_pickle
        allow_remote = own.allow_remote or opening.allow_remote or model.allow_remote
        remote = own.remote.over(opening.remote).over(model.remote)
        return said, replace(
            model,
            arch=arch,
            allow_pickle=allow_pickle,
            allow_remote=allow_remote,
            remote=remote,
            isolate=own.isolate or opening.isolate or model.isolate,
            model_timeout=own.model_timeout or opening.model_timeout or model.model_timeout,
        )

    preprocessing_a, model_a = settled("a_", config.preprocessing_a, config.model_a)
    preprocessing_b, model_b = settled("b_", config.preprocessing_b, config.model_b)
    return replace(
        config, preprocessing_a=preprocessing_a, preprocessing_b=preprocessing_b, model_a=model_a, model_b=model_b
    )


def _size(text: str) -> tuple[int, int]:
    sides = text.lower().split("x")
    if not 1 <= len(sides) <= 2 or not all(side.isascii() and side.isdigit() for side in sides):
        raise UserError(f"--size {text!r} is not understood; write 224, or height and width as 224x192.")
    return int(sides[0]), int(sides[-1])
