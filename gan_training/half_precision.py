"""Mixed precision where the hardware computes in bfloat16; master weights, losses and averages stay float32."""

from __future__ import annotations

import contextlib
from contextlib import AbstractContextManager
from pathlib import Path

import torch

# as the kernel of Linux names what the processor can
_CPU_FLAGS = ("avx512_bf16", "amx_bf16")


def has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is fast on a device; elsewhere it is emulated, and slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    try:
        known = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:  # not Linux: float32 is always right
        return False
    return not known.isdisjoint(_CPU_FLAGS)


def autocast(device: torch.device, *, enabled: bool) -> AbstractContextManager[object]:
    """bfloat16 for convolutions and matrix products, or nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if enabled else contextlib.nullcontext()
