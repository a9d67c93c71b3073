"""Labels, the selector and quantizing: settings of verbs other than compare and check."""

from __future__ import annotations

from typing import Any, Literal

from diffgen.config.images import ReadingConfig
from diffgen.config.models import Preprocessing
from diffgen.config.schema import FileName, Maybe, setting, settings


@settings("selector")
class SelectorConfig:
    """The selector: a random forest that tells from a picture which of two models is right (paper, section 5.4)."""

    features: Literal["auto", "domain", "vgg16", "pixels"] = setting(
        "auto",
        "What the forest looks at: VGG16 as published, an encoder of this data (domain), or pixels; auto: VGG16 where "
        "its weights are, else domain.",
        option="--features",
    )
    features_weights: FileName = setting(
        None,
        "File with torchvision's weights of VGG16 (default: those that torchvision finds or downloads).",
        option="--features-weights",
        metavar="FILE",
    )
    trees: int = setting(300, "Trees of the forest.", option="--trees", metavar="N", ge=1)
    limit: int = setting(
        3000,
        "Maximum number of triggers to learn from; if more are labelled, a random sample of that size is used.",
        option="--limit",
        metavar="N",
        ge=20,
    )
    folds: int = setting(5, "Parts of the cross-validation.", ge=2)
    source: Maybe[Literal["human", "oracle", "intended", "jury"]] = setting(
        None,
        "Labels to use: those of people, of reference models, the classes that a generator was asked for, or what the "
        "jury says of the pictures that it recognises (default: the best there is for each picture, without the jury).",
        option="--labels",
    )
    seed: int = setting(0, "Seed of forest, encoder and folds.", option="--seed", metavar="N", ge=0)


_SHARE: dict[str, Any] = {"ge": 0.0001, "le": 0.9999}


@settings("labels")
class LabelConfig:
    """How many triggers a person is asked to label, and which."""

    count: Maybe[int] = setting(
        None, "Pictures on the sheet (default: what --margin asks for).", option="--count", metavar="N", ge=1
    )
    confidence: float = setting(
        0.95,
        "Confidence with which a share among all valid triggers shall be known within the margin.",
        option="--confidence",
        metavar="P",
        **_SHARE,
    )
    margin: float = setting(0.05, "Margin of error of a share.", option="--margin", metavar="P", **_SHARE)
    seed: int = setting(0, "Seed of the choice of pictures and of their order.", option="--seed", metavar="N", ge=0)


@settings("training_set")
class TrainingSetConfig:
    """How the labelled finds of a run are divided into pictures to train with and pictures to test on."""

    test_share: float = setting(
        0.2,
        "Share of the pictures of each label that are to test on, at most.",
        option="--test-share",
        metavar="X",
        ge=0.01,
        le=0.9,
    )
    seed: int = setting(0, "Seed of the choice of pictures to test on.", option="--seed", metavar="N", ge=0)


@settings()
class QuantizeConfig(ReadingConfig):
    """How an ONNX file is made into one that computes in 8 bits (onnxruntime's quantizer).

    A static one has the ranges of its activations measured on real images beforehand; a dynamic one finds them anew for
    every batch.
    """

    method: Literal["static", "dynamic"] = setting(
        "static", "Measure the ranges of activations beforehand, or find them anew for every batch."
    )
    format: Literal["qdq", "qoperator"] = setting(
        "qdq",
        "Form of a static version: QuantizeLinear and DequantizeLinear around operators (qdq), or integer operators.",
        option="--format",
        common=True,
    )
    activations: Literal["uint8", "int8"] = setting(
        "uint8",
        "Type of the activations of a static version; onnxruntime advises uint8 on x86, int8 on ARM.",
        option="--activations",
        common=True,
    )
    per_channel: bool = setting(
        False, "One scale for each channel of the weights instead of one for all.", option="--per-channel", common=True
    )
    reduce_range: bool = setting(
        False,
        "Weights of 7 bits, for x86 processors without VNNI, where sums of 8-bit products may overflow.",
        option="--reduce-range",
        common=True,
    )
    calibration: Literal["minmax", "entropy", "percentile"] = setting(
        "minmax",
        "How ranges are computed from the activations: their extremes, the range that keeps most of their entropy, "
        "or their 99.999th percentile.",
        option="--calibration",
        common=True,
    )
    images: int = setting(
        512,
        "Most real images that the ranges are measured on, spread over the data.",
        option="--images",
        common=True,
        metavar="N",
        ge=1,
    )
    batch_size: Maybe[int] = setting(
        None,
        "Images handed to the models at once (default: chosen for the device).",
        option="--batch-size",
        metavar="auto|N",
        ge=1,
    )
    data_labels: Literal["auto", "use", "ignore"] = setting(
        "auto",
        "Whether the labels of the data are the model's classes: use them, ignore them (no accuracy is measured), or "
        "find out.",
        option="--data-labels",
    )
    preprocessing: Preprocessing = setting(factory=Preprocessing)
    class_names_file: FileName = setting(
        None,
        "File with the names of the classes, one a line (or a JSON list) in the order of the model's answers.",
        option="--class-names",
        common=True,
        metavar="FILE",
    )
