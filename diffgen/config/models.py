"""How a model is asked: its pre-processing, and a server behind an address."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import fields
from typing import Literal

from diffgen.config.schema import FileName, Many, Maybe, SettingError, replace, setting, settings

MAX_SIDE = 4096
MAX_TIMEOUT, MAX_RETRIES = 86_400, 1000

HeadKind = Literal[
    "yolov8",
    "yolov5",
    "yolox",
    "boxes-and-scores",
    "rt-detr",
    "detr",
    "end-to-end",
    "ssd",
    "torchvision",
    "detections",
]
MapKind = Literal["classes-first", "classes-last", "class-map"]


@settings("preprocessing")
class Preprocessing:
    """What one model wants done to ``uint8 (N, C, H, W)`` images before it is asked, and what it answers.

    None means "not said": a sidecar file beside the model, what the file itself declares, and
    ``DEFAULT_PREPROCESSING`` are asked in turn. The steps are taken in the order of the attributes. A row of values
    that is a column of its own, (N, D, 1), is found out for the layout "flat" and recorded as "flat-1". A model with
    one value per image gives the probability, or the logit, of the second of two classes.

    Raises:
        UserError: a value of another kind than these.
    """

    channels: Literal["rgb", "bgr", "grey-to-rgb", "rgb-to-grey"] | None = setting(
        None,
        "Hand channels over as the data has them (rgb, default), in the opposite order (bgr), one grey copied into "
        "three, or three weighed into one (0.299, 0.587, 0.114, as ITU-R BT.601).",
        option="--channels",
    )
    invert: bool | None = setting(None, "Make black white, and white black (255 - x).", option="--invert")
    size: Many[int] | None = setting(
        None,
        "Height and width that images are resized to, on float32 grey levels without rounding; empty for the size of "
        "the data.",
        option="--size",
        metavar="N|HxW",
    )
    crop: float | None = setting(
        None,
        "Share of height and width that is kept, from the middle: the shorter side is brought to size / crop, and what "
        "lies outside of the size is cut off (0.875: 224 of 256, timm's crop_pct); 0: the whole image is stretched to "
        "the size (default).",
        ge=0,
        le=1,
        option="--crop",
        metavar="SHARE",
    )
    fitting: Literal["stretch", "letterbox", "letterbox-top-left"] | None = setting(
        None,
        "How a picture of other proportions becomes one of the size: stretched (default, but of detectors as their "
        "makers do it), or whole with the grey level 114 beside it, on both sides (letterbox, as Ultralytics does it) "
        "or at the right and below (letterbox-top-left, YOLOX).",
        option="--fitting",
    )
    interpolation: Literal["bilinear", "bicubic", "nearest"] | None = setting(
        None, "How images are resized (default: bilinear).", option="--interpolation"
    )
    antialias: bool | None = setting(
        None, "Smooth images that are made smaller, as Pillow and torchvision do (default: yes).", option="--antialias"
    )
    scale: Literal["0..1", "0..255"] | None = setting(
        None,
        "What 0..255 becomes: divided by 255 (default), or the grey levels as they are (both float32).",
        option="--scale",
    )
    mean: Many[float] | None = setting(
        None,
        "Subtracted after scaling, one for each channel that the model takes, or one for all; empty for none.",
        option="--mean",
        metavar="X",
    )
    std: Many[float] | None = setting(None, "Divided by, after the mean; empty for none.", option="--std", metavar="X")
    layout: Literal["auto", "nchw", "nhwc", "flat", "flat-1"] | None = setting(
        None,
        "The axes that the model takes; flat: (N, C*H*W), one row of values per image, channel by channel.",
        option="--layout",
    )
    outputs: Literal["auto", "probabilities", "logits", "scores", "boxes", "maps"] | None = setting(
        None,
        "What the model answers; logits get a softmax, scores in [0, 1] are divided by their sum, boxes are those of a "
        "detector, maps give each pixel a class; auto (default): decided once, on real images.",
        option="--outputs",
    )
    output: str | None = setting(
        None,
        "Name (a number for unnamed ones) of the output to read, of a model that gives several.",
        option="--output-name",
        metavar="NAME",
    )
    background: Literal["auto", "none", "first", "last"] | None = setting(
        None,
        "Which of the model's values is for the background, for none of the classes, and is left out; auto (default): "
        "found out from class names, labels and the other models.",
        option="--background",
    )
    head: Literal["auto", HeadKind, MapKind] | None = setting(
        None,
        "How boxes or maps are read, see docs/howto/detectors.md and segmentation.md; auto (default): found out from "
        "shapes and values.",
        option="--head",
    )
    nms_iou: float | None = setting(
        None,
        "Of boxes of one class whose intersection over union is higher, the one with the highest score is kept, where "
        "a detector does not see to that itself (default: 0.7, as in Ultralytics; YOLOX has 0.65).",
        gt=0,
        le=1,
        option="--nms-iou",
        metavar="IOU",
    )
    score_floor: float | None = setting(
        None,
        "Boxes with lower scores are left out before anything else (default: 0.01); no threshold of a deployment.",
        gt=0,
        lt=1,
        option="--score-floor",
        metavar="SCORE",
    )
    most_boxes: int | None = setting(
        None,
        "Most boxes of a picture that are kept, those with the highest scores (default: 100).",
        ge=1,
        le=1000,
        option="--most-boxes",
        metavar="N",
    )

    def __post_init__(self) -> None:
        sides = self.size or (1, 1)
        if len(sides) != 2 or not all(1 <= side <= MAX_SIDE for side in sides):
            raise SettingError(
                "preprocessing.size", f"is {list(sides)!r}; give height and width, from 1 to {MAX_SIDE} each."
            )

    def over(self, other: Preprocessing) -> Preprocessing:
        """What is said here, and what ``other`` says where nothing is."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(other, **said)

    def above(self, other: Preprocessing) -> Preprocessing:
        """As :meth:`over`; a mean and std of ``other`` hold for its scale, and only where none of the three is said."""
        if any(each is not None for each in (self.scale, self.mean, self.std)):
            other = replace(other, mean=None, std=None)
        return self.over(other)


