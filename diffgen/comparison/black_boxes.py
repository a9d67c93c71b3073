"""The models of a comparison: opened as the settings say, put into one order of classes, and found again later."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

import torch

from diffgen.config import (
    DEFAULT_MODEL_TIMEOUT,
    MAX_MODELS,
    CompareConfig,
    Isolate,
    ModelSpec,
    Opening,
    is_address,
    replace,
    roles,
)
from diffgen.errors import UserError
from diffgen.home import expanded
from diffgen.models import BlackBox, read_class_names, read_label_map, read_sidecar
from diffgen.models import load as load_model
from diffgen.models.isolation.wall import walls
from diffgen.models.loading import file_digest
from diffgen.models.panel import panel_of
from diffgen.models.remote.address import parse_address
from diffgen.parts import is_object
from diffgen.runs.folder import RunFolder
from diffgen.types import several


def specs_for(given: Sequence[Any], config: CompareConfig) -> tuple[tuple[Any, ...], tuple[ModelSpec, ...]]:
    """The models of a comparison, and how each is opened and fed.

    Args:
        given: files, addresses, Python objects or :class:`ModelSpec` with a path; none for those that the settings
            name.
        config: says how they are opened and fed, in the same order.

    Raises:
        UserError: fewer than two, too many, or other numbers of models and of settings for them.
    """
    named = config.models
    given = given or tuple(each.path for each in named)
    if len(given) < 2:
        raise UserError(f"A comparison needs two models or more, but {len(given)} was given.")
    if len(given) > MAX_MODELS:
        raise UserError(f"{len(given)} models are given; a comparison takes two to {MAX_MODELS}, so leave some out.")
    if named and len(named) != len(given):
        raise UserError(f"{len(given)} models are given, but the settings describe {len(named)}; describe each.")
    named = named or (ModelSpec(),) * len(given)
    specs = tuple(
        each.over(said) if isinstance(each, ModelSpec) else said for each, said in zip(given, named, strict=True)
    )
    models = tuple(each.path if isinstance(each, ModelSpec) else each for each in given)
    missing = [role for role, model in zip(roles(models), models, strict=True) if model is None]
    if missing:
        raise UserError(f"Model {missing[0]} has no path; name its file or address, or give the model itself.")
    return models, specs


def load_models(
    models: Sequence[Any], specs: Sequence[ModelSpec], *, device: torch.device, batch_size: int
) -> tuple[BlackBox, ...]:
    """All models as the settings say.

    Raises:
        UserError: see :func:`diffgen.models.load`; or an ``arch`` that no model has a use for, or one model twice
            among many.
    """
    loaded = tuple(
        load_spec(model, spec, device=device, batch_size=batch_size) for model, spec in zip(models, specs, strict=True)
    )
    _check_arch_is_used(loaded, [spec.opening.arch for spec in specs])
    if len(loaded) > 2:
        _check_no_model_twice(models, specs, loaded)
    return loaded


def _check_no_model_twice(given: Sequence[Any], specs: Sequence[ModelSpec], loaded: Sequence[BlackBox]) -> None:
    """See that no two of many models are one, fed alike: it would have two votes. Of two, one may try this out."""
    seen: list[tuple[str, Any, ModelSpec, BlackBox]] = []
    for role, model, spec, box in zip(roles(loaded), given, specs, loaded, strict=True):
        spec = replace(spec, path=None)
        for before, other, fed, twin in seen:
            if (model is other or (box.digest is not None and box.digest == twin.digest)) and spec == fed:
                raise UserError(
                    f"Models {before} ({twin.name}) and {role} ({box.name}) are one and the same, which would count "
                    "twice; leave one of them out."
                )
        seen.append((role, model, spec, box))


def load_spec(model: Any, spec: ModelSpec, *, device: torch.device, batch_size: int, sidecar: bool = True) -> BlackBox:
    """One model as its settings say; see :func:`diffgen.models.load`."""
    file = spec.class_names_file
    return load_model(
        model,
        device=device,
        batch_size=batch_size,
        preprocessing=spec.preprocessing,
        arch=spec.opening.arch,
        weights=spec.opening.weights,
        allow_pickle=spec.opening.allow_pickle,
        class_names=spec.class_names or (() if file is None else read_class_names(file)),
        class_order=spec.class_order,
        sidecar=sidecar,
        remote=spec.opening.remote,
        **isolation(spec.opening),
    )


class Isolation(TypedDict):
    """What :func:`diffgen.models.load` is told about a model's own process."""

    isolate: Isolate
    model_timeout: float


