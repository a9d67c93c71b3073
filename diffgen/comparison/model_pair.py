"""The two models of a comparison: opened as the settings say, put into one order of classes, and found again later."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch

from diffgen.comparison.device import resolve_batch_size
from diffgen.config import (
    DEFAULT_MODEL_TIMEOUT,
    CompareConfig,
    Isolate,
    ModelConfig,
    Preprocessing,
    is_address,
    replace,
)
from diffgen.errors import UserError
from diffgen.models import BlackBox, read_label_map, read_sidecar
from diffgen.models import load as load_model
from diffgen.models.isolation.wall import walls
from diffgen.models.loading import file_digest
from diffgen.models.remote.address import parse_address
from diffgen.runs.folder import RunFolder


def load_models(
    model_a: Any, model_b: Any, config: CompareConfig, *, device: torch.device, batch_size: int
) -> tuple[BlackBox, BlackBox]:
    """Both models as the settings say.

    Raises:
        UserError: see :func:`diffgen.models.load`; or an ``arch`` that neither model has a use for.
    """

    def load(model: Any, role: str) -> BlackBox:
        preprocessing, opening = _settings(config, role)
        return load_model(
            model,
            device=device,
            batch_size=batch_size,
            preprocessing=preprocessing,
            arch=opening.arch,
            allow_pickle=opening.allow_pickle,
            class_names=opening.class_names,
            class_order=opening.class_order,
            remote=opening.remote,
            **isolation(opening),
        )

    models = load(model_a, "A"), load(model_b, "B")
    _check_arch_is_used(models, (config.model_a.arch, config.model_b.arch))
    return models


class Isolation(TypedDict):
    """What :func:`diffgen.models.load` is told about a model's own process."""

    isolate: Isolate
    model_timeout: float


def isolation(opening: ModelConfig) -> Isolation:
    """Whether a model is isolated and how long it may take; where nothing is said, as usual."""
    return {
        "isolate": opening.isolate or "auto",
        "model_timeout": opening.model_timeout or DEFAULT_MODEL_TIMEOUT,
    }


def wall_of(model: BlackBox) -> str:
    """What stood between a model and this machine, in a sentence for the manifest."""
    if model.url is not None:
        return "it ran on a server"
    return walls().sentence if model.isolated else "it ran in diffgen's own process"


def _check_arch_is_used(models: tuple[BlackBox, BlackBox], given: tuple[str | None, str | None]) -> None:
    used = {model.arch for model in models}
    # --arch is said of both models, and may be meant for one of them
    idle = [(model, arch) for model, arch in zip(models, given, strict=True) if arch is not None and arch not in used]
    if idle:
        names = " and ".join(dict.fromkeys(model.name for model, _ in idle))
        raise UserError(
            f"--arch {idle[0][1]} builds the network for a file with weights alone (a state_dict), but what was given "
            f"has its own network ({names}); leave --arch out, or give the weights."
        )


def match_classes(models: Sequence[BlackBox], label_map: str | None, class_names: Sequence[str] | None = None) -> None:
    """Put the classes of B into the order of A's, as a label map says. The models must be prepared.

    Args:
        models: A and B, with the same number of classes.
        label_map: a file, or None: they are in the same order.
        class_names: those of the data, for a model that has no names of its own.

    Raises:
        UserError: see :func:`diffgen.models.class_names.read_label_map`.
    """
    if label_map is None:
        return
    a, b = models
    names = tuple(class_names or ())
    b.map_classes(read_label_map(label_map, a.num_classes, a.class_names or names, b.own_class_names or names))


def recorded(config: CompareConfig, models: Sequence[BlackBox]) -> CompareConfig:
    """The settings with everything in them that was found out about the models, so that nothing is guessed again."""

    def of(model: BlackBox, said: ModelConfig) -> ModelConfig:
        return ModelConfig(
            remote=said.remote,
            arch=model.arch,
            allow_pickle=model.unpickled,
            class_names=model.own_class_names,
            class_order=model.class_order,
            model_timeout=said.model_timeout,
        )

    a, b = models
    return replace(
        config,
        preprocessing_a=a.preprocessing,
        preprocessing_b=b.preprocessing,
        model_a=of(a, config.model_a),
        model_b=of(b, config.model_b),
    )


