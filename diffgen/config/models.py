"""How a model is asked: its pre-processing, and a server behind an address."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from diffgen.errors import UserError


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@dataclass(frozen=True)
class Preprocessing:
    """What one model wants done to ``uint8 (N, C, H, W)`` images before it is asked, and what it answers.

    None means "not said": a sidecar file beside the model, what the file itself declares, and
    ``DEFAULT_PREPROCESSING`` are asked in turn. The steps are taken in the order of the attributes.

    Attributes:
        channels: "rgb" hands the channels over as the data has them (red, green, blue, or one grey), "bgr" in the
            opposite order, "grey-to-rgb" copies a grey one into three, "rgb-to-grey" weighs three into one
            (0.299, 0.587, 0.114, as ITU-R BT.601).
        invert: black becomes white (255 - x).
        size: (height, width) that images are resized to, bilinearly on float32 grey levels without rounding them
            back to bytes; empty for the size of the data.
        antialias: low-pass filter images that are made smaller, as Pillow and torchvision do; makes no difference
            where they become larger.
        scale: "0..1" divides by 255, "0..255" hands the grey levels over as they are (both float32).
        mean, std: one for each channel that the model takes, in the model's order, or one for all; applied after
            scaling; empty for none.
        layout: the axes that the model takes: "nchw", "nhwc", or "flat", one row of values per image, channel by
            channel. A row that is a column of its own, (N, D, 1), is found out for "flat" and recorded as "flat-1".
        outputs: "probabilities", "logits" (softmax is applied), "scores" (independent values in [0, 1] that are
            divided by their sum), or "auto": decided once, on real images. A model with one value per image gives
            the probability, or the logit, of the second of two classes.
        output: name (a number for unnamed ones) of the output to read, for models that give several; empty for the
            only one.

    Raises:
        UserError: a value of another kind than these.
    """

    channels: Literal["rgb", "bgr", "grey-to-rgb", "rgb-to-grey"] | None = None
    invert: bool | None = None
    size: tuple[int, ...] | None = None
    antialias: bool | None = None
    scale: Literal["0..1", "0..255"] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    layout: Literal["auto", "nchw", "nhwc", "flat", "flat-1"] | None = None
    outputs: Literal["auto", "probabilities", "logits", "scores"] | None = None
    output: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in PREPROCESSING_CHOICES.items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                raise UserError(f"The pre-processing has {name} {value!r}; give {', '.join(allowed)}.")
        for name in ("invert", "antialias"):
            if getattr(self, name) not in (None, True, False):
                raise UserError(f"The pre-processing has {name} {getattr(self, name)!r}; give true or false.")
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values is not None and not (isinstance(values, tuple) and all(map(_is_number, values))):
                raise UserError(f"The pre-processing has {name} {values!r}; give a list of numbers.")
        sides: Any = self.size or (1, 1)
        if not (
            isinstance(sides, tuple)
            and len(sides) == 2
            and all(type(side) is int and 1 <= side <= MAX_SIDE for side in sides)
        ):
            raise UserError(f"The pre-processing has size {sides!r}; give height and width, from 1 to {MAX_SIDE} each.")
        if not isinstance(self.output, str | None):
            raise UserError(f"The pre-processing has output {self.output!r}; give a name in quotation marks.")

    def over(self, other: Preprocessing) -> Preprocessing:
        """What is said here, and what ``other`` says where nothing is."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(other, **said)


PREPROCESSING_CHOICES: dict[str, tuple[str, ...]] = {
    "channels": ("rgb", "bgr", "grey-to-rgb", "rgb-to-grey"),
    "scale": ("0..1", "0..255"),
    "layout": ("auto", "nchw", "nhwc", "flat", "flat-1"),
    "outputs": ("auto", "probabilities", "logits", "scores"),
}
MAX_SIDE = 4096
DEFAULT_PREPROCESSING = Preprocessing(
    channels="rgb",
    invert=False,
    size=(),
    antialias=True,
    scale="0..1",
    mean=(),
    std=(),
    layout="auto",
    outputs="auto",
    output="",
)


