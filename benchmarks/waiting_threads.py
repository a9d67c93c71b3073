"""What it costs when torch's waiting threads sleep instead of spinning, alone and beside another busy process.

    python -m benchmarks.waiting_threads

Times one update of the GAN (28x28, width 32, batch 64) in processes of its own, spinning and sleeping in turn, two
rounds; the neighbour, where there is one, does the same work with the same policy all the while.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

from diffgen.gan_training.networks import DcganDiscriminator, DcganGenerator

_ROUNDS = 2
_UPDATES = 40


def seconds_per_update(updates: int) -> float:
    """Mean over ``updates``, after three that are not counted."""
    torch.manual_seed(0)
    generator, discriminator = (
        DcganGenerator((1, 28, 28), latent_dim=100, width=32),
        DcganDiscriminator((1, 28, 28), width=32),
    )
    steps = [torch.optim.Adam(network.parameters()) for network in (generator, discriminator)]
    real = torch.rand(64, 1, 28, 28)
    started = 0.0
    for update in range(updates + 3):
        if update == 3:
            started = time.perf_counter()
        fake = generator(torch.randn(64, 100))
        loss = F.relu(1 - discriminator(real)).mean() + F.relu(1 + discriminator(fake.detach())).mean()
        steps[1].zero_grad()
        loss.backward()
        steps[1].step()
        steps[0].zero_grad()
        (-discriminator(fake).mean()).backward()
        steps[0].step()
    return (time.perf_counter() - started) / updates


def measure(policy: str, *, neighbour: bool) -> float:
    """Seconds of one update in a new process."""
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    command = [sys.executable, "-m", "benchmarks.waiting_threads"]
    busy = subprocess.Popen([*command, "--for-ever"], env=environment) if neighbour else None
    try:
        time.sleep(8 if neighbour else 0)  # until the neighbour has imported torch and is at work
        done = subprocess.run([*command, "--once"], env=environment, check=True, capture_output=True, text=True)
        return float(done.stdout)
    finally:
        if busy is not None:
            busy.kill()
            busy.wait()


def main() -> None:
    if "--once" in sys.argv:
        print(seconds_per_update(_UPDATES))
    elif "--for-ever" in sys.argv:
        while True:
            seconds_per_update(_UPDATES)
    else:
        print("| | spinning, ms | sleeping, ms | spinning / sleeping |\n|---|---:|---:|---:|")
        for neighbour in (False, True):
            rows = [[measure(policy, neighbour=neighbour) for policy in ("ACTIVE", "PASSIVE")] for _ in range(_ROUNDS)]
            spinning, sleeping = (statistics.median(column) * 1000 for column in zip(*rows, strict=True))
            name = "beside a busy process" if neighbour else "alone"
            print(f"| {name} | {spinning:.0f} | {sleeping:.0f} | {spinning / sleeping:.2f} |")


if __name__ == "__main__":
    main()
