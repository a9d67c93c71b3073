"""``diffgen explain``: why two models that should be the same differ."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.cli.model_options import start_isolation
from diffgen.cli.settings_options import add_settings, settings_from
from diffgen.config import CompareConfig, replace
from diffgen.errors import UserError

if TYPE_CHECKING:
    from diffgen.workflows.explain import ExplainResult

_EXAMPLES = """\
diffgen explain float.onnx int8.onnx --data val/       a fault of a pipeline, or the weights
diffgen explain net.pt http://host/v2/models/net --data val/
diffgen explain runs/mine                              the models and images of a run
diffgen explain a.onnx b.tflite --data val/ --write    ... and keep it in a sidecar
"""
_READING, _MACHINE = ("resize", "fit", "skip_broken", "exif"), ("device", "batch_size")
_QUERIES = 2000


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "explain",
        help="why two models that should be the same differ",
        description="Name the fault of a pipeline that makes two models differ (channel order, scale, resizing, crop, "
        "layout, order of classes, ...), by their answers alone; or say that the weights differ.",
        examples=_EXAMPLES,
    )
    parser.add_argument("first", metavar="A|RUN", help="a model's file or address, or the folder that compare wrote")
    parser.add_argument("second", metavar="B", nargs="?", help="the other model")
    parser.add_argument("--data", metavar="D", help="real images, as for compare; labels are not needed")
    add_settings(parser, CompareConfig, _READING)
    parser.add_argument(
        "--queries",
        type=int,
        default=_QUERIES,
        metavar="N",
        help="images that both models together are asked about, at most (default: %(default)s)",
    )
    parser.add_argument(
        "--write", action="store_true", help="write what feeds the faulty model rightly into its sidecar"
    )
    parser.add_argument("--force", action="store_true", help="replace the sidecar that is there")
    add_settings(parser.add_argument_group("machine"), CompareConfig, _MACHINE)
    model_options.add_last(parser, models=2)


def run(arguments: argparse.Namespace) -> int:
    settings = settings_from(arguments, CompareConfig)
    specs = model_options.specs_from(arguments, 2)
    reading = {name: getattr(settings, name) for name in (*_READING, "batch_size")}
    if arguments.second is None:
        for name, value in reading.items():
            if value != getattr(CompareConfig(), name):
                raise UserError(f"A run is explained with its own settings; leave --{name.replace('_', '-')} out.")
    else:
        options.need_data(arguments)
        paths = (arguments.first, arguments.second)
        start_isolation([replace(spec, path=path) for spec, path in zip(specs, paths, strict=True)], settings.device)
    found = api.explain(
        arguments.first,
        arguments.second,
        data=arguments.data,
        options=specs,
        queries=arguments.queries,
        device=None if settings.device == "auto" else settings.device,
        write=arguments.write,
        force=arguments.force,
        **reading,
        **options.events(arguments),
    )
    _print(found)
    return options.finish(arguments, found)


def _print(result: ExplainResult) -> None:
    from diffgen.wording import percent

    found = result.explanation
    print(f"A  {result.models[0]}")
    print(f"B  {result.models[1]}")
    print(
        f"different labels on {found.differing:,} of {found.images:,} pictures "
        f"({percent(found.differing / max(1, found.images))}); mean distance of the answers {found.distance:.3f}"
    )
    print()
    print(f"Probable cause: {result.verdict}" if found.found else result.verdict)
    if result.tensor:
        print(result.tensor)
    if result.options:
        print(f"options: {result.options}")
    for each in found.found if found.mend is None else ():
        print(f"mend: in the pipeline of {each.role}, {each.advice}")
    if result.written:
        print(f"written: {result.written}")
    if result.report:
        print(f"report: {result.report}")
    print(f"{found.queries:,} queries, {found.tried:,} faults tried")