DEFAULT_PREPROCESSING = Preprocessing(
    channels="rgb",
    invert=False,
    size=(),
    crop=0.0,
    fitting="stretch",
    interpolation="bilinear",
    antialias=True,
    scale="0..1",
    mean=(),
    std=(),
    layout="auto",
    outputs="auto",
    output="",
    background="auto",
    head="auto",
    nms_iou=0.7,
    score_floor=0.01,
    most_boxes=100,
)


@settings("remote")
class RemoteConfig:
    """How a model behind an address is asked. None means "not said": ``DEFAULT_REMOTE`` is asked.

    The Authorization header itself is never written anywhere. The query budget covers one run with all its resumptions.

    Raises:
        SettingError: a number that cannot be.
    """

    auth_env: str | None = setting(
        None,
        "Environment variable with the Authorization header of a remote model (default: there is none).",
        option="--auth-env",
        metavar="NAME",
    )
    query_budget: Maybe[int] = setting(
        None,
        "Maximum number of images sent to a remote model, repeated ones included.",
        ge=1,
        option="--query-budget",
        metavar="N",
    )
    timeout: Maybe[float] = setting(
        None,
        "Longest time to wait for an answer of a remote model, in seconds (default: 60).",
        gt=0,
        le=MAX_TIMEOUT,
        option="--timeout",
        metavar="SECONDS",
    )
    retries: Maybe[int] = setting(
        None,
        "How many times a failed request is tried again (default: 8).",
        ge=0,
        le=MAX_RETRIES,
        option="--retries",
        metavar="N",
    )

    def over(self, other: RemoteConfig) -> RemoteConfig:
        """What is said here, and what ``other`` says where nothing is."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(other, **said)


DEFAULT_REMOTE = RemoteConfig(timeout=60.0, retries=8)

Isolate = Literal["auto", "on", "off"]
Weights = Literal["ema"]
DEFAULT_MODEL_TIMEOUT = 120.0


def is_address(model: object) -> bool:
    """Whether what names a model is the address of a server."""
    return isinstance(model, str) and model.lower().startswith(("http://", "https://"))


@settings("opening")
class Opening:
    """How the file of one model is opened, or its server asked.

    ``arch`` and ``allow_pickle`` run code that diffgen did not bring. In a run folder they say what was used; to open
    the models of that run again, they must be given again. So must ``allow_remote``, which lets pictures be sent to an
    address that a run folder names, and ``remote.auth_env``, which lets the header be sent there. ``isolate`` is
    nothing that a run folder says.

    Raises:
        SettingError: a value that cannot be.
    """

    arch: str | None = setting(
        None,
        "Function without arguments that builds the network of a state_dict; runs that code.",
        option="--arch",
        metavar="PACKAGE.MODULE:FACTORY",
        common=True,
        brief="Function that builds the network of a state_dict.",
    )
    weights: Weights | None = setting(
        None,
        "Which of a checkpoint's weights, with --arch: ema, those averaged in training (default: the others).",
        option="--weights",
    )
    allow_pickle: bool = setting(
        False, "Open pickled models, which runs any code that is in them.", option="--allow-pickle"
    )
    allow_remote: bool = setting(False, "Send pictures to the address in a run folder.", option="--allow-remote")
    isolate: Isolate | None = setting(
        None, "Open model files in a process that can only compute: auto (default), on, off.", option="--isolate"
    )
    model_timeout: Maybe[float] = setting(
        None,
        f"Seconds that opening an isolated model, and each batch, may take (default: {DEFAULT_MODEL_TIMEOUT:g}).",
        gt=0,
        le=MAX_TIMEOUT,
        option="--model-timeout",
        metavar="SECONDS",
    )
    remote: RemoteConfig = setting(factory=RemoteConfig)

    def over(self, other: Opening) -> Opening:
        """What is said here, and what ``other`` says where nothing is."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        return replace(other, **{**said, "remote": self.remote.over(other.remote)})


