"""What a run was made with: versions and device, as the manifest says them."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import torch

_RECORDED_PACKAGES = ("torch", "torchvision", "numpy", "pymoo", "hdbscan", "umap-learn", "scikit-learn", "onnxruntime")


def versions() -> dict[str, str]:
    """Versions of Python, the system and every package that can change a run's outcome."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    return found | {package: installed(package) for package in _RECORDED_PACKAGES}


def installed(package: str) -> str:
    """Its version, or "missing"."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def device_name(device: torch.device) -> str:
    """Such as "cpu" or "cuda:0 (NVIDIA H200)"."""
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
