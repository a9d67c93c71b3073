"""Every setting of diffgen with its default: the one source for the Python API, the command line and config.toml."""

from __future__ import annotations

import math
import re
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from typing import Any, Literal, get_type_hints

from diffgen.errors import UserError

_BUDGET_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Budget:
    """How long a search may go on. The first limit that is reached ends it.

    Attributes:
        seconds: wall-clock seconds of searching (training of the GAN and filtering are not counted), or None.
        queries: images shown to the models; one query asks every model once. Or None.
    """

    seconds: float | None = None
    queries: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.queries is None:
            raise UserError("The budget is empty; give seconds (60s) or queries (20000q).")
        if self.seconds is not None and not (math.isfinite(self.seconds) and self.seconds > 0):
            raise UserError(
                f"The budget of {self.seconds} seconds is not a positive time; write for example 60s or 5m."
            )
        if self.queries is not None and self.queries < 1:
            raise UserError(f"The budget of {self.queries} queries is not positive; write for example 20000q.")

    @classmethod
    def parse(cls, text: str | Budget) -> Budget:
        """Read ``60s``, ``5m``, ``1h``, ``20000q``, or two of them joined by a comma.

        Raises:
            UserError: the text is not such a budget.
        """
        if isinstance(text, Budget):
            return text
        seconds: float | None = None
        queries: int | None = None
        for part in str(text).replace("_", "").split(","):
            match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhq])\s*", part)
            if match is None:
                raise UserError(
                    f"The budget {text!r} is not understood; write seconds, minutes or hours (60s, 5m, 1h), "
                    "queries (20000q), or both (60s,20000q)."
                )
            number, unit = Decimal(match[1]), match[2]
            if (queries if unit == "q" else seconds) is not None:
                raise UserError(f"The budget {text!r} gives two limits of one kind; leave one of them out.")
            if unit == "q":
                if number != number.to_integral_value():
                    raise UserError(
                        f"The budget {text!r} has a fraction of a query; write a whole number such as 20000q."
                    )
                queries = int(number)
            else:
                seconds = float(number) * _BUDGET_UNITS[unit]
        return cls(seconds=seconds, queries=queries)

    def __str__(self) -> str:
        parts = []
        if self.seconds is not None:
            # every digit, and no exponent, which parse() does not read
            parts.append(f"{Decimal(repr(self.seconds)).normalize():f}s")
        if self.queries is not None:
            parts.append(f"{self.queries}q")
        return ",".join(parts)


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
        layout: order of the axes the model takes.
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
    layout: Literal["auto", "nchw", "nhwc"] | None = None
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
    "layout": ("auto", "nchw", "nhwc"),
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
    """

    arch: str | None = None
    allow_pickle: bool = False
    allow_remote: bool = False
    remote: RemoteConfig = field(default_factory=RemoteConfig)
    class_names: tuple[str, ...] = ()
    class_order: tuple[int, ...] = ()


@dataclass(frozen=True)
class GanConfig:
    """The GAN and its training (paper, sections 3.1 and 3.2). Why these values: docs/decisions/007-the-gan.md.

    Attributes:
        latent_dim: continuous values in a latent vector; 100 in the paper.
        width: channels of the widest feature map are 4 * width (8 * width at 64 pixels), of the narrowest ``width``.
        conditional: train on the labels too, where there are any: every picture then has an intended class.
        schedule: how long to train: for 10,000 images of 28 pixels "quick" takes one or two minutes, "default" five,
            "thorough" fifteen on one core that computes in bfloat16 (benchmarks/results/gan.md); see
            :mod:`diffgen.gan_training.schedule`.
        steps: updates of the generator, or None: as the schedule says.
        batch_size: images in one update.
        learning_rate_generator, learning_rate_discriminator: Adam's step sizes.
        beta1, beta2: Adam's moments.
        ema_decay: decay of the moving average of the generator's weights, which is what is kept.
        augment: add the paper's five transformations of every image to the training set.
        transformed: share of the images of a batch that are transformed ones; 5 / 6 in the paper.
        bfloat16: compute layers in bfloat16, or None: where the hardware does that fast.
        readings: how often the collapse guard measures the generator during training; 0 for never.
        holdout: share of the real images that is kept from training, for the collapse guard and the calibration of the
            filters.
        seed: seed of initial weights, order of images, latent vectors and the choice of the held-out images.
    """

    latent_dim: int = 64
    width: int = 32
    conditional: bool = True
    schedule: Literal["quick", "default", "thorough"] = "default"
    steps: int | None = None
    batch_size: int = 64
    learning_rate_generator: float = 4e-4
    learning_rate_discriminator: float = 4e-4
    beta1: float = 0.0
    beta2: float = 0.9
    ema_decay: float = 0.998
    augment: bool = True
    transformed: float = 0.5
    bfloat16: bool | None = None
    readings: int = 12
    holdout: float = 0.1
    seed: int = 0


PixelRange = Literal["-1..1", "0..1", "0..255"]


@dataclass(frozen=True)
class GeneratorConfig:
    """A generator of the user's own, in place of the GAN that is trained otherwise.

    Attributes:
        file: a TorchScript, torch.export or ONNX file that maps latent vectors (N, latent_dim), or
            (N, latent_dim, 1, 1), to images of the data's shape, or None: the GAN.
        latent_dim: length of its latent vector.
        prior: distribution of the latent vector in its training: "normal" is N(0, 1), "uniform" is U(-1, 1).
        pixels: range of the images that it gives; "auto": found out by drawing some.
        discriminator: such a file that maps images of the same range to one score each, higher for more real, for the
            filter; or None: there is no discriminator filter.

    Raises:
        UserError: a value of another kind than these.
    """

    file: str | None = None
    latent_dim: int | None = None
    prior: Literal["normal", "uniform"] = "normal"
    pixels: Literal["auto", "-1..1", "0..1", "0..255"] = "auto"
    discriminator: str | None = None

    def __post_init__(self) -> None:
        for name, allowed in (("prior", ("normal", "uniform")), ("pixels", ("auto", "-1..1", "0..1", "0..255"))):
            if getattr(self, name) not in allowed:
                raise UserError(f"The generator has {name} {getattr(self, name)!r}; give {', '.join(allowed)}.")


@dataclass(frozen=True)
class TuningConfig:
    """How the settings of a GAN are searched for: one trial trains one GAN (:mod:`diffgen.gan_training.tuning`).

    The first trial is the GAN as it is configured; its own values belong to the space even where they lie outside of
    these.

    Attributes:
        trials: finished trials that the study shall have, those of other processes included; 0 for no tuning.
        storage: where the study is kept: a file, or a database's URL as Optuna takes it; None: beside the GAN.
        learning_rates: least and largest of both rates, searched on a logarithmic scale.
        batch_sizes, widths, latent_dims: what may be chosen.
        shortest: least share of the schedule's updates; the longest is all of them.
        averaging: least and largest of 1 - ``ema_decay``, on a logarithmic scale.
        transformed: least and largest share of transformed images in a batch.
        startup: trials drawn at random before the sampler learns from them, and before any is pruned.
        warmup: readings that a trial gets before it may be pruned.
        draws, images: how often and with how many generated images a trial's GAN is scored.
    """

    trials: int = 0
    storage: str | None = None
    learning_rates: tuple[float, float] = (5e-5, 2e-3)
    batch_sizes: tuple[int, ...] = (32, 64, 128)
    widths: tuple[int, ...] = (16, 32, 48)
    latent_dims: tuple[int, ...] = (32, 64, 100)
    shortest: float = 0.5
    averaging: tuple[float, float] = (5e-4, 1e-2)
    transformed: tuple[float, float] = (0.0, 0.8)
    startup: int = 4
    warmup: int = 2
    draws: int = 2
    images: int = 5_000


@dataclass(frozen=True)
class TrainGanConfig:
    """Everything that the training of a GAN needs besides the data.

    Attributes:
        gan: the GAN.
        tuning: whether and how its settings are searched for.
        device: "auto" takes a GPU when there is one.
        resize: side of the square that real images are brought to on reading, or None: they keep their size.
        draws, images: how often and with how many generated images, at most as many as there are real ones, the
            finished GAN is scored; as published.
        features: what the images are compared by in the scores of the finished GAN; "domain" is the data set's own
            encoder, which tuning and the collapse guard use in any case. Published scores are those of "inception".
        features_weights: file with the weights of "inception" or "vgg16", or None: torchvision's.
    """

    gan: GanConfig = field(default_factory=GanConfig)
    tuning: TuningConfig = field(default_factory=TuningConfig)
    device: str = "auto"
    resize: int | None = None
    draws: int = 10
    images: int = 10_000
    features: Literal["domain", "inception", "vgg16"] = "domain"
    features_weights: str | None = None


@dataclass(frozen=True)
class DrFuzzConfig:
    """Settings of :mod:`diffgen.techniques.drfuzz` alone.

    Attributes:
        fidelity: "discriminator": a mutant is asked about only when the discriminator takes it for at least as real as
            the image that its line of mutants began with; "none": every mutant is, and no discriminator is needed.
        mutants: made of one seed at a time, all by one mutator.

    Raises:
        UserError: a fidelity that is not known.
    """

    fidelity: Literal["discriminator", "none"] = "discriminator"
    mutants: int = 10

    def __post_init__(self) -> None:
        if self.fidelity not in ("discriminator", "none"):
            raise UserError(f"DRfuzz has fidelity {self.fidelity!r}; give discriminator or none.")


@dataclass(frozen=True)
class DFlareConfig:
    """Settings of :mod:`diffgen.techniques.dflare` alone.

    Attributes:
        mutations: tried on one seed before it is given up.
    """

    mutations: int = 100


@dataclass(frozen=True)
class SearchConfig:
    """NSGA-II over latent vectors (paper, sections 3.3 to 3.5). The presets live in ``diffgen.techniques.diffgan``.

    Techniques without a latent space use ``divergence``, which is recorded for every trigger, and the settings named
    after them; the rest is of no effect there.

    Attributes:
        population: individuals in one generation.
        prior: "generator": initial vectors are drawn from the generator's own prior and are kept where it lies. For a
            normal one, genes are bounded by ``bound`` and a vector whose norm leaves the shell is scaled back; a
            uniform one is its box [-1, 1]. "box": uniform in [-bound, bound] whatever the generator, as published.
        bound: largest absolute value of a gene.
        crossover_probability: simulated binary crossover, share of the *matings* that are crossed at all.
        crossover_gene_probability: share of the *genes* of such a mating.
        crossover_eta: its distribution index.
        mutation_probability: polynomial mutation, share of the *individuals* that are mutated at all.
        mutation_gene_probability: share of the *genes* of such an individual, or None for 1 / latent_dim.
        mutation_class_probability: share of such individuals that are given another class, where the generator is
            conditional.
        mutation_eta: its distribution index.
        niches: "label_pair": the population is shared out among the ordered label pairs of its triggers; "behaviour":
            among label pairs and cells; "none": as published.
        objectives: "both", or one of them alone: "divergence", "diversity" (paper, Table 3).
        divergence: how far apart two answers are: "euclidean+1" (Eq. 1), "jensen-shannon", or "top2-margin", nearness
            to a boundary.
        diversity: what images are compared by: "pixels" (Eq. 2) or "features" of the domain encoder.
        representatives: what an image is compared with: "clusters", one of each of the archive's HDBSCAN clusters
            (section 3.3.2.2), or "all" archived triggers, which is exact and slow.
        validity: "post": filters are asked after the search; "constraint": a trigger that they reject loses against
            everything else; "objective": how far it is from being accepted is one more objective. "auto":
            "constraint" where the technique can (``diffgan``), else "post".
        reducer: what shortens images before they are clustered.
        reducer_dim: length that they are shortened to.
        umap_neighbors, umap_min_dist: UMAP's own settings.
        min_cluster_size: HDBSCAN's.
        cluster_sample: most triggers that are clustered at once, evenly from all label pairs, or None for the whole
            archive.
        cluster_growth: cluster again when the archive has grown by this share; 0 means in every generation.
        noise_representatives: most noise points that stand for themselves.
        drfuzz, dflare: settings of the techniques of those names.
    """

    population: int = 500
    prior: Literal["generator", "box"] = "generator"
    bound: float = 3.0
    crossover_probability: float = 0.9
    crossover_gene_probability: float = 0.5
    crossover_eta: float = 15.0
    mutation_probability: float = 1.0
    mutation_gene_probability: float | None = 0.1
    mutation_class_probability: float = 0.05
    mutation_eta: float = 20.0
    niches: Literal["none", "label_pair", "behaviour"] = "label_pair"
    objectives: Literal["both", "divergence", "diversity"] = "both"
    divergence: Literal["euclidean+1", "jensen-shannon", "top2-margin"] = "euclidean+1"
    diversity: Literal["pixels", "features"] = "pixels"
    representatives: Literal["clusters", "all"] = "clusters"
    validity: Literal["auto", "post", "constraint", "objective"] = "auto"
    reducer: Literal["pca", "umap"] = "pca"
    reducer_dim: int = 20
    umap_neighbors: int = 5
    umap_min_dist: float = 0.1
    min_cluster_size: int = 3
    cluster_sample: int | None = 1000
    cluster_growth: float = 0.2
    noise_representatives: int = 256
    drfuzz: DrFuzzConfig = field(default_factory=DrFuzzConfig)
    dflare: DFlareConfig = field(default_factory=DFlareConfig)


FILTERS = ("discriminator", "reconstruction", "ssim", "neighbors")


@dataclass(frozen=True)
class FilterConfig:
    """The validity filters (DiffGAN, section 3.6; ``FILTER_PRESETS`` has the published ones).

    Attributes:
        names: which filters, in the order in which they are asked; see :mod:`diffgen.filters`.
        false_alarm: share of held-out real images that all filters together may reject. Thresholds that are None are
            found so that this share is kept.
        discriminator_threshold, reconstruction_threshold, ssim_threshold, neighbors_threshold: lowest score that
            passes, or None to have it found.
        ssim_neighbors: how many nearest real images (cosine, pixels) SSIM is computed with; the best counts.
        near_duplicate: correlation of their thumbnails from which on two triggers of one label pair count as one.
        training_steps: updates of the auto-encoder of the reconstruction filter.

    Raises:
        UserError: a filter that is not known, or one named twice.
    """

    names: tuple[str, ...] = ("discriminator", "reconstruction", "ssim")
    false_alarm: float = 0.05
    discriminator_threshold: float | None = None
    reconstruction_threshold: float | None = None
    ssim_threshold: float | None = None
    neighbors_threshold: float | None = None
    ssim_neighbors: int = 10
    near_duplicate: float = 0.95
    training_steps: int = 1200

    def __post_init__(self) -> None:
        for name in self.names:
            if name not in FILTERS:
                raise UserError(f"The filter {name!r} is not known; known are {', '.join(FILTERS)}.")
        if len(set(self.names)) < len(self.names):
            raise UserError(f"The filters {', '.join(self.names)} name one of them twice; name each once.")


# "paper" is DiffGAN, section 3.6: SSIM of at least 0.4, and a discriminator whose threshold the paper leaves open
FILTER_PRESETS = {
    "default": FilterConfig(),
    "paper": FilterConfig(names=("discriminator", "ssim"), ssim_threshold=0.4),
    "none": FilterConfig(names=()),
}


@dataclass(frozen=True)
class CompareConfig:
    """Everything that one comparison needs besides the models and the data themselves.

    Attributes:
        technique: name in ``diffgen.techniques``.
        preset: name of one of the technique's presets.
        budget: of the search.
        until: "budget": the search goes on until the budget is used up; "saturated": it ends sooner when the last
            ``saturation_queries`` queries found no behaviour that was not known.
        saturation_queries: see ``until``.
        seed: seed of everything random; the same seed and query budget give the same run on the same machine.
        device: "auto" takes a GPU when there is one.
        batch_size: images handed to a network at once, or None: chosen for the device.
        verify_limit: most triggers that are asked again one at a time after the search; the rest in batches.
        preprocessing_a, preprocessing_b: what each model wants done to the images.
        model_a, model_b: how their files are opened.
        label_map: file that maps the classes of B onto those of A, or None: they are the same.
        resize: side of the square that real images are brought to on reading, or None: they keep their size.
        gan_file: checkpoint of a GAN that was trained before, or None: that of the data set, which is trained when the
            cache has none.
    """

    technique: str = "diffgan"
    preset: str = "default"
    budget: Budget = field(default_factory=lambda: Budget(seconds=60.0))
    until: Literal["budget", "saturated"] = "budget"
    saturation_queries: int = 20_000
    seed: int = 0
    device: str = "auto"
    batch_size: int | None = None
    verify_limit: int = 20_000
    gan: GanConfig = field(default_factory=GanConfig)
    generator: GeneratorConfig = field(default_factory=GeneratorConfig)
    search: SearchConfig = field(default_factory=SearchConfig)
    filters: FilterConfig = field(default_factory=FilterConfig)
    preprocessing_a: Preprocessing = field(default_factory=Preprocessing)
    preprocessing_b: Preprocessing = field(default_factory=Preprocessing)
    model_a: ModelConfig = field(default_factory=ModelConfig)
    model_b: ModelConfig = field(default_factory=ModelConfig)
    label_map: str | None = None
    resize: int | None = None
    gan_file: str | None = None


@dataclass(frozen=True)
class Limits:
    """What ``diffgen check`` allows; None: the value is measured and reported, and nothing depends on it.

    Attributes:
        max_disagreement: largest share of images with different labels, 0..1, on the real images and on random valid
            generated ones.
        max_accuracy_drop: by how much the accuracy on the labelled real images may fall, 0..1.
        max_new_behaviours: most behaviours that the search finds and the store does not know.
        max_regression_faults: most labelled real images on which the base is right and the candidate wrong.
        max_shift: largest change of any class's probability, 0..1, on any real or random valid generated image.

    Raises:
        UserError: a value that cannot be.
    """

    max_disagreement: float | None = None
    max_accuracy_drop: float | None = None
    max_new_behaviours: int | None = 0
    max_regression_faults: int | None = None
    max_shift: float | None = None

    def __post_init__(self) -> None:
        for name in ("max_disagreement", "max_accuracy_drop", "max_shift"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise UserError(f"The limit {name} is {value}; give a share from 0 to 1, such as 0.005.")
        for name in ("max_new_behaviours", "max_regression_faults"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UserError(f"The limit {name} is {value}; give a number from 0.")


@dataclass(frozen=True)
class CheckConfig:
    """Everything that ``diffgen check`` needs besides the models and the data.

    Attributes:
        limits: what is allowed.
        random_images: random valid generated images that both models are asked about, besides the search's budget.
        pictures: most pictures of one behaviour that the store keeps.
        reach: a picture is known when the store has one with the same two labels that is no further away in the
            domain encoder's feature space than ``reach`` times the median distance of a real image to its cell.
        compare: the search and everything else; the budget is in queries, so that a check is repeatable.

    Raises:
        UserError: a value that cannot be.
    """

    limits: Limits = field(default_factory=Limits)
    random_images: int = 2000
    pictures: int = 4
    reach: float = 1.25
    compare: CompareConfig = field(default_factory=lambda: CompareConfig(budget=Budget(queries=20_000)))

    def __post_init__(self) -> None:
        for name in ("random_images", "pictures"):
            if getattr(self, name) < 1:
                raise UserError(f"The setting {name} is {getattr(self, name)}; give a number from 1.")
        if not self.reach > 0:
            raise UserError(f"The setting reach is {self.reach}; give a number above 0, such as 1.25.")


@dataclass(frozen=True)
class QuantizeConfig:
    """How an ONNX file is made into one that computes in 8 bits (onnxruntime's quantizer).

    Attributes:
        method: "static": ranges of the activations are measured on real images beforehand; "dynamic": the model finds
            them anew for every batch.
        format: of a static one. "qdq" puts QuantizeLinear and DequantizeLinear around each operator, "qoperator" uses
            operators on integers (QLinearConv, ...).
        activations: type of the activations of a static one; onnxruntime advises uint8 on x86, int8 on ARM.
        per_channel: one scale for each channel of the weights instead of one for all.
        reduce_range: weights of 7 bits, for x86 processors without VNNI, where sums of 8-bit products may overflow.
        calibration: how ranges follow from the activations of a static one: their extremes, the range that keeps most
            of their entropy, or their 99.999th percentile.
        images: most real images that the ranges are measured on, spread over the data.
        batch_size: images handed to the models at once, or None: chosen for the device.
        resize: side of the square that real images are brought to on reading, or None: they keep their size.
        preprocessing: what the model wants done to the images; the 8-bit one gets the same.
    """

    method: Literal["static", "dynamic"] = "static"
    format: Literal["qdq", "qoperator"] = "qdq"
    activations: Literal["uint8", "int8"] = "uint8"
    per_channel: bool = False
    reduce_range: bool = False
    calibration: Literal["minmax", "entropy", "percentile"] = "minmax"
    images: int = 512
    batch_size: int | None = None
    resize: int | None = None
    preprocessing: Preprocessing = field(default_factory=Preprocessing)

    def __post_init__(self) -> None:
        for name, allowed in QUANTIZE_CHOICES.items():
            if getattr(self, name) not in allowed:
                raise UserError(f"The quantization has {name} {getattr(self, name)!r}; give {', '.join(allowed)}.")
        if self.images < 1:
            raise UserError(f"The number of images to calibrate on is {self.images}; give 1 or more.")


QUANTIZE_CHOICES: dict[str, tuple[str, ...]] = {
    "method": ("static", "dynamic"),
    "format": ("qdq", "qoperator"),
    "activations": ("uint8", "int8"),
    "calibration": ("minmax", "entropy", "percentile"),
}


@dataclass(frozen=True)
class LabelConfig:
    """How many triggers a person is asked to label, and which.

    Attributes:
        count: pictures on the sheet, or None: as many as ``confidence`` and ``margin`` ask for.
        confidence, margin: a share among all valid triggers (of those where A is right, say) shall be known within
            this margin with this confidence.
        seed: which pictures are drawn, and their order.
    """

    count: int | None = None
    confidence: float = 0.95
    margin: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("confidence", "margin"):
            if not 0 < getattr(self, name) < 1:
                raise UserError(
                    f"The {name} {getattr(self, name)} does not lie between 0 and 1; give 0.95 or the like."
                )
        if self.count is not None and self.count < 1:
            raise UserError(f"A sheet of {self.count} pictures cannot be; give a number from 1.")
        if self.seed < 0:
            raise UserError(f"The seed {self.seed} is negative; give 0 or more.")


@dataclass(frozen=True)
class SelectorConfig:
    """The selector: a random forest that tells from a picture which of two models is right (paper, section 5.4).

    Attributes:
        features: what the forest sees: "vgg16" as published, "domain" (an encoder of this data), "pixels", or "auto":
            VGG16 where its weights are given or were downloaded before, else "domain".
        features_weights: file with torchvision's weights of VGG16, or None: those that torchvision finds or downloads.
        trees: of the forest.
        balanced: weigh the examples of A and of B so that both count the same.
        both_wrong: keep pictures on which both models are wrong as a third kind; the paper leaves them out.
        limit: most triggers to learn from; of more labelled ones so many are drawn at random.
        folds: parts of the cross-validation.
        source: labels to use: "human", "oracle", "intended", or None: the best there is for each picture.
        seed: of forest, encoder and folds.
    """

    features: Literal["auto", "domain", "vgg16", "pixels"] = "auto"
    features_weights: str | None = None
    trees: int = 300
    balanced: bool = True
    both_wrong: bool = False
    limit: int = 3000
    folds: int = 5
    source: Literal["human", "oracle", "intended"] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low in (("trees", 1), ("limit", 20), ("folds", 2), ("seed", 0)):
            if getattr(self, name) < low:
                raise UserError(f"The selector's {name} {getattr(self, name)} is too small; give {low} or more.")


def to_dict(config: Any) -> dict[str, Any]:
    """A config dataclass as nested plain values, without those that are None (TOML has no null)."""

    def plain(value: Any) -> Any:
        if isinstance(value, Budget):
            return str(value)
        if is_dataclass(value) and not isinstance(value, type):
            return to_dict(value)
        return list(value) if isinstance(value, tuple) else value

    values = {f.name: plain(getattr(config, f.name)) for f in fields(config)}
    return {name: value for name, value in values.items() if value is not None}


def from_dict(kind: type[Any], values: dict[str, Any]) -> Any:
    """The config dataclass ``kind`` from what :func:`to_dict` gave; what is missing keeps its default of None or more.

    Raises:
        UserError: a key that ``kind`` does not have, or a single value where ``kind`` has settings of its own.
    """
    hints = get_type_hints(kind)
    unknown = sorted(set(values) - set(hints))
    if unknown:
        raise UserError(f"The setting {unknown[0]!r} is not known; known ones here are {', '.join(sorted(hints))}.")
    made: dict[str, Any] = {}
    for f in fields(kind):
        if f.name not in values:
            # to_dict leaves out exactly the values that were None
            if f.default is not None and "None" in str(hints[f.name]):
                made[f.name] = None
            continue
        hint, value = hints[f.name], values[f.name]
        if hint is Budget:
            made[f.name] = Budget.parse(value)
        elif is_dataclass(hint):
            if not isinstance(value, dict):
                raise UserError(f"The setting {f.name!r} is {value!r}, but it has settings of its own; give a table.")
            made[f.name] = from_dict(hint, value)  # type: ignore[arg-type]
        else:
            made[f.name] = tuple(value) if isinstance(value, list) else value
    return kind(**made)


__all__ = [
    "DEFAULT_PREPROCESSING",
    "DEFAULT_REMOTE",
    "FILTERS",
    "FILTER_PRESETS",
    "PREPROCESSING_CHOICES",
    "QUANTIZE_CHOICES",
    "Budget",
    "CheckConfig",
    "CompareConfig",
    "DFlareConfig",
    "DrFuzzConfig",
    "FilterConfig",
    "GanConfig",
    "GeneratorConfig",
    "LabelConfig",
    "Limits",
    "ModelConfig",
    "PixelRange",
    "Preprocessing",
    "QuantizeConfig",
    "RemoteConfig",
    "SearchConfig",
    "SelectorConfig",
    "TrainGanConfig",
    "TuningConfig",
    "asdict",
    "from_dict",
    "is_address",
    "replace",
    "to_dict",
]