@settings("models")
class ModelSpec:
    """One model of a comparison: what it is, how it is opened and fed, and what its classes are called.

    Models are named A, B, C, ... in the order in which they are given (:func:`roles`).

    Raises:
        SettingError: a value that cannot be.
    """

    path: FileName = setting(None, "File or address of the model (none: a Python object).")
    preprocessing: Preprocessing = setting(factory=Preprocessing)
    opening: Opening = setting(factory=Opening)
    class_names: Many[str] = setting((), "Names of the classes in the order of the model's answers.")
    class_names_file: FileName = setting(
        None,
        "File with the names of the classes, one a line (or a JSON list) in the order of the models' answers; a line "
        "for the background may be among them.",
        option="--class-names",
        metavar="FILE",
        common=True,
        brief="File with the names of the classes, one a line.",
    )
    class_order: Many[int] = setting(
        (), "For each of the model's own classes the class that it stands for; made from a label map."
    )
    label_map: FileName = setting(
        None,
        "File with the classes of this model and those of the first one that they are (.toml, .json or .csv).",
        option="--label-map",
        metavar="FILE",
        common=True,
        brief="File that says which of A's classes this model's are.",
    )

    def over(self, other: ModelSpec) -> ModelSpec:
        """What is said here of the model, and what ``other`` says where nothing is."""
        return ModelSpec(
            path=self.path or other.path,
            preprocessing=self.preprocessing.over(other.preprocessing),
            opening=self.opening.over(other.opening),
            class_names=self.class_names or other.class_names,
            class_names_file=self.class_names_file or other.class_names_file,
            class_order=self.class_order or other.class_order,
            label_map=self.label_map or other.label_map,
        )


MAX_MODELS = 16


def roles(models: Sized | int) -> str:
    """The letters that models are named by: "AB" for two of them."""
    return "ABCDEFGHIJKLMNOP"[: models if isinstance(models, int) else len(models)]
