"""diffgen.features.one_cycle: torch's own optimiser and schedule, without torch's compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from diffgen.features.one_cycle import OneCycleAdam


def network() -> nn.Sequential:
    torch.manual_seed(0)
    made = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    made[0].to(memory_format=torch.channels_last)
    return made


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 7, 10, 57, 300])
@pytest.mark.parametrize("rate", [1e-3, 3e-2])
def test_weights_are_those_of_torchs_optimiser_bit_for_bit(steps: int, rate: float) -> None:
    ours, theirs = network(), network()
    # its gradient is missing in every other update
    spare, other = (nn.Parameter(torch.ones(3)) for _ in range(2))
    cycle = OneCycleAdam([*ours.parameters(), spare], rate, steps)
    optimiser = torch.optim.Adam([*theirs.parameters(), other], lr=rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps)
    draws = torch.Generator().manual_seed(1)
    for step in range(steps):
        images, wanted = torch.randn(8, 1, 8, 8, generator=draws), torch.randint(3, (8,), generator=draws)
        added, other_added = (spare, other) if step % 2 else (0.0, 0.0)
        cycle.update(nn.functional.cross_entropy(ours(images) + added, wanted))
        optimiser.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(theirs(images) + other_added, wanted).backward()
        optimiser.step()
        schedule.step()
        for own, expected in zip([*ours.parameters(), spare], [*theirs.parameters(), other], strict=True):
            assert torch.equal(own, expected)
    with pytest.raises(ValueError, match="is over"):
        cycle.update(ours(images).sum())


def test_the_networks_of_a_data_set_learn_without_torchs_compiler(repository: Path) -> None:
    code = (
        "import sys, torch\n"
        "from diffgen.features import encoder, jury, vae\n"
        "encoder._STEPS_GREY = 2\n"
        "images = torch.randint(256, (40, 1, 28, 28), dtype=torch.uint8)\n"
        "encoder.train(images, torch.arange(40) % 10)\n"
        "vae.train(images, steps=2)\n"
        "jury.train(images, torch.arange(40) % 10, shown=200)\n"
        "sys.exit('torch._dynamo' in sys.modules or 'sympy' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
