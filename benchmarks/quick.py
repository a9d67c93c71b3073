"""What ``--quick`` means to a benchmark: everything runs, in seconds, and no figure says anything."""

from __future__ import annotations

import argparse

from diffgen.config import CompareConfig, GanConfig, replace

_FILTER_STEPS = 20
# thresholds that every picture passes: such a GAN draws nothing that real images would let through
_ACCEPT_ALL = {
    "discriminator_threshold": -1e6,
    "reconstruction_threshold": -1e6,
    "ssim_threshold": -1.0,
    "neighbors_threshold": -1.0,
    "jury_threshold": -1e6,
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
    filters = replace(config.filters, training_steps=_FILTER_STEPS, jury_shown=640, **_ACCEPT_ALL)
    return replace(config, gan=hardly_trained(config.gan), filters=filters)
