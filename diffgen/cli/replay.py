"""``diffgen replay``: ask the models again about what a run found."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.config import roles
from diffgen.errors import UserError
from diffgen.wording import percent

if TYPE_CHECKING:
    from diffgen.workflows.replay import ReplayResult

_EXAMPLES = """\
diffgen replay runs/mine                       the run's own models
diffgen replay runs/mine new_a.onnx new_b.onnx other models, after a fix say
diffgen replay runs/mine --trigger 17          about one of them
diffgen replay runs/mine --images              only the PNG files in runs/mine/images
"""
_LOST_SHOWN = 20


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "replay",
        help="ask the models again about what a run found",
        description="Ask the models again about the triggers of a run, and say which still trigger.",
        examples=_EXAMPLES,
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote")
    parser.add_argument("models", nargs="*", metavar="MODEL", help="other models, all of them (default: the run's)")
    parser.add_argument("--images", action="store_true", help="read the saved PNG files instead of the stored arrays")
    options.add_triggers(parser, "ask about this one alone")
    options.add_device(parser)
    model_options.add_last(parser)


def run(arguments: argparse.Namespace) -> int:
    """Replay and print what still triggers."""
    if len(arguments.models) == 1:
        raise UserError("The second model is missing; name both models, or none to ask those of the run.")
    result = api.replay(
        arguments.run_folder,
        *arguments.models,
        images_only=arguments.images,
        triggers=arguments.triggers,
        device=arguments.device,
        options=model_options.specs_of_run(arguments, arguments.run_folder),
        **options.events(arguments),
    )
    print_result(result)
    return options.finish(arguments, result)


def print_result(result: ReplayResult) -> None:
    """What still triggers, who is wrong, and on what the models agree now, on stdout."""
    from diffgen.tasks.classification import who_is_wrong

    share = f" ({percent(result.reproduced / result.replayed, 2)})" if result.replayed else ""
    print(f"{result.reproduced:,} of {result.replayed:,} triggers still trigger{share}.")
    print(f"{result.same_labels:,} of them with the same labels as before.")
    models = sum(len(verdict) == 1 for verdict in result.faults or ())
    for verdict, (before, now) in (result.faults or {}).items():
        if before or now:
            wrong = who_is_wrong(verdict, models)
            print(f"Of the distinct ones that the jury recognised, {wrong} on {now:,}; it was {before:,}.")
    for labels in result.said_again or ():
        said = ", ".join(f"{role} {label}" for role, label in zip(roles(labels), labels, strict=True))
        print(f"Now they say: {said}.")
    if result.lost:
        print("The models agree now on these, of which they said before:")
        for number, labels in list(zip(result.lost, result.lost_labels, strict=True))[:_LOST_SHOWN]:
            said = ", ".join(f"{role} {label}" for role, label in zip(roles(labels), labels, strict=True))
            print(f"  trigger {number}: {said}")
        if len(result.lost) > _LOST_SHOWN:
            print(f"  and {len(result.lost) - _LOST_SHOWN:,} more")