def isolation(opening: Opening) -> Isolation:
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


def _check_arch_is_used(models: Sequence[BlackBox], given: Sequence[str | None]) -> None:
    used = {model.arch for model in models}
    # --arch is said of all models, and may be meant for one of them
    idle = [(model, arch) for model, arch in zip(models, given, strict=True) if arch is not None and arch not in used]
    if idle:
        names = " and ".join(dict.fromkeys(model.name for model, _ in idle))
        raise UserError(
            f"--arch {idle[0][1]} builds the network for a file with weights alone (a state_dict), but what was given "
            f"has its own network ({names}); leave --arch out, or give the weights."
        )


def match_classes(
    models: Sequence[BlackBox], specs: Sequence[ModelSpec], class_names: Sequence[str] | None = None
) -> None:
    """Put the classes of each model that has a label map into the order of the first one's. All must be prepared.

    Args:
        models: with the same number of classes.
        class_names: those of the data, for a model that has no names of its own.

    Raises:
        UserError: see :func:`diffgen.models.class_names.read_label_map`; or the first model has a label map.
    """
    if panel_of(models) is not None:
        if any(spec.label_map is not None for spec in specs):
            raise UserError(
                "Classes of objects and pixels are matched by name; leave the label map out, and call them alike with "
                "--class-names, or --a-class-names and --b-class-names."
            )
        return
    first, names = models[0], tuple(class_names or ())
    if specs and specs[0].label_map is not None:
        raise UserError("The first model has a label map, but the others are mapped onto it; give it to one of those.")
    for model, spec in zip(models[1:], specs[1:], strict=False):
        if spec.label_map is not None:
            own = model.own_class_names or names
            model.map_classes(read_label_map(spec.label_map, first.num_classes, first.class_names or names, own))


def recorded(models: Sequence[BlackBox], specs: Sequence[ModelSpec]) -> tuple[ModelSpec, ...]:
    """Everything that was found out about the models, so that nothing is guessed again."""

    def of(model: BlackBox, said: ModelSpec) -> ModelSpec:
        opening = Opening(
            remote=said.opening.remote,
            arch=model.arch,
            weights=said.opening.weights,
            allow_pickle=model.unpickled,
            model_timeout=said.opening.model_timeout,
        )
        return ModelSpec(
            path=place_of(model),
            preprocessing=model.preprocessing,
            opening=opening,
            class_names=model.own_class_names,
            class_order=model.class_order,
            label_map=said.label_map,
        )

    return tuple(of(model, said) for model, said in zip(models, specs, strict=True))


def place_of(model: BlackBox) -> str | None:
    """The file or address of a model, or None: it is a Python object."""
    return model.url if model.path is None else str(Path(model.path).absolute())


@dataclass(frozen=True)
class StoredModel:
    """A model of a run: what the run says of it, and what the user allows now."""

    folder: RunFolder
    role: str
    before: ModelSpec
    consent: ModelSpec

    @property
    def title(self) -> str:
        """How sentences call it."""
        return f"Model {self.role} of the run {self.folder.path}"

    def option(self, name: str) -> str:
        """The option that is said of this model alone."""
        return f"--{self.role.lower()}-{name}"


