"""What it costs when torch's waiting threads sleep instead of spinning, alone and beside another busy process.

    python -m benchmarks.waiting_threads

Times one update of the GAN (28x28, width 32, batch 64) in processes of its own, spinning and sleeping in turn, two
rounds; the neighbour, where there is one, does the same work with the same policy all the while.
"""

from __future__ import annotations

import argparse
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


def measure(policy: str, *, neighbour: bool, updates: int) -> float:
    """Seconds of one update in a new process."""
    environment = {**os.environ, "OMP_WAIT_POLICY": policy}
    command = [sys.executable, "-m", "benchmarks.waiting_threads"]
    busy = None
    try:
        if neighbour:
            busy = subprocess.Popen([*command, "--for-ever"], env=environment, stdout=subprocess.PIPE)
            assert busy.stdout is not None
            busy.stdout.readline()  # it has imported torch and is at work
        once = [*command, "--once", "--updates", str(updates)]
        return float(subprocess.run(once, env=environment, check=True, capture_output=True, text=True).stdout)
    finally:
        if busy is not None:
            busy.kill()
            busy.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=_UPDATES, help="that are timed (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="default: %(default)s")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--for-ever", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        print(seconds_per_update(arguments.updates))
    elif arguments.for_ever:
        print(seconds_per_update(1), flush=True)
        while True:
            seconds_per_update(_UPDATES)
    else:
        print("| | spinning, ms | sleeping, ms | spinning / sleeping |\n|---|---:|---:|---:|")
        for neighbour in (False, True):
            rows = [
                [measure(policy, neighbour=neighbour, updates=arguments.updates) for policy in ("ACTIVE", "PASSIVE")]
                for _ in range(arguments.rounds)
            ]
            spinning, sleeping = (statistics.median(column) * 1000 for column in zip(*rows, strict=True))
            name = "beside a busy process" if neighbour else "alone"
            print(f"| {name} | {spinning:.0f} | {sleeping:.0f} | {spinning / sleeping:.2f} |")


if __name__ == "__main__":
    main()
