"""What a technique or a source of one's own gives is looked at before any model is asked about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from diffgen.comparison.checkpoints import Checkpointer
from diffgen.config import Budget
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.origins import Origins
from diffgen.runs.folder import RunFolder
from diffgen.search.archive import Archive
from diffgen.search.evaluator import Evaluator
from diffgen.search.loop import SearchLoop
from diffgen.search.proposal import Proposal
from diffgen.sources.gan import GanSource

DIGITS = load("digits:test")
REAL = len(DIGITS)


class Given:
    """Proposes the first real images with something changed, and keeps a state."""

    finished, between_generations = False, True

    def __init__(self, change: Callable[[Proposal], Any] = lambda proposal: proposal, state: Any = None) -> None:
        self._change, self._state = change, state

    def propose(self, room: int) -> Any:
        images = torch.from_numpy(DIGITS.images[:room])
        return self._change(Proposal(images, generation=1, origins=Origins(np.arange(room), ("",) * room)))

    def learn(self, proposal: Any, answers: Any) -> None:
        pass

    def checkpoint(self) -> Any:
        return self._state


@pytest.fixture
def loop_of(make_evaluator: Callable[..., Evaluator]) -> Callable[..., SearchLoop]:
    def make(technique: Any, **settings: Any) -> SearchLoop:
        evaluator = make_evaluator(real_images=DIGITS.images, unchanged_count=True, **settings)
        loop = SearchLoop(technique, evaluator, budget=Budget.parse("200q"), batch_size=64)
        loop.start()
        return loop

    return make


def with_origins(seeds: Any, recipes: int = 64) -> Callable[[Proposal], Proposal]:
    return lambda proposal: replace(proposal, origins=Origins(seeds, ("",) * recipes))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda proposal: None, r"proposes NoneType; its propose\(\) must give a diffgen\.Proposal"),
        (lambda proposal: replace(proposal, images=proposal.images / 255), r"images as Tensor of torch\.float32"),
        (lambda proposal: replace(proposal, images=proposal.images.numpy()), "images as ndarray of uint8"),
        (lambda proposal: replace(proposal, images=proposal.images[:, :, 1:]), r"must give .*uint8 \(N, 1, 28, 28\)"),
        (lambda proposal: replace(proposal, genes=torch.zeros(3, 2)), "other genes than one row for each of 64"),
        (lambda proposal: replace(proposal, genes=np.zeros((64, 2))), r"genes as ndarray; give a torch\.Tensor"),
        (lambda proposal: replace(proposal, genes=torch.zeros(64)), "other genes than one row for each of 64"),
        (lambda proposal: replace(proposal, genes=torch.full((64, 2), torch.nan)), "genes that are not finite"),
        (lambda proposal: replace(proposal, genes=torch.zeros(64, 2).requires_grad_()), r"genes .*; detach\(\) them"),
        (lambda proposal: replace(proposal, generation=None), "the generation None; give a whole number"),
        (lambda proposal: replace(proposal, generation=1.5), r"the generation 1\.5; give a whole number"),
        (with_origins(np.arange(64) + REAL), rf"in the real image {REAL}, but there are {REAL}, from 0 on"),
        (with_origins(np.arange(64) - 2), "in the real image -2, "),
        (with_origins(np.arange(3), 3), "gives 3 origins for 64 images"),
        (with_origins(np.arange(64), 3), "whose seeds are no int64 array with one row for each recipe"),
        (with_origins([0] * 64), "whose seeds are no int64 array"),
        (with_origins(np.arange(64.0)), "whose seeds are no int64 array"),
    ],
)
def test_a_fault_of_a_technique_is_named(
    change: Callable[[Proposal], Any], said: str, loop_of: Callable[..., SearchLoop]
) -> None:
    loop = loop_of(Given(change))
    with pytest.raises(UserError, match=f"^The technique Given .*{said}"):
        loop.run()
    assert loop.evaluator.queries == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda proposal: replace(proposal, origins=None), r"origins for some .*; give them for all, diffgen\.Origins"),
        (lambda proposal: replace(proposal, genes=torch.zeros(len(proposal), 2)), r"genes than before \(2, not none\)"),
    ],
)
def test_a_technique_that_changes_what_it_tells_loses_no_finds(
    change: Callable[[Proposal], Any], said: str, loop_of: Callable[..., SearchLoop], tmp_path: Path
) -> None:
    proposals = iter([lambda proposal: proposal] * 2 + [change])
    folder = RunFolder.create(tmp_path / "run", config={}, manifest={"status": "running"}, force=False)
    loop = loop_of(
        Given(lambda proposal: next(proposals)(proposal)), archive=Archive(DIGITS.image_shape, sink=folder.write_part)
    )
    with pytest.raises(UserError, match=f"^The technique Given .*{said}"):
        loop.run()
    assert loop.evaluator.queries == 128
    loop.evaluator.archive.flush(everything=True)
    assert len(RunFolder.open(folder.path).read_triggers()) == len(loop.evaluator.archive) > 0


def test_without_a_fault_the_search_ends_at_its_budget(loop_of: Callable[..., SearchLoop]) -> None:
    loop = loop_of(Given())
    loop.run()
    assert loop.evaluator.queries == 200


@pytest.mark.parametrize(("told", "said"), [((REAL,), f"in the real image {REAL}"), ((0, 1), "2 origins for")])
def test_a_source_that_tells_origins_that_cannot_be_is_named(
    told: tuple[int, ...], said: str, generator: GanSource, make_evaluator: Callable[..., Evaluator]
) -> None:
    class Liar:
        space, image_shape, draw = generator.space, generator.image_shape, generator.draw

        def origins(self, genes: torch.Tensor) -> Origins:
            seeds = np.resize(np.array(told), 2 if len(told) == 2 else len(genes))
            return Origins(seeds, ("",) * len(seeds))

    genes = torch.randn(200, generator.space.length, generator=torch.Generator().manual_seed(0))
    proposal = Proposal(generator.draw(genes), 1, genes, source=Liar())  # type: ignore[arg-type]
    with pytest.raises(UserError, match=f"^The source Liar gives .*{said}"):
        make_evaluator(real_images=DIGITS.images).ask(proposal)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"rng": np.random.default_rng(0)}, "Generator is not JSON serializable"),
        ({"rows": np.array([None])}, "holds Python objects"),
        ({"queries": 3}, "names that are taken: queries"),
        (None, "has no attribute 'keys'"),
    ],
)
def test_a_state_that_cannot_be_kept_is_the_techniques_fault(
    state: Any, said: str, loop_of: Callable[..., SearchLoop], tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "run", config={}, manifest={"status": "running"}, force=False)
    loop = loop_of(Given(state=state), archive=Archive(DIGITS.image_shape, sink=folder.write_part))
    keeper = Checkpointer(folder, loop.technique, loop, {"seconds": [], "queries": [], "triggers": []})
    with pytest.raises(UserError, match=rf"^The state of the technique Given cannot be kept \(.*{said}.*\); its"):
        loop.run(on_generation=keeper.after_generation)
    assert RunFolder.open(folder.path).trigger_count == len(loop.evaluator.archive) > 0
