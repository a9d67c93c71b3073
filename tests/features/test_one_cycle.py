"""Our optimiser against torch's own, to the last bit."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from diffgen.features.one_cycle import OneCycleAdam, one_cycle


def _network() -> nn.Module:
    layers = [nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 36, 7)]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 10, 33])
def test_it_computes_what_torch_does(steps: int) -> None:
    torch.manual_seed(steps)
    ours = _network()
    theirs, batches = copy.deepcopy(ours), torch.randn(steps, 4, 3, 8, 8)
    own = OneCycleAdam(ours.parameters(), 0.01, steps=steps)
    adam = torch.optim.Adam(theirs.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(adam, 0.01, total_steps=steps)
    for step, batch in enumerate(batches):
        group = adam.param_groups[0]
        assert one_cycle(step, steps, 0.01) == (group["lr"], group["betas"][0])
        ours(batch).square().sum().backward()
        own.step()
        adam.zero_grad()
        theirs(batch).square().sum().backward()
        adam.step()
        schedule.step()
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(one, other)


def test_released_parameters_are_on_their_own() -> None:
    network = _network()
    formats = [each.stride() for each in network.parameters()]
    optimiser = OneCycleAdam(network.parameters(), 0.01, steps=5)
    network(torch.randn(2, 3, 8, 8)).sum().backward()
    optimiser.step()
    optimiser.released()
    parameters = list(network.parameters())
    assert [each.stride() for each in parameters] == formats
    assert all(each.untyped_storage().nbytes() == 4 * each.numel() and each.grad is None for each in parameters)


def test_the_compiler_of_torch_is_not_imported() -> None:
    lesson = (
        "import sys, torch; from diffgen.features import vae; "
        "vae.train(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), steps=2); "
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", lesson], check=True)
