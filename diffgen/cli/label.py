"""``diffgen label``: what the triggers of a run really show."""

from __future__ import annotations

import argparse
from typing import Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.cli.settings_options import add_settings, settings_from
from diffgen.config import LabelConfig
from diffgen.config.schema import every_setting
from diffgen.errors import UserError

_EXAMPLES = """\
diffgen label runs/mine --export sheet                  pictures, a CSV, label.html to label on
diffgen label runs/mine --import ann.csv bob.csv        take filled-in sheets back
diffgen label runs/mine --oracle big.onnx other.onnx    labels on which reference models agree
diffgen label runs/mine --intended                      the classes that a GAN was asked for
diffgen label runs/mine                                 what is labelled so far
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "label",
        help="label what the pictures of a run show",
        description="Label valid triggers: by people, on a blind sheet that shows no model's answer, by reference "
        "models, or by the class that a conditional generator was asked for. Each label keeps its source.",
        examples=_EXAMPLES,
    )
    parser.add_argument("run_folder", metavar="RUN", help="the folder that compare wrote")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--export", metavar="FOLDER", help="write a label sheet into a new folder")
    action.add_argument(
        "--import", dest="sheets", metavar="CSV", nargs="+", help="read filled-in sheets, one for each person"
    )
    action.add_argument(
        "--oracle", metavar="MODEL", nargs="+", help="label by reference models, where all say the same"
    )
    action.add_argument("--intended", action="store_true", help="use the class that the generator was asked for")
    add_settings(parser.add_argument_group("with --export"), LabelConfig)
    parser.add_argument("--partial", action="store_true", help="with --import: some pictures may have no label")
    parser.add_argument(
        "--trust-oracle",
        action="store_true",
        help="with --oracle: take its word also against the known label of the real image that a picture was made from",
    )
    parser.add_argument("--force", action="store_true", help="replace labels of the same source")
    options.add_device(parser, "device for the oracle models; default: the run's")
    model_options.add_last(parser, models=1)


def run(arguments: argparse.Namespace) -> int:
    """Do what was asked for, and print counts."""
    if arguments.partial and not arguments.sheets:
        raise UserError("--partial goes with --import; leave it out.")
    if arguments.trust_oracle and not arguments.oracle:
        raise UserError("--trust-oracle goes with --oracle; leave it out.")
    for each in every_setting(LabelConfig):
        if arguments.export is None and getattr(arguments, each.key) is not None:
            raise UserError(f"{each.option} goes with --export; leave it out.")
    if arguments.export is not None:
        config = settings_from(arguments, LabelConfig)
        sheet = api.label_export(arguments.run_folder, arguments.export, config=config, **options.events(arguments))
        found = f"{sheet.distinct_valid_triggers:,} valid triggers without near-duplicates"
        print(f"{sheet.pictures:,} of {found}: {sheet.folder}/label.html")
        print("Open that page in a browser, or fill in labels.csv; then import the file.")
        return options.finish(arguments, sheet)
    if not (arguments.sheets or arguments.oracle or arguments.intended):
        outcomes, sources = api.label_counts(arguments.run_folder)
        _print_counts(sources)
        _print_counts(outcomes)
        return options.finish(arguments, {"run": arguments.run_folder, "sources": sources, "outcomes": outcomes})
    if arguments.sheets:
        result = api.label_import(
            arguments.run_folder, arguments.sheets, partial=arguments.partial, force=arguments.force
        )
    elif arguments.oracle:
        result = api.label_oracle(
            arguments.run_folder,
            arguments.oracle,
            options=model_options.spec_from(arguments),
            device=arguments.device,
            trust_oracle=arguments.trust_oracle,
            force=arguments.force,
            **options.events(arguments),
        )
    else:
        result = api.label_intended(arguments.run_folder, force=arguments.force)
    print(f"{result.labelled:,} pictures labelled ({result.source}), {result.invalid:,} invalid.")
    if result.undecided:
        print(f"{result.undecided:,} pictures got no label: no majority, no agreement, or nothing said.")
    if result.kappa is not None:
        print(f"Cohen's kappa of the annotators: {result.kappa:.3f}")
    _print_counts(result.outcomes)
    return options.finish(arguments, result)


def _print_counts(counts: dict[str, int]) -> None:
    print(", ".join(f"{name}: {count:,}" for name, count in counts.items()))
