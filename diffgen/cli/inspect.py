"""``diffgen inspect``: what a model file is, and how it wants to be fed."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.cli.model_options import start_isolation
from diffgen.cli.settings_options import add_settings, settings_from
from diffgen.config import CompareConfig, replace

if TYPE_CHECKING:
    from diffgen.comparison.preprocessings import Candidate
    from diffgen.workflows.inspect import Inspection

_EXAMPLES = """\
diffgen inspect net.onnx --data val/                   a table of pre-processings, the best first
diffgen inspect net.onnx --data val/ --write           ... and keep the best in net.onnx.toml
diffgen inspect w.pth --arch nets:resnet --data val/   weights, and what builds their network
"""
_NAMES_SHOWN = 10
_READING, _MACHINE = ("resize", "fit", "skip_broken", "exif"), ("device", "batch_size")


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "inspect",
        help="what a model file is, and which pre-processing it wants",
        description="Say what a model file is and what each plausible pre-processing makes of it on real images.",
        examples=_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="the model's file")
    parser.add_argument("--data", metavar="D", help="real images, as for compare; better with labels")
    add_settings(parser, CompareConfig, _READING)
    parser.add_argument("--write", action="store_true", help="write the best into a sidecar beside the model")
    parser.add_argument(
        "--force",
        action="store_true",
        help="replace the sidecar that is there, or write one although few answers are right",
    )
    add_settings(parser.add_argument_group("machine"), CompareConfig, _MACHINE)
    model_options.add_last(parser, models=1)


def run(arguments: argparse.Namespace) -> int:
    options.need_data(arguments)
    spec = model_options.spec_from(arguments)
    settings = settings_from(arguments, CompareConfig)
    start_isolation([replace(spec, path=arguments.model)], settings.device)
    found = api.inspect(
        arguments.model,
        data=arguments.data,
        options=spec,
        **{name: getattr(settings, name) for name in (*_READING, *_MACHINE)},
        write=arguments.write,
        force=arguments.force,
        **options.events(arguments),
    )
    _print(found)
    return options.finish(arguments, asdict(found))


def _print(found: Inspection) -> None:
    print(f"{found.path or found.model} is {found.format}.")
    takes = ", ".join("x".join(map(str, shape)) for shape in found.takes[:4]) or "what the options make of the images"
    batch = f", {found.fixed_batch} at a time" if found.fixed_batch else ""
    print(f"takes    {takes}{batch} (the data has {'x'.join(map(str, found.image_shape))})")
    names = ", ".join(found.class_names[:_NAMES_SHOWN]) + (", ..." if len(found.class_names) > _NAMES_SHOWN else "")
    print(f"classes  {found.classes}{f': {names}' if names else ''}")
    if found.head:
        print(f"gives    {found.head}")
    print()
    width = max(len(each.name) for each in found.candidates)
    for row in _rows(found, width):
        print(row)
    print()
    for line in _conclusion(found):
        print(line)


def _rows(found: Inspection, width: int) -> list[str]:
    head = f"{'pre-processing':<{width}}  "
    if found.head:
        maps = found.chosen.boxes is None
        titles = ["images", *(["mean IoU" if maps else "mAP"] if found.labelled else [])]
        titles += [] if maps else ["boxes", "best score"]
        rows = [head + "  ".join(f"{name:>10}" for name in titles)]
        for each in found.candidates:
            precision = [] if each.accuracy is None else [f"{each.accuracy:.3f}"]
            cells = [f"{each.images}", *precision, *([] if maps else [f"{each.boxes:.1f}", f"{each.confidence:.3f}"])]
            rows.append(f"{each.name:<{width}}  " + "  ".join(f"{cell:>10}" for cell in cells))
        return rows
    first = ["images", *(["accuracy"] if found.labelled else []), "confidence", "entropy", "balance", "layout"]
    rows = [head + "  ".join(f"{name:>10}" for name in first) + "  outputs"]
    for each in found.candidates:
        figures = ([each.accuracy] if each.accuracy is not None else []) + [each.confidence, each.entropy, each.balance]
        cells = [f"{each.images}", *(f"{figure:.4f}" for figure in figures), str(each.preprocessing.layout)]
        rows.append(
            f"{each.name:<{width}}  " + "  ".join(f"{cell:>10}" for cell in cells) + f"  {each.preprocessing.outputs}"
        )
    return rows


def _conclusion(found: Inspection) -> list[str]:
    best, chosen = found.candidates[0], found.chosen
    lines = []
    if found.head and not found.labelled:
        lines.append(
            f"Nobody knows what is in the images, so {chosen.name} is taken; give data with boxes (COCO, YOLO or VOC)."
        )
    elif found.labelled:
        known = "labelled images"
        if found.head:
            known = "images with masks" if chosen.boxes is None else "images with boxes"
        lines.append(f"Best on {found.images:,} {known}: {best.name}.")
        if found.alike > 1:
            taken = f"the simplest of them is taken: {chosen.name}"
            if chosen.name.endswith(" says"):
                taken = f"of them the one {chosen.name.replace('as ', 'that ', 1)} is taken"
            lines.append(
                f"So many images do not tell the first {found.alike} apart; {taken}. If you know which one the model "
                "was trained with, give that."
            )
    else:
        lines.append(
            f"Most likely on {found.images:,} images: {best.name}. They have no labels, so this only says with which "
            "the answers are sure and varied; that is weaker evidence than accuracy."
        )
    lines.append(f"written: {found.written}" if found.written else f"options: {option_text(chosen)}")
    return lines


def option_text(candidate: Candidate) -> str:
    """The options of compare that give a candidate's pre-processing."""
    chosen, words = candidate.preprocessing, []
    if chosen.channels not in (None, "rgb"):
        words.append(f"--channels {chosen.channels}")
    if chosen.invert:
        words.append("--invert")
    if chosen.size:
        height, width = chosen.size
        words.append(f"--size {height}" if height == width else f"--size {height}x{width}")
    if chosen.crop:
        words.append(f"--crop {chosen.crop:g}")
    if chosen.fitting not in (None, "stretch"):
        words.append(f"--fitting {chosen.fitting}")
    if chosen.antialias is False and chosen.outputs == "boxes":
        words.append("--no-antialias")
    if chosen.interpolation not in (None, "bilinear"):
        words.append(f"--interpolation {chosen.interpolation}")
    words.append(f"--scale {chosen.scale}")
    for name, values in (("mean", chosen.mean), ("std", chosen.std)):
        if values:
            words.append(f"--{name} {' '.join(f'{value:g}' for value in values)}")
    words.append(f"--layout {chosen.layout} --outputs {chosen.outputs}")
    if chosen.background in ("first", "last") and chosen.outputs != "maps":
        words.append(f"--background {chosen.background}")
    if chosen.outputs in ("boxes", "maps"):
        words.append(f"--head {chosen.head}")
    if chosen.output:
        words.append(f"--output-name {chosen.output}")
    return " ".join(words)
