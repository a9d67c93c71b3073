"""``diffgen export``: what a run found as plain files, or as a set of labelled pictures to train with."""

from __future__ import annotations

import argparse
from typing import Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.cli.settings_options import add_settings, settings_from
from diffgen.config import TrainingSetConfig
from diffgen.config.schema import every_setting
from diffgen.errors import UserError

_EXAMPLES = """\
diffgen export runs/mine                     valid triggers into runs/mine-export
diffgen export runs/mine -o found --all      also those that a filter rejected
diffgen export runs/mine --dataset finds     all triggers as Parquet: finds/run=mine/*.parquet
diffgen export runs/mine --coco finds        detectors: pictures and boxes as COCO has them
diffgen export runs/mine --to s3://me/runs   report, figures and parts: s3://me/runs/mine
diffgen export runs/mine --issue 17          detectors or maps: pictures, answers, reproduce.py
diffgen export runs/mine --for-training set  set/train/CLASS/*.png and set/test/CLASS/*.png
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "export",
        help="write all pictures of a run, and a table of them",
        description="Write every valid trigger of a run as a PNG, in folders by what A and B say, and a table "
        "(triggers.csv, and triggers.parquet where pyarrow is installed); or, with --for-training, the finds that "
        "people or the jury can name, by class and divided for training and testing.",
        examples=_EXAMPLES,
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="folder to write (default: RUN-export)")
    parser.add_argument("--all", action="store_true", help="also the triggers that a filter rejected")
    parser.add_argument(
        "--for-training", metavar="FOLDER", help="labelled finds as train/CLASS/*.png and test/CLASS/*.png"
    )
    add_settings(parser.add_argument_group("with --for-training"), TrainingSetConfig)
    parser.add_argument(
        "--dataset",
        metavar="FOLDER|URL",
        help="all triggers with their pictures as Parquet, FOLDER/run=NAME/*.parquet; several runs make one data set",
    )
    parser.add_argument(
        "--to",
        metavar="URL",
        help="copy the run itself, report, figures and parts, to an object store: URL/NAME",
    )
    parser.add_argument(
        "--issue",
        type=int,
        metavar="NUMBER",
        help="one find of two detectors, or of maps, as a folder for an issue (default: RUN-issue-NUMBER)",
    )
    parser.add_argument(
        "--coco", metavar="FOLDER", help="finds of detectors with boxes, for COCO's readers or FiftyOne"
    )
    parser.add_argument("--data", metavar="D", help="with --issue, --coco: real images that have moved")
    parser.add_argument("--force", action="store_true", help="replace an earlier export in that folder")
    model_options.add_last(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export, and print where to."""
    takes = {
        "--for-training": (arguments.for_training, "names its own folder, and takes valid triggers alone"),
        "--dataset": (arguments.dataset, "names its own folder, and takes all triggers"),
        "--to": (arguments.to, "names its own place, and copies the whole run"),
        "--issue": (arguments.issue, "takes one find"),
        "--coco": (arguments.coco, "names its own folder, and takes distinct valid triggers alone"),
    }
    named = [(option, what) for option, (place, what) in takes.items() if place is not None]
    if len(named) > 1:
        raise UserError(f"{' and '.join(option for option, _ in named)} write different things; leave one of them out.")
    if named and ((arguments.output is not None and arguments.issue is None) or arguments.all):
        option, what = named[0]
        raise UserError(f"{option} {what}; leave {'--all' if arguments.all else '-o'} out.")
    if arguments.data is not None and arguments.issue is None and arguments.coco is None:
        raise UserError("--data goes with --issue and --coco; leave it out.")
    for each in every_setting(TrainingSetConfig):
        if arguments.for_training is None and getattr(arguments, each.key) is not None:
            raise UserError(f"{each.option} goes with --for-training; leave it out.")
    run, given = arguments.run_folder, {"force": arguments.force, **options.events(arguments)}
    result: Any
    if arguments.for_training is not None:
        config = settings_from(arguments, TrainingSetConfig)
        result = api.export_for_training(run, arguments.for_training, config=config, **given)
        print(
            f"{result.train:,} pictures to train with and {result.test:,} to test on, {result.by_people:,} labelled by "
            f"people and {result.by_jury:,} by the jury: {result.folder}"
        )
    elif arguments.issue is not None:
        specs = model_options.specs_of_run(arguments, run)
        result = api.export_issue(run, arguments.issue, arguments.output, data=arguments.data, options=specs, **given)
        print(f"{result.sentence} {', '.join(result.files)}: {result.folder}")
    elif arguments.coco is not None:
        specs = model_options.specs_of_run(arguments, run)
        result = api.export_coco(run, arguments.coco, data=arguments.data, options=specs, **given)
        print(f"{result.pictures:,} pictures, {result.known:,} with known boxes: {result.folder}")
    elif arguments.dataset is not None:
        result = api.export_dataset(run, arguments.dataset, **given)
        print(f"{result.rows:,} triggers in {result.parts:,} file{'s' if result.parts > 1 else ''}: {result.folder}")
    elif arguments.to is not None:
        result = api.export_to_store(run, arguments.to, **given)
        print(f"{result.files:,} files: {result.url}")
    else:
        result = api.export(run, arguments.output, everything=arguments.all, **given)
        print(f"{result.pictures:,} pictures and {' and '.join(result.tables)}: {result.folder}")
    return options.finish(arguments, result)
