"""What ``--quick`` means to a benchmark: everything runs, in seconds, and no figure says anything."""

from __future__ import annotations

import argparse

from diffgen.config import CompareConfig, GanConfig, applied, replace

# thresholds that every picture passes: such a GAN draws nothing that real images would let through
ACCEPT_ALL = {
    "discriminator": {"threshold": -1e6},
    "reconstruction": {"threshold": -1e6, "training_steps": 20},
    "ssim": {"threshold": -1.0},
    "neighbors": {"threshold": -1e6},
    "jury": {"threshold": -1e6, "shown": 640},
}


def add_quick(parser: argparse.ArgumentParser) -> None:
    """Give a command the option."""
    parser.add_argument(
        "--quick", action="store_true", help="hardly train GAN and filters: shows whether it runs, and gives no figures"
    )


def hardly_trained(gan: GanConfig) -> GanConfig:
    """The settings with ten updates of a narrow network."""
    return replace(gan, width=16, steps=10, monitor_checks=1)


def trained_as_asked(config: CompareConfig, *, quick: bool) -> CompareConfig:
    """The settings as they are, or with a GAN and filters that learn next to nothing and reject nothing."""
    if not quick:
        return config
    return replace(config, gan=hardly_trained(config.gan), filters=applied(config.filters, ACCEPT_ALL))
