"""``diffgen quantize``: the 8-bit version of an ONNX model, and what it costs on real images."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from diffgen import api
from diffgen.cli import model_options, options
from diffgen.cli.settings_options import Options
from diffgen.config import QuantizeConfig, applied, replace
from diffgen.config.schema import every_setting
from diffgen.wording import percent

if TYPE_CHECKING:
    from diffgen.workflows.quantize import QuantizeResult

_EXAMPLES = """\
diffgen quantize net.onnx --data val/                    net-int8.onnx, calibrated on val/
diffgen quantize net.onnx --data val/ --calibrate-on train/ --images 2000
diffgen quantize net.onnx --data val/ --per-channel --calibration entropy -o better.onnx
diffgen quantize net.onnx --data val/ --dynamic          ranges are found while the model runs
diffgen compare net.onnx net-int8.onnx --data val/       then: what has changed, in pictures
"""


def add_parser(verbs: Any) -> None:
    parser = verbs.add_parser(
        "quantize",
        help="make the 8-bit version of an ONNX model",
        description="Make the 8-bit version of an ONNX model with onnxruntime's quantizer, calibrated on real images "
        "with the model's own pre-processing, and say what it costs in accuracy on them.",
        examples=_EXAMPLES,
    )
    parser.add_argument("model", metavar="MODEL", help="an ONNX file that computes in floating point")
    parser.add_argument("--data", metavar="D", required=True, help="real images, as for compare; better with labels")
    parser.add_argument("-o", "--out", metavar="FILE", help="file to write (default: MODEL-int8.onnx beside the model)")
    parser.add_argument("--force", action="store_true", help="replace the file and the sidecar that are there")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--static", action="store_true", help="measure the ranges of activations beforehand (default)")
    how.add_argument(
        "--dynamic", action="store_true", help="measure them anew for every batch, so that answers depend on it"
    )
    parser.add_argument(
        "--calibrate-on", metavar="D2", help="measure ranges on these images instead, say training ones"
    )
    of = Options(parser)
    own = [each for each in every_setting(QuantizeConfig) if not each.key.startswith("preprocessing.")]
    of.add(parser.add_argument_group("quantization"), own)
    model_options.add_preprocessing_options(of)
    of.rare(options.add_talk(parser))
    parser.set_defaults(options=of)


def run(arguments: argparse.Namespace) -> int:
    """Quantize and print what it costs."""
    said = arguments.options.layer(arguments, [each.key for each in every_setting(QuantizeConfig)])
    config = replace(
        applied(QuantizeConfig(), said),
        method="dynamic" if arguments.dynamic else "static",
        preprocessing=model_options.preprocessing_from(arguments),
    )
    result = api.quantize(
        arguments.model,
        data=arguments.data,
        output=arguments.out,
        calibration_data=arguments.calibrate_on,
        config=config,
        force=arguments.force,
        **options.events(arguments),
    )
    for warning in result.warnings:
        arguments.progress.warn(warning)
    _print(result)
    return options.finish(arguments, result)


def _print(result: QuantizeResult) -> None:
    accuracies = (None, None) if result.accuracy is None else result.accuracy
    width = max(len(result.source), len(result.output))
    for path, size, accuracy in zip((result.source, result.output), result.bytes, accuracies, strict=True):
        figure = "" if accuracy is None else f"  accuracy {accuracy:.4f}"
        print(f"{path:<{width}}  {size / 1024:>8,.0f} KiB{figure}")
    print(
        f"different labels for {result.differing:,} of {result.images:,} real images "
        f"({percent(result.disagreement, 2)}); largest change of a probability {result.largest_shift:.3f}"
    )
    if result.calibrated:
        print(f"calibrated on {result.calibrated:,} images")
    print(f"written: {result.output}, {result.sidecar}")
