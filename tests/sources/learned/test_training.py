"""diffgen.sources.learned.training, on a lesson so small that it takes no time: the mean of images."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from diffgen.errors import RunError, Stopped
from diffgen.events import Event, Message, Progress, StageAdvanced
from diffgen.sources.learned import training
from diffgen.sources.learned.training import Plan, Training, train

CPU = torch.device("cpu")


class Mean:
    """Learns the mean of images, one value a pixel, from a noisy look at some."""

    def __init__(self, rate: float = 0.05) -> None:
        self.network = nn.Linear(1, 4, bias=False)
        nn.init.zeros_(self.network.weight)
        self.networks = {"mean": self.network}
        self.optimisers = {"mean": torch.optim.Adam(self.network.parameters(), lr=rate)}

    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        seen = images.flatten(1) / 255 + torch.randn(len(images), 4, generator=rng)
        loss = (self.network(torch.ones(1, 1)) - seen).square().mean()
        self.optimisers["mean"].zero_grad()
        loss.backward()
        self.optimisers["mean"].step()
        return {"loss": loss.detach()}

    def error(self, images: torch.Tensor) -> float:
        return float((self.network(torch.ones(1, 1)) - images.flatten(1) / 255).square().mean())


class Broken(Mean):
    def update(self, images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        return {"loss": super().update(images, rng)["loss"] * torch.nan}


def images(count: int, seed: int) -> torch.Tensor:
    levels = torch.tensor([10, 80, 160, 240]).reshape(1, 1, 2, 2)
    noise = torch.randint(-9, 10, (count, 1, 2, 2), generator=torch.Generator().manual_seed(seed))
    return (levels + noise).to(torch.uint8)


def broken_off(lesson: Mean, plan: Plan, state: Path, step: int) -> None:
    """Learn until somebody stops it in the middle of a step."""
    progress, update, steps = Progress(), lesson.update, iter(range(1, plan.steps))

    def stopped(images: torch.Tensor, rng: torch.Generator) -> dict[str, torch.Tensor]:
        if next(steps) == step:
            progress.stop.stop()
        return update(images, rng)

    lesson.update = stopped  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        learn(lesson, plan, state=state, progress=progress)


def learn(lesson: Mean, plan: Plan, **given: object) -> Training:
    return train(lesson, images(300, 0), images(60, 1), plan, device=CPU, **given)  # type: ignore[arg-type]


def test_it_learns_and_is_measured() -> None:
    lesson, plan = Mean(), Plan("the mean", 600, 16, 0, ends_early=False)
    done = learn(lesson, plan)
    assert (done.step, done.ends, len(done.readings)) == (600, 600, 12)
    assert done.readings[-1].error < 0.01 < done.readings[0].error
    assert not lesson.network.training
    assert not lesson.network.weight.requires_grad


def test_it_ends_early_where_it_stands_still() -> None:
    said: list[str] = []
    done = learn(
        Mean(rate=0.2),
        Plan("the mean", 2_400, 16, 0),
        progress=Progress(lambda event: said.append(event.text) if isinstance(event, Message) else None),
    )
    assert done.step == done.ends == done.falls_from + round(0.4 * 2_400) < 2_400
    assert any("stands still" in text for text in said)


def test_the_rate_rises_stays_and_falls() -> None:
    plan = Training(0, 600, 1_000)
    rates = []
    for step in (0, 49, 99, 599, 800, 999):
        plan.step = step
        rates.append(round(plan.rate(), 4))
    assert rates == [0.01, 0.5, 1.0, 1.0, 0.5, 0.0025]


@pytest.mark.parametrize("stop_at", [1, 250, 470])
def test_taken_up_it_ends_as_if_it_had_not_been_stopped(tmp_path: Path, stop_at: int) -> None:
    plan = Plan("the mean", 500, 16, 3)
    whole, broken, resumed = Mean(), Mean(), Mean()
    expected = learn(whole, plan)
    broken_off(broken, plan, tmp_path / "state", stop_at)
    said: list[Event] = []
    done = learn(resumed, plan, state=tmp_path / "state", progress=Progress(said.append))
    assert any(isinstance(each, Message) and f"goes on after step {stop_at}" in each.text for each in said)
    assert torch.equal(resumed.network.weight, whole.network.weight)
    assert done.readings == expected.readings
    assert not (tmp_path / "state").exists()


def test_a_listener_that_stops_it_loses_nothing(tmp_path: Path) -> None:
    progress = Progress()

    def listen(event: Event) -> None:
        if isinstance(event, StageAdvanced) and event.done == 200:
            progress.stop.stop()

    progress.listener = listen
    with pytest.raises(Stopped):
        learn(Mean(), Plan("the mean", 500, 16, 3), state=tmp_path / "state", progress=progress)
    resumed, whole = Mean(), Mean()
    learn(resumed, Plan("the mean", 500, 16, 3), state=tmp_path / "state")
    learn(whole, Plan("the mean", 500, 16, 3))
    assert torch.equal(resumed.network.weight, whole.network.weight)


@pytest.mark.parametrize("damage", ["truncated", "another plan"])
def test_unfinished_training_of_no_use_is_begun_anew(tmp_path: Path, damage: str) -> None:
    plan = Plan("the mean", 300, 16, 3)
    broken_off(Mean(), plan, tmp_path / "state", 100)
    if damage == "truncated":
        (tmp_path / "state").write_bytes((tmp_path / "state").read_bytes()[:-40])
    else:
        plan = Plan("the mean", 280, 16, 3)
    said: list[Event] = []
    resumed, whole = Mean(), Mean()
    learn(resumed, plan, state=tmp_path / "state", progress=Progress(said.append))
    learn(whole, plan)
    assert any(isinstance(each, Message) and "starts anew" in each.text for each in said)
    assert torch.equal(resumed.network.weight, whole.network.weight)


def test_a_loss_that_is_no_number_ends_it() -> None:
    with pytest.raises(RunError, match="diverged at step 10"):
        learn(Broken(), Plan("the mean", 100, 16, 0))


def test_readings_look_at_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_MEASURED", 7)
    seen: list[int] = []

    class Watched(Mean):
        def error(self, images: torch.Tensor) -> float:
            seen.append(len(images))
            return super().error(images)

    learn(Watched(), Plan("the mean", 24, 16, 0))
    assert set(seen) == {7}
