"""What a technique imports late it imports before the clock of its search starts, or equal seconds were not equal."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import diffgen
from diffgen.search.loop import SearchLoop
from diffgen.techniques.diffchaser import DiffChaser
from diffgen.techniques.diverget import DiverGet
from diffgen.techniques.real_data import RealData

# torch is imported once, and each technique has a process with the modules of then
SCRIPT = """
import os
import sys
import numpy as np
import torch
from diffgen.config import Budget, SearchConfig
from diffgen.models import load
from diffgen.search.archive import Archive
from diffgen.search.evaluator import Evaluator
from diffgen.search.loop import SearchLoop
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.techniques import RealImages, TechniqueContext, make
from diffgen.techniques.drfuzz import DrFuzzSettings

images = np.random.default_rng(0).integers(0, 256, (40, 1, 12, 12)).astype(np.uint8)
models = [load(lambda images: np.tile([[0.9, 0.1]], (len(images), 1)), name=name) for name in "ab"]
for model in models:
    model.prepare(images)
answers = np.stack([model.predict(images) for model in models], axis=1)
torch.set_num_threads(1)
for name in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0
        continue
    archive = Archive((1, 12, 12))
    context = TechniqueContext(
        archive=archive, source=None, config=SearchConfig().with_technique(DrFuzzSettings(fidelity="none")), seed=0,
        device=torch.device("cpu"), batch_size=64,
        real=RealImages(images, np.zeros(40, np.int64), KeptAnswers.of(answers)),
    )
    technique = make(name, context)
    technique.warm_up()
    evaluator = Evaluator(models, archive=archive, margin=0.0)
    loop = SearchLoop(technique, evaluator, budget=Budget.parse("300q"), batch_size=64)
    before = set(sys.modules)
    loop.start()
    loop.run()
    late = [each for each in set(sys.modules) - before if each.startswith(("scipy", "skimage", "torchvision"))]
    print(name, evaluator.queries, *sorted(late), flush=True)
    os._exit(0)  # torch takes a second to end in good order
"""


def test_a_search_imports_nothing_of_size_on_its_own_clock() -> None:
    techniques = ["real_data", "dflare", "drfuzz", "diffchaser", "diverget"]
    done = subprocess.run([sys.executable, "-c", SCRIPT, *techniques], capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert [name for name, _ in lines] == techniques, done.stdout
    assert all(int(queries) > 0 for _, queries in lines)


@pytest.mark.parametrize("kind", [DiffChaser, DiverGet])
def test_the_first_pictures_of_a_population_are_made_on_the_clock(
    kind: type[DiffChaser | DiverGet], start: Callable[..., SearchLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, begun = kind.begin, list[int]()

    def begins(technique: DiffChaser | DiverGet, lane: int) -> None:
        begun.append(lane)
        begin(technique, lane)

    monkeypatch.setattr(kind, "begin", begins)
    loop = start(kind)
    loop.technique.warm_up()
    assert begun == []
    assert loop.generation()
    assert begun[:3] == [0, 1, 2]
    count = len(begun)
    rest = start(kind)
    rest.technique.restore(loop.technique.checkpoint())
    rest.technique.propose(64)
    assert len(begun) == count


def test_it_comes_before_the_clock(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    class Warm(RealData):
        def warm_up(self) -> None:
            order.append("warm up")

    start = SearchLoop.start

    def starts(loop: SearchLoop, *, queries: int = 0, seconds: float = 0.0) -> None:
        order.append("start")
        start(loop, queries=queries, seconds=seconds)

    monkeypatch.setattr(SearchLoop, "start", starts)
    models = [repository / "tests" / "assets" / name for name in ("a.onnx", "b.onnx")]
    settings = {"data": "digits:test", "budget": "100q", "filters": "none", "data_labels": "ignore"}
    diffgen.compare(*models, technique=Warm, output=tmp_path / "run", **settings)
    # a technique of one's own is tried out before there is a run folder, on an instance of its own
    assert order == ["warm up", "warm up", "start"]
