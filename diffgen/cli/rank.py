"""``diffgen rank``: which model is better, and which few pictures to label to know it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.errors import UserError
from diffgen.wording import percent

if TYPE_CHECKING:
    from diffgen.workflows.rank import RankResult

_EXAMPLES = """\
diffgen rank runs/mine                              by what the search found and the jury knew
diffgen rank runs/mine --export sheet --count 100   the real images whose labels tell most
diffgen rank runs/mine --export sheet --data new/   among images that the run has not seen
diffgen rank runs/mine --import sheet/labels.csv    the order by these labels, with intervals
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "rank",
        help="put the models of a run in order, by faults or by a few labels",
        description="Put the models of a run in order: by their faults among what the search found and the jury "
        "recognised, or by labels of a short list of real images on which they differ.",
        examples=_EXAMPLES,
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--export", metavar="FOLDER", help="write a short list to label into a new folder")
    action.add_argument(
        "--import", dest="sheets", metavar="CSV", nargs="+", help="filled-in sheets, one for each person"
    )
    parser.add_argument(
        "--count", type=int, metavar="N", help="with --export: maximum number of pictures (default: 100)"
    )
    parser.add_argument("--data", metavar="D", help="with --export: real images to rank on (default: the run's)")
    parser.add_argument("--partial", action="store_true", help="with --import: some pictures may have no label")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    options.add_device(parser, "with --export; default: the run's")
    model_options.add_last(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the short list, or print the order."""
    if arguments.export is None and (arguments.count is not None or arguments.data is not None):
        raise UserError("--count and --data go with --export; leave them out.")
    if arguments.partial and not arguments.sheets:
        raise UserError("--partial goes with --import; leave it out.")
    if arguments.seed < 0:
        raise UserError(f"The seed is {arguments.seed}; give a number from 0.")
    if arguments.export is not None:
        from diffgen.workflows.rank_export import COUNT

        written = api.rank_export(
            arguments.run_folder,
            arguments.export,
            count=COUNT if arguments.count is None else arguments.count,
            data=arguments.data,
            options=model_options.specs_of_run(arguments, arguments.run_folder),
            device=arguments.device,
            seed=arguments.seed,
            **options.events(arguments),
        )
        print(
            f"{written.pictures:,} of the {written.disagreements:,} real images on which models differ (of "
            f"{written.images:,}): {written.folder}/label.html"
        )
        print("Open that page in a browser, or fill in labels.csv; then 'diffgen rank RUN --import' it.")
        values = written.as_dict()
    else:
        result = api.rank(
            arguments.run_folder, sheets=arguments.sheets or (), partial=arguments.partial, seed=arguments.seed
        )
        _print(result)
        values = result.as_dict()
    return options.finish(arguments, values)


def _print(result: RankResult) -> None:
    """The order, then how sure each step of it is."""
    if result.basis == "faults":
        print(f"by {result.pictures:,} pictures that the search found and the jury recognised, on each of which models")
        print("differ; nobody drew them at random, so that this is an order of what was met:")
    else:
        print(f"by {result.pictures:,} labels, for the {result.of:,} of {result.images:,} real images on which models")
        print("differ:")
    width = max(len(model.name) for model in result.models)
    for place, model in enumerate(result.models, start=1):
        interval = f"[{percent(model.low)}, {percent(model.high)}]"
        print(f"{place:>2}  {model.role}  {model.name:<{width}}  right on {percent(model.right)}  {interval}")
    for each in result.neighbours:
        some = ", ".join(each.pictures[:3])
        print(
            f"{each.above} before {each.below}: in {percent(each.sure, 0)} of the draws; {each.only_above:,} pictures "
            f"for it, {each.only_below:,} against it{f' ({some}, ...)' if some else ''}"
        )