def stored_model(
    about: StoredModel, given: Any, *, device: torch.device, batch_size: int, looks_anew: bool
) -> BlackBox:
    """A model of a run; see :meth:`diffgen.comparison.opened_run.OpenedRun.models`. UserError as there."""
    folder, before, consent = about.folder, about.before, about.consent
    entry = folder.manifest["files"][about.role]
    if given is None and entry["path"] is None:
        raise UserError(f"{about.title} was a Python object; give it again.")
    preprocessing = before.preprocessing
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
        if remote and given is None and not consent.opening.allow_remote:
            raise UserError(
                f"{about.title} is asked at {model}, which sends pictures there; add {about.option('allow-remote')} to "
                "allow it again."
            )
        _check_consent(about)
        preprocessing = consent.preprocessing.over(preprocessing)
    elif is_file:
        # another file: what was found out about the old one's layout and answers says nothing about it
        usual = replace(preprocessing, layout="auto", outputs="auto", output="", background="auto", head="auto")
        preprocessing = consent.preprocessing.over(read_sidecar(expanded(model)).preprocessing).over(usual)
    opening = consent.opening
    spec = ModelSpec(
        preprocessing=preprocessing,
        # whether it is isolated is nothing that the folder may say
        opening=replace(
            opening,
            model_timeout=opening.model_timeout or before.opening.model_timeout,
            weights=opening.weights or (before.opening.weights if same else None),
            remote=opening.remote.over(replace(before.opening.remote, auth_env=None)) if same else opening.remote,
        ),
        class_names=before.class_names if same else (),
        class_order=before.class_order,
    )
    opened = load_spec(model, spec, device=device, batch_size=batch_size, sidecar=not same)
    if same and remote and opened.digest != entry["sha256"]:
        raise UserError(
            f"The server of {entry['path']} says other things of its model than in the run {folder.path}, which was "
            "made with another version of it; load that one, or start a new run."
        )
    asked_alone = folder.manifest.get("asked_alone")
    if same and not looks_anew and isinstance(asked_alone, list) and about.role in asked_alone:
        opened.ask_alone()
    return opened


def resume_command(folder: RunFolder, config: CompareConfig) -> str:
    """What goes on with a run or a check that broke off: a command, or a call in Python that is given objects again.

    A command has the options that allow it again to ask models at an address.
    """
    is_check, letters = "check" in folder.manifest, roles(config.models).lower()
    remote = [spec.path is not None and is_address(spec.path) for spec in config.models]
    objects = ["None" if spec.path else f"model_{role}" for role, spec in zip(letters, config.models, strict=True)]
    given = objects if any(each != "None" for each in objects) else []
    if folder.manifest["data"]["path"] is None:
        given.append("data=images")
    for kind, names in folder.manifest.get("extensions", {}).items():
        own = [name.split(":")[1].rpartition(".")[2] for name in several(names) if is_object(name)]
        if own:
            given.append(f"{kind}={own[0] if isinstance(names, str) else '[' + ', '.join(own) + ']'}")
    if given:
        call = [f'"{folder.path}"', *given, *(["options=options"] if any(remote) else [])]
        return f"diffgen.{'resume_check' if is_check else 'resume'}({', '.join(call)})"
    words = [f"diffgen {'check' if is_check else 'compare'} --resume {shlex.quote(str(folder.path))}"]
    for role, spec, asked in zip(letters, config.models, remote, strict=True):
        if asked:
            variable = spec.opening.remote.auth_env
            words.append(f"--{role}-allow-remote" + (f" --{role}-auth-env {variable}" if variable else ""))
    return " ".join(words)


def _check_consent(about: StoredModel) -> None:
    before, consent = about.before.opening, about.consent.opening
    if before.arch is not None and consent.arch is None:
        raise UserError(
            f"{about.title} was built by --arch {before.arch}, which runs that code; add "
            f"{about.option('arch')} {before.arch} to allow it again."
        )
    variable = before.remote.auth_env
    if variable is not None and consent.remote.auth_env is None:
        raise UserError(
            f"{about.title} was asked with the Authorization header in {variable}, which goes to the address in that "
            f"run; add {about.option('auth-env')} {variable} to send it there again."
        )
    if before.allow_pickle and not consent.allow_pickle:
        raise UserError(
            f"{about.title} was opened with --allow-pickle, which may run any code; add "
            f"{about.option('allow-pickle')} to open it again."
        )
