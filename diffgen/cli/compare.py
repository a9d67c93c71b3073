"""``diffgen compare``: search for pictures on which two models disagree."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from diffgen import api
from diffgen.cli import config_file, model_options, options, table
from diffgen.cli.config_file import ConfigFile
from diffgen.config import FILTER_PRESETS, FILTERS, Budget, CompareConfig, SearchConfig, replace
from diffgen.errors import UserError
from diffgen.events import Progress

_EXAMPLES = """\
examples:
  diffgen compare a.pt b.onnx --data t10k/                 a folder of idx files, as MNIST's
  diffgen compare a.pt b.onnx --data val/                  class/picture.png, ...; also a .zip of it
  diffgen compare a.pt b.onnx --data photos/ --resize 64   pictures of any size, brought to 64x64
  diffgen compare a.pt b.onnx --data torchvision:CIFAR10   fetched on first use; also .npz and .parquet files
  diffgen compare a.pt b.onnx --data digits --budget 30s   the digits that ship with scikit-learn
  diffgen compare a.pt b.onnx --data val/ --budget 20000q --seed 7 --json -o runs/mine
  diffgen compare --resume runs/mine                       go on with a run that was broken off
  diffgen compare a.pt b.onnx --data val/ --generator g.onnx --latent-dim 128   pictures from a network of your own
  diffgen compare a.pt b.onnx --data val/ --print-config > mine.toml
  diffgen compare --config mine.toml --seed 8              the same settings, but another seed