def stored_model(
    folder: RunFolder,
    role: str,
    given: Any,
    config: CompareConfig,
    *,
    device: torch.device,
    options: CompareConfig | None = None,
    looks_anew: bool = False,
) -> BlackBox:
    """Model A or B of a run: the file or address it was started with, or the one ``given`` in its place.

    The run's own model is opened with the run's own settings. Another one is opened as ``options`` say, then as its
    sidecar says, then as the run's own. Code that the run was allowed to run is not run again, and nothing is sent to
    an address that it names, unless ``options`` say so: the folder may come from a stranger. A model that the run asked
    one image at a time is asked so again, unless the caller ``looks_anew`` how it is to be asked.

    Raises:
        UserError: the run's own model is gone or has changed, it was a Python object and none is given, or it can only
            be opened by what ``options`` do not allow.
    """
    options = options or CompareConfig()
    entry = folder.manifest["files"][role]
    if given is None and entry["path"] is None:
        raise UserError(f"Model {role} of the run {folder.path} was a Python object; give it again.")
    preprocessing, before = _settings(config, role)
    said, consent = _settings(options, role)
    model = entry["path"] if given is None else given
    remote = is_address(model)
    is_file = isinstance(model, str | os.PathLike) and not remote
    if remote:
        # what a server says of its model is looked at below; asking it needs consent first
        same = given is None or str(parse_address(given)) == entry["path"]
    else:
        same = given is None or (is_file and file_digest(model) == entry["sha256"])
        if given is None and file_digest(model) != entry["sha256"]:
            raise UserError(
                f"The file {entry['path']} has changed since the run {folder.path}; name the models to ask instead."
            )
    if same:
        if remote and given is None and not consent.allow_remote:
            raise UserError(
                f"Model {role} of the run {folder.path} is asked at {model}, which sends pictures there; add "
                f"--{role.lower()}-allow-remote to allow it again."
            )
        _check_consent(folder, role, before, consent)
        preprocessing = said.over(preprocessing)
    elif is_file:
        # another file: what was found out about the old one's layout and answers says nothing about it
        usual = replace(preprocessing, layout="auto", outputs="auto", output="")
        preprocessing = said.over(read_sidecar(Path(model).expanduser()).preprocessing).over(usual)
    opened = load_model(
        model,
        device=device,
        batch_size=resolve_batch_size(config.batch_size, device),
        preprocessing=preprocessing,
        arch=consent.arch,
        allow_pickle=consent.allow_pickle,
        class_names=before.class_names if same else (),
        class_order=before.class_order,
        sidecar=not same,
        remote=consent.remote.over(replace(before.remote, auth_env=None)) if same else consent.remote,
        # whether it is isolated is nothing that the folder may say
        **isolation(replace(consent, model_timeout=consent.model_timeout or before.model_timeout)),
    )
    if same and remote and opened.digest != entry["sha256"]:
        raise UserError(
            f"The server of {entry['path']} says other things of its model than in the run {folder.path}, which was "
            "made with another version of it; load that one, or start a new run."
        )
    asked_alone = folder.manifest.get("asked_alone")
    if same and not looks_anew and isinstance(asked_alone, list) and role in asked_alone:
        opened.ask_alone()
    return opened


def resume_command(verb: str, folder: RunFolder, config: CompareConfig, models: Sequence[BlackBox]) -> str:
    """What goes on with a run that broke off, with the options that allow it again to ask models at an address."""
    words = [f"diffgen {verb} --resume {shlex.quote(str(folder.path))}"]
    for role, model in zip("ab", models, strict=True):
        if model.url is not None:
            variable = _settings(config, role.upper())[1].remote.auth_env
            words.append(f"--{role}-allow-remote" + (f" --{role}-auth-env {variable}" if variable else ""))
    return " ".join(words)


def _check_consent(folder: RunFolder, role: str, before: ModelConfig, consent: ModelConfig) -> None:
    if before.arch is not None and consent.arch is None:
        raise UserError(
            f"Model {role} of the run {folder.path} was built by --arch {before.arch}, which runs that code; add "
            f"--{role.lower()}-arch {before.arch} to allow it again."
        )
    variable = before.remote.auth_env
    if variable is not None and consent.remote.auth_env is None:
        raise UserError(
            f"Model {role} of the run {folder.path} was asked with the Authorization header in {variable}, which goes "
            f"to the address in that run; add --{role.lower()}-auth-env {variable} to send it there again."
        )
    if before.allow_pickle and not consent.allow_pickle:
        raise UserError(
            f"Model {role} of the run {folder.path} was opened with --allow-pickle, which may run any code; add "
            f"--{role.lower()}-allow-pickle to open it again."
        )


def _settings(config: CompareConfig, role: str) -> tuple[Preprocessing, ModelConfig]:
    return (config.preprocessing_a, config.model_a) if role == "A" else (config.preprocessing_b, config.model_b)
