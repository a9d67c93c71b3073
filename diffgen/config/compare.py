"""One comparison."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import PlainValidator, WithJsonSchema

from diffgen.config.budget import Budget
from diffgen.config.gan import GanConfig, GeneratorConfig, TuningConfig
from diffgen.config.images import SEEDS, ReadingConfig, SplitConfig
from diffgen.config.models import MAX_MODELS, ModelSpec
from diffgen.config.parts import FilterConfig, SourceConfig
from diffgen.config.schema import FileName, Many, Maybe, setting, settings
from diffgen.config.search import SearchConfig
from diffgen.config.task import TaskConfig
from diffgen.errors import UserError

LARGEST = 1_000


@settings("islands")
class IslandConfig:
    """How many islands search side by side, where they do, and what they tell each other.

    The number of islands, ``generations`` and ``migrants`` are part of a run: with a budget in queries the same ones
    give the same run. Where they search is not.
    """

    workers: int = setting(
        1,
        "Searches side by side, each in a process of its own; 1: in this process.",
        option="--workers",
        metavar="N",
        common=True,
        brief="Searches side by side, each in a process of its own.",
        ge=1,
        le=LARGEST,
    )
    ray: str = setting(
        "none",
        "Where the workers run: on a Ray cluster, whose address this is (host:port or ray://host:port); auto: that of "
        "this machine, or one that is started for the run; none: in processes of this machine. "
        "Needs pip install diffgen[ray].",
        option="--ray",
        metavar="auto|ADDRESS",
    )
    threads: Maybe[int] = setting(
        None,
        "Threads of each worker; auto: its share of this machine's, on a Ray cluster one.",
        ge=1,
        le=1_024,
    )
    generations: int = setting(
        5, "Generations between two reports of a worker; a worker that dies loses no more.", ge=1, le=10**6
    )
    migrants: int = setting(
        16,
        "Most pictures that a worker is told of every other one's after a report; 0: workers tell each other nothing.",
        ge=0,
        le=10_000,
    )

    @property
    def used(self) -> bool:
        """Whether the search runs on workers at all."""
        return self.workers > 1 or self.ray != "none"


def _budget(value: Any) -> Budget:
    if not isinstance(value, str | Budget):
        raise ValueError(f'is {value!r}; give text such as "60s" or "20000q".')
    try:
        return Budget.parse(value)
    except UserError as error:
        raise ValueError(f"cannot be: {error}") from error


Limited = Annotated[Budget, PlainValidator(_budget), WithJsonSchema({"type": "string", "examples": ["60s", "20000q"]})]


@settings()
class CompareConfig(ReadingConfig):
    """Everything that one comparison needs besides the data.

    The same seed and query budget give the same run on the same machine.
    """

    technique: str = setting(
        "diffgan",
        "How pictures are made and searched for.",
        option="--technique",
        metavar="NAME",
        common=True,
    )
    preset: str = setting(
        "default",
        "Settings of the technique together: default; paper, as published, which some have; or another of its own, as "
        "diffgan has diffgan: GAN, search, both filters of the paper, and the selector.",
        option="--preset",
        metavar="NAME",
    )
    budget: Limited = setting(
        factory=lambda: Budget(seconds=60.0),
        about="Search budget, in time, in queries, or both.",
        option="--budget",
        metavar="60s|20000q",
        common=True,
    )
    until: Literal["budget", "saturated"] = setting(
        "budget",
        "budget, or saturated: end sooner, when the last saturation_queries queries found no new behaviour.",
        option="--until",
    )
    saturation_queries: int = setting(
        20_000, "Queries without a new behaviour after which a search is saturated.", ge=1, le=10**12
    )
    stop_after: Literal["real", "variations", "search"] = setting(
        "search",
        "real, variations or search: which answer is the last one; what real images say, what plain variations of them "
        "say, or what a search finds. --resume goes on.",
        option="--stop-after",
    )
    ask: Literal["all", "staged"] = setting(
        "all",
        "Of four classifiers and more: ask all about every picture, or (staged) first the two that differ on most real "
        "images, and the others about what these differ on and about a sample.",
        option="--ask",
    )
    ask_share: float = setting(
        0.1, "Share of the other pictures that all models are asked about, where they are asked in stages.", ge=0, le=1
    )
    seed: int = setting(
        0, "Seed of everything random in the search.", option="--seed", metavar="N", common=True, ge=0, le=SEEDS
    )
    device: str = setting(
        "auto",
        "Where networks compute; auto: on a GPU when there is one.",
        option="--device",
        metavar="auto|cpu|cuda|mps",
        common=True,
        brief="Where networks compute.",
    )
    batch_size: Maybe[int] = setting(
        None,
        "Images that a network gets at once (default: chosen for the device).",
        option="--batch-size",
        metavar="auto|N",
    )
    verify_limit: int = setting(
        500,
        "Maximum number of triggers that the models are asked about again one by one after the search, those that the "
        "report shows first; the others are asked about in batches.",
        ge=0,
        le=10**9,
    )
    task: TaskConfig = setting(factory=TaskConfig)
    split: SplitConfig = setting(factory=SplitConfig)
    source: SourceConfig = setting(factory=SourceConfig)
    gan: GanConfig = setting(factory=GanConfig)
    generator: GeneratorConfig = setting(factory=GeneratorConfig)
    search: SearchConfig = setting(factory=SearchConfig)
    filters: FilterConfig = setting(factory=FilterConfig)
    islands: IslandConfig = setting(factory=IslandConfig)
    models: Many[ModelSpec] = setting(
        (), "The models, two or more, or none: those that are given, as they are (a [[models]] table for each)."
    )
    tuning: TuningConfig = setting(factory=TuningConfig)
    select: bool = setting(
        False,
        "Train the selector on what the search found: it tells from a picture which classifier to trust.",
        option="--select",
    )
    oracle: FileName = setting(
        None,
        "A classifier that is better than those under test, to label what the selector learns from (default: the "
        "labels that people gave the run, or else the jury's).",
        option="--oracle",
        metavar="MODEL",
    )
    jury: FileName = setting(
        None,
        "A classifier that is not under test and says what pictures show, in place of the jury of small classifiers "
        "that is trained on the real images.",
        option="--jury",
        metavar="MODEL",
    )
    data_labels: Literal["auto", "use", "ignore"] = setting(
        "auto",
        "Classification: whether the labels of the data are the models' classes: use them, ignore them (nobody can be "
        "named wrong), or find out.",
        option="--data-labels",
    )
    gan_file: FileName = setting(
        None,
        "A GAN that 'diffgen train-gan DATA --output FILE' made, so that none is trained.",
        option="--gan",
    )

    def __post_init__(self) -> None:
        if len(self.models) == 1 or len(self.models) > MAX_MODELS:
            raise UserError(
                f"A comparison needs two models, or more, up to {MAX_MODELS}; {len(self.models)} are named (models)."
            )
