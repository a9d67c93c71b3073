"""``diffgen compare``: search for pictures on which two models or more disagree."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomli_w

from diffgen import api
from diffgen.cli import model_options, options, table
from diffgen.cli.model_options import start_isolation
from diffgen.cli.settings_options import Options
from diffgen.config import MAX_MODELS, CheckConfig, CompareConfig, ModelSpec, applied, replace
from diffgen.config.layers import Layer, filter_chain, located, merged, written
from diffgen.config.schema import Setting, every_setting
from diffgen.errors import UserError

_EXAMPLES = """\
diffgen compare a.pt b.onnx --data val/                 class/picture.png, ...; a zip of it
diffgen compare a.pt b.pt --data photos/ --resize 224   pictures of any size, brought to 224x224
diffgen compare a.pt b.onnx --data val/ --budget 20000q --seed 7 -o runs/mine
diffgen compare a.pt b.onnx --data val/ --preset diffgan   GAN, search, filters, selector
diffgen compare --resume runs/mine                      continue a run that was interrupted
"""
_MORE = """\
Models are TorchScript, torch.export, ONNX, Keras or TensorFlow Lite files, weights with --arch, or a
server's address; 'diffgen inspect' finds out how one wants to be fed.
"""
_QUICK: Layer = {"budget": "10s", "gan": {"schedule": "quick"}}
# what may stand beside --resume, besides what is said of models
BESIDE_RESUME = ("help", "help_all", "resume", "models", "data", "quiet", "verbose", "json", "state_file")


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "compare",
        help="search for pictures on which models disagree",
        description="Search for realistic pictures on which models disagree, and write a report.",
        examples=_EXAMPLES,
        usage="%(prog)s MODEL MODEL [MODEL ...] --data D [options]",
        epilog=_MORE,
    )
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help=f"the models' files, two to {MAX_MODELS}; called A, B, ..."
    )
    parser.add_argument("--resume", metavar="RUN", help="continue a run that was interrupted")
    parser.add_argument("--quick", action="store_true", help="a sketch: 10 s of search, and a GAN of one minute")
    parser.set_defaults(options=add_options(parser, CompareConfig))


def add_options(
    parser: argparse.ArgumentParser,
    kind: Any,
    *more: tuple[str, str, Iterable[Setting]],
    models: int = MAX_MODELS,
) -> Options:
    """Everything about data, search, generator, filters and models: what ``check`` has too.

    Args:
        kind: the class of the verb's settings.
        more: groups of options of that verb alone: title, description and settings.
    """
    of = Options(parser, kind)
    data = parser.add_argument(
        "--data",
        metavar="D",
        help="real images: idx(.gz) folder, ImageFolder or a zip of it, .npz, .parquet, torchvision:NAME, or 'digits'",
    )
    of.shorten(data, "real images: a folder, a zip of it, idx, .npz, .parquet, 'digits'")
    parser.add_argument("-o", "--output", metavar="RUN", help="run folder to write (default: a new one under runs/)")
    parser.add_argument("--force", action="store_true", help="replace the run in an output folder that is not empty")
    parser.add_argument("--config", metavar="FILE", help="read settings from a TOML file; options override it")
    parser.add_argument(
        "--print-config", action="store_true", help="print all settings in the form of such a file, and exit"
    )
    for title, text, settings in more:
        of.add(parser.add_argument_group(title, text), settings)
    usual = CheckConfig().compare if kind is CheckConfig else CompareConfig()  # a check has another budget
    every = [
        replace(each, default=getattr(usual, each.key, each.default))
        for each in every_setting(CompareConfig)
        if not each.key.startswith("models.")
    ]
    groups = {
        "search": parser.add_argument_group("search"),
        "generator": parser.add_argument_group("a generator of your own"),
        "filters": parser.add_argument_group("validity filters"),
    }
    names = groups["search"].add_argument(
        "--filters",
        metavar="NAME[,NAME]",
        help="which pictures are valid: default, paper (discriminator and SSIM 0.4, as published), none, or a list of "
        "filters",
    )
    of.shorten(names, "which pictures are valid: default, paper, none, or a list")
    for title, group in groups.items():
        of.add(group, [each for each in every if (each.key.split(".")[0] if title != "search" else "") == title])
    of.add(groups["search"], [each for each in every if each.key.split(".")[0] not in ("generator", "filters")])
    model_options.add_model_options(of, models=models)
    of.rare(options.add_talk(parser))
    return of


def job_from(arguments: argparse.Namespace, kind: Any) -> Layer:
    """What ``--config`` says of settings; where it names data, output and store, they are put where options are.

    Raises:
        UserError: see :func:`diffgen.comparison.settings_file.read_settings_file`.
    """
    if arguments.config is None:
        return {}
    from diffgen.comparison.settings_file import read_settings_file

    file = read_settings_file(arguments.config, kind)
    for name, value in file.job.items():
        if not hasattr(arguments, name):
            raise UserError(f"In the configuration {arguments.config}, the key {name} is for 'diffgen check' alone.")
        if getattr(arguments, name) is None:
            setattr(arguments, name, value)
    return file.settings


def config_from(
    arguments: argparse.Namespace, file: Layer, said: Layer, defaults: CompareConfig
) -> tuple[CompareConfig, CompareConfig]:
    """The settings that options and a file give, and what they would be if neither said anything.

    The process that isolates models is started on the way, before torch is imported.

    Args:
        arguments: parsed; say what the models are.
        defaults: below everything else.

    Raises:
        UserError: a value that cannot be.
    """
    from diffgen.comparison.settings_file import settle

    if arguments.filters is not None:
        said = merged({"filters": filter_chain(arguments.filters)}, said)
    now = applied(defaults, merged(file, said))
    models = _models(arguments, now.models)
    if not arguments.print_config:
        start_isolation(models, now.device)
    config, base, warning = settle(defaults, file, said)
    if warning:
        arguments.progress.warn(warning)
    return replace(config, models=models), base


def _models(arguments: argparse.Namespace, before: tuple[ModelSpec, ...]) -> tuple[ModelSpec, ...]:
    """The models that a file describes, with what options say of them put over that."""
    given = arguments.models
    if len(given) > MAX_MODELS:
        raise UserError(f"{len(given)} models are given; a comparison takes two to {MAX_MODELS}, so leave some out.")
    if arguments.verb == "check" and len(before) > 2:
        raise UserError(f"A check compares two models, but the configuration names {len(before)}.")
    said = model_options.specs_from(arguments, max(2, len(given), len(before)))
    if not before and not given and all(each == ModelSpec() for each in said):
        return ()
    if before and len(given) > len(before):
        # of what the file describes nobody says which of those that are given it is about
        raise UserError(f"{len(given)} models are given, but the configuration names {len(before)}; describe each.")
    before = before or (ModelSpec(),) * len(said)
    paths = (*given, *(None,) * (len(before) - len(given)))
    return tuple(
        replace(each.over(below), path=path if path is not None else below.path)
        for each, below, path in zip(said, before, paths, strict=True)
    )


def check_given(arguments: argparse.Namespace, config: CompareConfig) -> None:
    """See that there are models and data. UserError if something is missing."""
    paths = [each.path for each in config.models] or [None, None]
    if None in paths:
        missing = "the second model is" if paths[0] is not None else "the first model is"
        missing = "both models are" if paths == [None, None] else missing
        raise UserError(f"A comparison needs two models but {missing} missing; write 'diffgen compare A B --data D'.")
    options.need_data(arguments)


def to_toml(settings: Layer, arguments: argparse.Namespace) -> str:
    """Settings as a file that gives them again wherever it lies: where data, output and store are, and whole paths."""
    from diffgen.comparison.settings_file import data_path

    values: Layer = {}
    if arguments.data is not None:
        values["data"] = data_path(arguments.data, Path())
    if arguments.output is not None:
        values["output"] = str(Path(arguments.output).absolute())
    if getattr(arguments, "store", None) is not None:
        values["store"] = str(Path(arguments.store).absolute())
    return tomli_w.dumps({**values, **located(settings, Path())})


def run(arguments: argparse.Namespace) -> int:
    """Compare, print the table, say where the report is."""
    if arguments.resume is not None:
        arguments.options.refuse_beside_resume(arguments, "A run", BESIDE_RESUME)
        result = api.resume(
            arguments.resume,
            *arguments.models,
            data=arguments.data,
            options=model_options.specs_of_run(arguments, arguments.resume),
            **options.events(arguments),
        )
        return _print(arguments, result)
    file, said = job_from(arguments, CompareConfig), arguments.options.settings(arguments)
    if arguments.quick:
        said = merged(_QUICK, said)
        arguments.progress.warn("This is a sketch (--quick): it shows what a run gives, and its figures say little.")
    config, base = config_from(arguments, file, said, CompareConfig())
    if arguments.print_config:
        print(to_toml(written(config, base), arguments), end="")
        return 0
    check_given(arguments, config)
    return _print(arguments, api.compare(config=config, **job(arguments)))


def job(arguments: argparse.Namespace) -> dict[str, Any]:
    """What ``compare`` and ``check`` are given besides models and settings."""
    return {
        "data": arguments.data,
        "output": arguments.output,
        "force": arguments.force,
        **options.events(arguments),
        "command": shlex.join(["diffgen", *sys.argv[1:]]),
    }


def _print(arguments: argparse.Namespace, result: api.CompareResult) -> int:
    table.print_result(result)
    return options.finish(arguments, result, 130 if result.interrupted else 0)