Models are TorchScript, torch.export (.pt2), ONNX, Keras (.keras, .h5) or TensorFlow Lite files, or weights with
--arch, told apart by their content; 'diffgen inspect' finds out how one wants to be fed. The GAN is trained once for a
data set and kept; the next comparison on the same data trains nothing.
"""


_TECHNIQUE_HELP = (
    "diffgan (default); random_latent: drawn at random by the generator; real_data: the real images, transformed; "
    "drfuzz: mutants of what both models get right, needs labels; dflare: mutants of what both models agree on"
)


def add_parser(verbs: Any) -> None:
    """Add this verb to the parser."""
    defaults = CompareConfig()
    parser = verbs.add_parser(
        "compare",
        help="search for pictures on which two models disagree",
        description="Search for realistic pictures on which two image classifiers disagree, and write a report.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model_a", nargs="?", metavar="A", help="the first model's file")
    parser.add_argument("model_b", nargs="?", metavar="B", help="the second model's file")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was broken off")
    add_options(parser, defaults)
    parser.set_defaults(run=run, parser=parser)


def add_options(parser: argparse.ArgumentParser, defaults: CompareConfig) -> None:
    """Everything about data, search, generator, filters and models: what ``check`` has too."""
    parser.add_argument(
        "--data",
        metavar="D",
        help="real images: idx(.gz) folder, ImageFolder or a zip of it, .npz, .parquet, torchvision:NAME, or 'digits'",
    )
    parser.add_argument(
        "--resize",
        type=int,
        metavar="N",
        help="bring images of any size to NxN pixels (28, 32 or 64): the largest square in the middle, scaled",
    )
    parser.add_argument(
        "--budget",
        metavar="60s|20000q",
        help=f"search budget, in time or in queries (default: {defaults.budget})",
    )
    parser.add_argument("-o", "--output", metavar="RUN", help="run folder to write (default: a new one under runs/)")
    parser.add_argument("--force", action="store_true", help="replace the run in an output folder that is not empty")
    parser.add_argument("--config", metavar="FILE", help="settings from a TOML file; options go before them")
    parser.add_argument("--print-config", action="store_true", help="print all settings as such a file, and end")
    search = parser.add_argument_group("search")
    search.add_argument("--technique", metavar="NAME", help=_TECHNIQUE_HELP)
    search.add_argument("--preset", metavar="NAME", help="default, or paper: DiffGAN as published")
    for name, kind, about in _CHOICES:
        allowed = get_args(get_type_hints(kind)[name])
        default = getattr(kind(), name)
        search.add_argument(
            f"--{name}", choices=allowed, metavar="|".join(allowed), help=f"{about} (default: {default})"
        )
    search.add_argument("--seed", type=int, metavar="N", help=f"seed (default: {defaults.seed})")
    search.add_argument(
        "--gan-schedule",
        choices=("quick", "default", "thorough"),
        help="how long the GAN is trained; for 10,000 images of 28 pixels some 1, 5 (default) or 15 minutes",
    )
    search.add_argument("--gan-steps", type=int, metavar="N", help="updates of the GAN's training (default: by size)")
    search.add_argument(
        "--gan-seed", type=int, metavar="N", help=f"seed of the GAN's training (default: {defaults.gan.seed})"
    )
    search.add_argument(
        "--gan",
        dest="gan_file",
        metavar="FILE",
        help="a GAN that 'diffgen train-gan DATA --output FILE' made, so that none is trained",
    )
    generator = parser.add_argument_group("a generator of your own, in place of the GAN")
    generator.add_argument(
        "--generator",
        dest="generator_file",
        metavar="FILE",
        help="TorchScript, torch.export or ONNX file: latent vectors (N, D) or (N, D, 1, 1) to images like the data's",
    )
    generator.add_argument("--latent-dim", type=int, metavar="D", help="length of its latent vector")
    generator.add_argument("--prior", metavar="normal|uniform", help="N(0, 1) (default) or U(-1, 1)")
    generator.add_argument(
        "--generator-pixels", metavar="R", help="range of what it gives: -1..1, 0..1 or 0..255 (default: found out)"
    )
    generator.add_argument(
        "--discriminator",
        metavar="FILE",
        help="such a file: images of that range to one score each (default: no discriminator filter)",
    )
    filters = parser.add_argument_group("validity filters")
    filters.add_argument(
        "--filters",
        dest="filter_chain",
        metavar="NAME[,NAME]",
        help="default, paper (discriminator and SSIM 0.4, as published), none, or a list out of "
        f"{', '.join(FILTERS)} (default: {', '.join(defaults.filters.names)})",
    )
    filters.add_argument(
        "--false-alarm-rate",
        type=float,
        metavar="X",
        help="share of held-out real images that all filters together may reject; sets the thresholds "
        f"(default: {defaults.filters.false_alarm})",
    )
    filters.add_argument(
        "--validity",
        choices=("auto", "post", "constraint", "objective"),
        help="ask the filters only after the search (post), or in it too, as a constraint or a third objective "
        "(diffgan only; default: constraint where the technique can)",
    )
    for name in FILTERS:
        filters.add_argument(
            f"--{name}-threshold", type=float, metavar="X", help=f"lowest {name} score that passes (default: found)"
        )
    model_options.add_model_options(parser)
    options.add_machine(parser, default=None)
    options.add_talk(parser)


# settings with few values that have options of their own; all others are in the configuration file
_CHOICES: tuple[tuple[str, type[Any], str], ...] = (
    ("divergence", SearchConfig, "how far apart two answers are"),
    ("diversity", SearchConfig, "what pictures are compared by"),
    ("objectives", SearchConfig, "search for both, or for one of them alone"),
    ("reducer", SearchConfig, "what shortens pictures before they are clustered"),
    ("until", CompareConfig, "saturated: end sooner, when nothing new is found any more"),
)
# options that are settings under another name; those with the name of a setting need no line here
_SETTINGS = {
    "gan_schedule": "gan.schedule",
    "divergence": "search.divergence",
    "diversity": "search.diversity",
    "objectives": "search.objectives",
    "reducer": "search.reducer",
    "gan_steps": "gan.steps",
    "gan_seed": "gan.seed",
    "generator_file": "generator.file",
    "latent_dim": "generator.latent_dim",
    "prior": "generator.prior",
    "generator_pixels": "generator.pixels",
    "discriminator": "generator.discriminator",
    "false_alarm_rate": "filters.false_alarm",
    "validity": "search.validity",
    **{f"{name}_threshold": f"filters.{name}_threshold" for name in FILTERS},
}


def config_from(
    arguments: argparse.Namespace, file: ConfigFile, progress: Progress, defaults: CompareConfig | None = None
) -> tuple[CompareConfig, CompareConfig]:
    """The settings that options and configuration file name, and what they would be if neither named any.

    A preset that an option names brings its whole search; what the file says of the search is then left out. What it
    brings for the GAN is a default like others.

    Raises:
        UserError: a value that cannot be.
    """
    # model_a and model_b are paths here and settings there
    given: dict[str, Any] = {
        f.name: value
        for f in fields(CompareConfig)
        if f.name not in config_file.MODELS and (value := getattr(arguments, f.name, None)) is not None
    }
    if arguments.filter_chain is not None:
        given["filters"] = _filter_chain(arguments.filter_chain)
    for dest, key in _SETTINGS.items():
        if (value := getattr(arguments, dest)) is not None:
            table, _, name = key.partition(".")
            given.setdefault(table, {})[name] = value
    if arguments.budget is not None:
        given["budget"] = Budget.parse(arguments.budget)
    if arguments.batch_size is not None:
        given["batch_size"] = options.batch_size(arguments.batch_size)
    settings = dict(file.settings)
    defaults = defaults or CompareConfig()
    config = config_file.apply(config_file.apply(defaults, settings), given)
    # torch and pymoo are imported only now: wrong usage and --help answer at once
    from diffgen.techniques import preset, preset_gan

    base = replace(
        defaults,
        search=preset(config.technique, config.preset),
        gan=preset_gan(config.technique, config.preset, defaults.gan),
    )
    named = config_file.apply(defaults, settings)
    if "search" in settings and (config.technique, config.preset) != (named.technique, named.preset):
        del settings["search"]
        progress.warn(f"The preset {config.preset} brings its own search; that of the configuration file is left out.")
    config = model_options.apply(arguments, config_file.apply(config_file.apply(base, settings), given))
    return config, base


def _filter_chain(text: str) -> dict[str, Any]:
    """What ``--filters`` settles: the names, and for a preset the thresholds, so that none is left from a file."""
    preset = FILTER_PRESETS.get(text)
    if preset is not None:
        thresholds = [f"{name}_threshold" for name in FILTERS]
        return {"names": preset.names, **{name: getattr(preset, name) for name in thresholds}}
    return {"names": tuple(name.strip() for name in text.split(","))}


def run(arguments: argparse.Namespace) -> int:
    """Compare, print the table, say where the report is."""
    if arguments.resume is not None and arguments.config is not None:
        raise UserError("A run that is resumed keeps the settings that it was started with; leave --config out.")
    progress = options.make_progress(arguments)
    file = ConfigFile()
    if arguments.config is not None:
        file = config_file.read(arguments.config, arguments.parser)
        file.fill(arguments)
    if arguments.resume is None and not arguments.print_config:
        if arguments.model_a is None or arguments.model_b is None:
            missing = "the second model is" if arguments.model_a is not None else "both models are"
            raise UserError(
                f"A comparison needs two models but {missing} missing; write 'diffgen compare A B --data D'."
            )
        if arguments.data is None:
            raise UserError("The real images are missing; name them with --data (a folder, a zip, or 'digits').")
    config, base = config_from(arguments, file, progress)
    if arguments.print_config:
        print(config_file.to_toml(config, base, arguments), end="")
        return 0
    if arguments.resume is not None:
        result = api.resume(
            arguments.resume,
            arguments.model_a,
            arguments.model_b,
            data=arguments.data,
            options=model_options.apply(arguments, CompareConfig()),
            events=progress.listener,
            stop=progress.stop,
        )
    else:
        result = api.compare(
            arguments.model_a,
            arguments.model_b,
            data=arguments.data,
            config=config,
            output=arguments.output,
            force=arguments.force,
            events=progress.listener,
            stop=progress.stop,
            command=shlex.join(["diffgen", *sys.argv[1:]]),
        )
    table.print_result(result)
    if arguments.json:
        options.print_json(result.as_dict())
    return 130 if result.interrupted else 0
