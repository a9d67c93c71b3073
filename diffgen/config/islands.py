"""Settings of a search on several workers."""

from __future__ import annotations

from diffgen.config.schema import Maybe, setting, settings

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
