"""``diffgen select``: train the model that knows which model to trust."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.cli.settings_options import add_settings, settings_from
from diffgen.config import SelectorConfig, roles
from diffgen.wording import count_of, labelled_by

if TYPE_CHECKING:
    from diffgen.selector.evaluation import Evaluation, OnRealImages
    from diffgen.workflows.select import SelectResult

_EXAMPLES = """\
diffgen select runs/mine                              after 'diffgen label runs/mine ...'
diffgen select runs/mine --labels jury                where nobody labelled anything
diffgen select runs/mine --data more/test             judge it on these real images too
diffgen select runs/mine --features vgg16 --features-weights vgg16-397923af.pth
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "select",
        help="train a selector: which model to trust, from the picture alone",
        description="Train a random forest on the labelled triggers of a run. It tells from a picture which of the two "
        "models is right. Writes selector.onnx into the run and draws the report again.",
        examples=_EXAMPLES,
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote, with labels")
    parser.add_argument("--data", metavar="D", help="labelled real images that the run has not seen, to judge it on")
    add_settings(parser, SelectorConfig)
    parser.add_argument("--force", action="store_true", help="replace the selector of the run")
    options.add_device(parser)
    model_options.add_last(parser)


def run(arguments: argparse.Namespace) -> int:
    """Train, and print what the selector is worth."""
    result = api.select(
        arguments.run_folder,
        config=settings_from(arguments, SelectorConfig),
        data=arguments.data,
        options=model_options.specs_of_run(arguments, arguments.run_folder),
        device=arguments.device,
        force=arguments.force,
        **options.events(arguments),
    )
    _print(result)
    return options.finish(arguments, result)


def _print(result: SelectResult) -> None:
    wrong = f"{result.both_wrong:,} {'both' if len(result.cost.models) == 2 else 'all'} wrong"
    told = labelled_by(result.sources)
    print(f"learnt from {result.examples:,} labelled triggers ({told}; {result.features}); {wrong}")
    print(f"{'division':<16}{'accuracy':>10}{'balanced':>10}{'majority':>10}{'regret':>10}{'gain':>10}  95 %")
    for each in result.on_triggers:
        print(_row(each))
    for real in result.real:
        _print_real(real, len(result.cost.models))
    cost = result.cost
    times = ", ".join(f"{role} {of:.3f}" for role, of in zip(roles(cost.models), cost.models, strict=True))
    saved = f"saves {cost.saved:.0%}" if cost.saved > 0 else f"costs {-cost.saved:.0%} more"
    print(
        f"ms an image: {times}, selector {cost.selector:.3f}; "
        f"selector and one model instead of {'both' if len(cost.models) == 2 else 'all'} {saved}"
    )
    print(f"selector: {result.selector}")


def _row(each: Evaluation) -> str:
    balanced = interval = ""
    if each.balanced_accuracy is not None and each.balanced_interval is not None:
        balanced, interval = f"{each.balanced_accuracy:.3f}", "  [{:.3f}, {:.3f}]".format(*each.balanced_interval)
    figures = (f"{each.accuracy:.3f}", balanced, f"{each.majority:.3f}", f"{each.regret:.3f}", f"{each.gain:+.3f}")
    return f"{each.name:<16}" + "".join(f"{figure:>10}" for figure in figures) + interval


def _print_real(real: OnRealImages, models: int) -> None:
    from diffgen.tasks.classification import those

    print(f"real images ({real.source}): {real.images:,}, {those(models)} differ on {real.disagreements:,}")
    if real.left_out:
        finds = count_of(real.left_out, "find")
        print(f"  judged here after learning without {finds} made from these images or like those")
    for name, shares in (("all", real.on_all), ("where they differ", real.on_disagreements)):
        if shares:
            print(f"  right, {name}: " + ", ".join(f"{rule} {share:.4f}" for rule, share in shares.items()))
