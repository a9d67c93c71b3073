"""``diffgen train-gan``: train, tune and score the GAN of a data set."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import options
from diffgen.cli.settings_options import Options
from diffgen.config import CompareConfig, GanConfig, SettingError, TrainGanConfig, applied, replace
from diffgen.config.layers import merged, nested
from diffgen.config.schema import every_setting
from diffgen.errors import UserError
from diffgen.wording import percent

if TYPE_CHECKING:
    from diffgen.workflows.train_gan import TrainGanResult

_EXAMPLES = """\
diffgen train-gan t10k/                                for compare --data t10k/ --source gan
diffgen train-gan t10k/ --tune 12                      search for its settings, 12 trainings
diffgen train-gan t10k/ --tune 40 --workers 4          four trainings at once
diffgen train-gan t10k/ --tune 40 --storage study.log  in several terminals at once
diffgen train-gan t10k/ --preset paper --tune 12       for compare --data t10k/ --preset paper
diffgen train-gan t10k/ --quick --output gan.safetensors
"""
_MORE = """\
Tuning that was broken off goes on with the same command. The GAN lies in the cache; compare with --gan
or --source gan finds it there by data, GAN schedule and GAN seed, and the tuned one takes the place of the untuned one.
"""

_READING = ("resize", "fit", "skip_broken", "exif")
# settings that compare sets with options of other names
_OPTIONS = {"gan.steps": "--steps", "gan.seed": "--seed", "tuning.trials": "--tune", "draws": "--draws"}


def add_parser(verbs: Any) -> None:
    defaults = TrainGanConfig()
    parser = verbs.add_parser(
        "train-gan",
        help="train, tune and score the GAN of a data set",
        description="Train the GAN of a data set, or search for its settings, and write its report.",
        examples=_EXAMPLES,
        epilog=_MORE,
    )
    parser.add_argument("data", nargs="?", metavar="DATA", help="real images, as for compare; better with labels")
    of = Options(parser, TrainGanConfig)
    of.add(parser, [each for each in every_setting(TrainGanConfig) if each.key in _READING])
    parser.add_argument("-o", "--output", metavar="FILE", help="also write the GAN to this file, its page beside it")
    parser.add_argument("--anew", action="store_true", help="train again, although this GAN exists already")
    parser.add_argument("--force", action="store_true", help="replace FILE and its page")
    training = parser.add_argument_group("training")
    long = training.add_mutually_exclusive_group()
    long.add_argument("--quick", action="store_true", help="two minutes, not four, for 10,000 images of 28 pixels")
    long.add_argument("--thorough", action="store_true", help="some twenty minutes for as many")
    training.add_argument(
        "--preset",
        metavar="NAME",
        help="the GAN that 'compare --preset NAME' searches (default: the usual one)",
    )
    training.add_argument("--steps", type=int, metavar="N", help="number of updates (default: by schedule and size)")
    training.add_argument("--seed", type=int, metavar="N", help=f"seed (default: {defaults.gan.seed})")
    training.add_argument(
        "--draws", type=int, metavar="N", help=f"how many times the finished GAN is scored (default: {defaults.draws})"
    )
    training.add_argument(
        "--features",
        choices=("domain", "inception", "vgg16"),
        metavar="NAME",
        help="compare images by inception or vgg16 (default: domain, an encoder of them)",
    )
    training.add_argument(
        "--features-weights", metavar="FILE", help="weights of inception or vgg16 (default: torchvision's)"
    )
    tuning = parser.add_argument_group("tuning")
    tuning.add_argument("--tune", type=int, metavar="N", help="search for the settings until there are N trials")
    tuning.add_argument(
        "--tune-seconds", type=float, metavar="S", help="begin no trial after S seconds, and end the one that runs"
    )
    tuning.add_argument(
        "--storage", metavar="FILE|URL", help="journal file or database of the study (default: in the cache)"
    )
    tuning.add_argument(
        "--workers", type=int, default=1, metavar="N", help="trials at once, each in a process of its own (default: 1)"
    )
    parser.add_argument(
        "--device", default="auto", metavar="auto|cpu|cuda|mps", help="default: a GPU when there is one"
    )
    of.rare(options.add_talk(parser))
    parser.set_defaults(options=of)


def config_from(arguments: argparse.Namespace) -> TrainGanConfig:
    """The settings that the options name. UserError for a value that cannot be, or options that do not go together."""
    for option in ("storage", "tune_seconds"):
        if getattr(arguments, option) is not None and arguments.tune is None:
            name = f"--{option.replace('_', '-')}"
            raise UserError(f"{name} is for tuning only; add --tune with the number of trials, or leave {name} out.")
    if arguments.force and arguments.output is None:
        raise UserError("There is no file that --force could replace; name it with -o, or train again with --anew.")
    if arguments.tune is not None and arguments.tune < 1:
        raise UserError(f"Tuning with {arguments.tune} trials tries nothing; give --tune a number such as 12.")
    said = {
        "gan.schedule": "quick" if arguments.quick else "thorough" if arguments.thorough else None,
        "gan.steps": arguments.steps,
        "gan.seed": arguments.seed,
        "tuning.trials": arguments.tune,
        "tuning.storage": arguments.storage,
        "tuning.seconds": arguments.tune_seconds,
        **{name: getattr(arguments, name) for name in ("device", "draws", "features", "features_weights", *_READING)},
    }
    given = nested({key: value for key, value in said.items() if value is not None})
    try:
        return applied(
            TrainGanConfig(gan=_gan_of(arguments.preset)), merged(given, arguments.options.layer(arguments, ()))
        )
    except SettingError as error:
        raise error.under(_OPTIONS) from None


def _gan_of(preset_name: str | None) -> GanConfig:
    """The GAN that a preset of the usual technique searches."""
    if preset_name is None:
        return GanConfig()
    from diffgen.techniques import preset  # torch is imported only where it is needed

    return replace(GanConfig(), **preset(CompareConfig().technique, preset_name).gan)


def run(arguments: argparse.Namespace) -> int:
    """Train, print readings and scores, say where the report is."""
    if arguments.data is None:
        raise UserError("The real images are missing; name them (a folder, a zip, or 'digits').")
    config = config_from(arguments)
    result = api.train_gan(
        arguments.data,
        config=config,
        output=arguments.output,
        anew=arguments.anew,
        force=arguments.force,
        workers=arguments.workers,
        **options.events(arguments),
    )
    _print(result, config, arguments.preset)
    return options.finish(arguments, result)


def _print(result: TrainGanResult, config: TrainGanConfig, preset_name: str | None) -> None:
    if result.readings:
        print(f"{'updates':>8}  {'recognised':>10}  {'covered':>8}  {'worst class':>11}  {'distance':>8}")
    for each in result.readings:
        kept = "  kept" if each["step"] == result.kept_step else ""
        print(
            f"{each['step']:>8,.0f}  {percent(each['recognised']):>10}  {percent(each['covered']):>8}  "
            f"{percent(each['least_covered']):>11}  {percent(each['distance']):>8}{kept}"
        )
    scores = result.scores
    print(f"FID {scores['fid']:.3f}  KID {scores['kid']:.5f}", end="  ")
    print("  ".join(f"{name} {scores[name]:.3f}" for name in ("precision", "recall", "density", "coverage")))
    if result.tuning is not None:
        study = result.tuning
        print(
            f"trials: {study['trials']}, pruned {study['pruned']}, failed {study['failed']}, best {study['best'] + 1}"
        )
        for name, value in study["settings"].items():
            print(f"  {name} = {value:.4g}" if isinstance(value, float) else f"  {name} = {value}")
    print(f"GAN: {result.gan}" + (f" and {result.copy}" if result.copy else ""))
    print(f"compare has it with {_words_for_compare(config.gan, preset_name)}")
    print(f"report: {result.report}", flush=True)


def _words_for_compare(gan: GanConfig, preset_name: str | None) -> str:
    """The options of compare that ask for this GAN."""
    usual, words = _gan_of(preset_name), ["--source gan" if preset_name is None else f"--preset {preset_name}"]
    for each in every_setting(GanConfig):
        value = getattr(gan, each.key.removeprefix("gan."))
        if value != getattr(usual, each.key.removeprefix("gan.")):
            in_toml = str(value).lower() if isinstance(value, bool) else value
            words.append(f"--set {each.key}={in_toml}" if each.option is None else f"{each.option} {value}")
    return " ".join(words)