@dataclass(frozen=True)
class RemoteConfig:
    """How a model behind an address is asked. None means "not said": ``DEFAULT_REMOTE`` is asked.

    Attributes:
        auth_env: name of the environment variable that holds the Authorization header, or None: there is none. The
            header itself is never written anywhere.
        query_budget: most images that may be sent to the model, also in one run with all its resumptions; or None.
        timeout: seconds that one answer may take.
        retries: how often a try that failed is made again.

    Raises:
        UserError: a number that cannot be.
    """

    auth_env: str | None = None
    query_budget: int | None = None
    timeout: float | None = None
    retries: int | None = None

    def __post_init__(self) -> None:
        if self.query_budget is not None and self.query_budget < 1:
            raise UserError(f"A query budget of {self.query_budget} images cannot be; give a number from 1.")
        if self.timeout is not None and not 0 < self.timeout <= MAX_TIMEOUT:
            raise UserError(f"A timeout of {self.timeout:g} seconds cannot be; give more than 0 and at most a day.")
        if self.retries is not None and not 0 <= self.retries <= MAX_RETRIES:
            raise UserError(f"A request cannot be made again {self.retries} times; give 0 to {MAX_RETRIES}.")

    def over(self, other: RemoteConfig) -> RemoteConfig:
        """What is said here, and what ``other`` says where nothing is."""
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        return replace(other, **said)


MAX_TIMEOUT, MAX_RETRIES = 86_400, 1000
DEFAULT_REMOTE = RemoteConfig(timeout=60.0, retries=8)

Isolate = Literal["auto", "on", "off"]
ISOLATE: tuple[Isolate, ...] = ("auto", "on", "off")
DEFAULT_MODEL_TIMEOUT = 120.0


def is_address(model: object) -> bool:
    """Whether what names a model is the address of a server."""
    return isinstance(model, str) and model.lower().startswith(("http://", "https://"))


@dataclass(frozen=True)
class ModelConfig:
    """How one model is opened, and what its classes are called.

    ``arch`` and ``allow_pickle`` run code that diffgen did not bring. In a run folder they say what was used; to open
    the models of that run again, they must be given again. So must ``allow_remote``, which lets pictures be sent to an
    address that a run folder names, and ``remote.auth_env``, which lets the header be sent there.

    Attributes:
        arch: ``package.module:factory``, a function without arguments that builds the network of a state_dict.
        allow_pickle: open a pickle, which runs whatever is in it.
        class_names: K names in the order of the model's answers; empty when unknown.
        class_order: K numbers, for each of the model's own classes the class that it stands for; empty for the
            model's own order. Made from a label map.
        allow_remote: ask a model at the address that a run names.
        remote: how a model at an address is asked.
        isolate: "on", "auto" or "off": whether its file is opened in a process that can only compute; None: "auto".
            Nothing that a run folder says.
        model_timeout: seconds that opening its file there, and one batch, may take; None: ``DEFAULT_MODEL_TIMEOUT``.

    Raises:
        UserError: a value that cannot be.
    """

    arch: str | None = None
    allow_pickle: bool = False
    allow_remote: bool = False
    remote: RemoteConfig = field(default_factory=RemoteConfig)
    class_names: tuple[str, ...] = ()
    class_order: tuple[int, ...] = ()
    isolate: Isolate | None = None
    model_timeout: float | None = None

    def __post_init__(self) -> None:
        if self.isolate not in (None, *ISOLATE):
            raise UserError(f"The setting isolate is {self.isolate!r}; give {', '.join(ISOLATE)}.")
        if self.model_timeout is not None and not 0 < self.model_timeout <= MAX_TIMEOUT:
            raise UserError(
                f"A limit of {self.model_timeout:g} seconds for a batch cannot be; give more than 0 and at most a day."
            )
