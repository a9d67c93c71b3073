"""``diffgen compare``: search for pictures on which two models disagree."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from diffgen.cli import options, table
from diffgen.config import Budget, CompareConfig, FilterConfig, GanConfig, replace
from diffgen.errors import UserError

_EXAMPLES = """\
examples:
  diffgen compare a.pt b.onnx --data t10k/                 a folder of idx files, as MNIST's
  diffgen compare a.pt b.onnx --data val/                  class/picture.png, ...; also a .zip of it
  diffgen compare a.pt b.onnx --data digits --budget 30s   the digits that ship with scikit-learn
  diffgen compare a.pt b.onnx --data val/ --budget 20000q --seed 7 --json -o runs/mine
  diffgen compare --resume runs/mine                       go on with a run that was broken off

Models are TorchScript (.pt) or ONNX files, told apart by their content. The GAN is trained once for a data set and
kept; the next comparison on the same data trains nothing.
"""


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
    parser.add_argument(
        "--data", metavar="D", help="real images: idx(.gz) folder, ImageFolder or a zip of it, or 'digits'"
    )
    parser.add_argument(
        "--budget", default=str(defaults.budget), metavar="60s|20000q", help="of the search (default: %(default)s)"
    )
    parser.add_argument("-o", "--output", metavar="RUN", help="run folder to write (default: a new one under runs/)")
    parser.add_argument("--force", action="store_true", help="replace the run in an output folder that is not empty")
    parser.add_argument("--resume", metavar="RUN", help="go on with a run that was broken off")
    search = parser.add_argument_group("search")
    search.add_argument(
        "--technique", default=defaults.technique, metavar="NAME", help="diffgan (default), random_latent"
    )
    search.add_argument(
        "--preset", default=defaults.preset, metavar="NAME", help="default, or paper: DiffGAN as published"
    )
    search.add_argument("--seed", type=int, default=defaults.seed, metavar="N", help="seed (default: %(default)s)")
    search.add_argument("--gan-steps", type=int, metavar="N", help="updates of the GAN's training (default: by size)")
    search.add_argument(
        "--gan-seed", type=int, default=defaults.gan.seed, metavar="N", help="seed of the GAN's training"
    )
    filters = parser.add_argument_group("validity filters")
    filters.add_argument(
        "--discriminator-threshold", type=float, metavar="X", help="lowest score that passes (default: calibrated)"
    )
    filters.add_argument(
        "--false-alarm",
        type=float,
        default=defaults.filters.false_alarm,
        metavar="X",
        help="share of held-out real images that calibration may reject (default: %(default)s)",
    )
    filters.add_argument(
        "--ssim-threshold",
        type=float,
        default=defaults.filters.ssim_threshold,
        metavar="X",
        help="lowest SSIM with the nearest real image that passes (default: %(default)s, as published)",
    )
    options.add_machine(parser)
    options.add_talk(parser)
    parser.set_defaults(run=run)


def config_from(arguments: argparse.Namespace) -> CompareConfig:
    """The settings that the options name.

    Raises:
        UserError: a value that cannot be.
    """
    if arguments.gan_steps is not None and arguments.gan_steps < 1:
        raise UserError(f"--gan-steps {arguments.gan_steps} trains nothing; give at least 1, or leave it out.")
    if not 0 <= arguments.false_alarm < 1:
        raise UserError(
            f"--false-alarm {arguments.false_alarm} is no share; give a number from 0 to below 1, such as 0.05."
        )
    if not -1 <= arguments.ssim_threshold <= 1:
        raise UserError(
            f"--ssim-threshold {arguments.ssim_threshold} is no SSIM; give a number from -1 to 1, such as 0.4."
        )
    if arguments.seed < 0 or arguments.gan_seed < 0:
        raise UserError("A seed must not be negative; give 0 or more.")
    return replace(
        CompareConfig(),
        budget=Budget.parse(arguments.budget),
        seed=arguments.seed,
        device=arguments.device,
        batch_size=options.batch_size(arguments.batch_size),
        gan=GanConfig(steps=arguments.gan_steps, seed=arguments.gan_seed),
        filters=FilterConfig(
            discriminator_threshold=arguments.discriminator_threshold,
            false_alarm=arguments.false_alarm,
            ssim_threshold=arguments.ssim_threshold,
        ),
    )


def run(arguments: argparse.Namespace) -> int:
    """Compare, print the table, say where the report is."""
    if arguments.resume is None:
        if arguments.model_a is None or arguments.model_b is None:
            missing = "the second model is" if arguments.model_a is not None else "both models are"
            raise UserError(
                f"A comparison needs two models but {missing} missing; write 'diffgen compare A B --data D'."
            )
        if arguments.data is None:
            raise UserError("The real images are missing; name them with --data (a folder, a zip, or 'digits').")
    config = config_from(arguments)
    progress = options.make_progress(arguments)
    # torch and pymoo are imported only now: wrong usage and --help answer at once
    from diffgen.workflows.compare import compare, resume

    if arguments.resume is not None:
        result = resume(arguments.resume, arguments.model_a, arguments.model_b, data=arguments.data, progress=progress)
    else:
        result = compare(
            arguments.model_a,
            arguments.model_b,
            data=arguments.data,
            technique=arguments.technique,
            preset=arguments.preset,
            config=config,
            output=arguments.output,
            force=arguments.force,
            progress=progress,
            command=shlex.join(["diffgen", *sys.argv[1:]]),
        )
    table.print_result(result)
    if arguments.json:
        options.print_json(result.as_dict())
    return 130 if result.interrupted else 0
