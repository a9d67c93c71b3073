"""Operators that step among the codes of an auto-encoder and keep the image's detail: ``x + D(z') - D(z)``.

Towards another real image (as Argus and Latte interpolate codes), noise on the code, and noise on the image that the
auto-encoder restores (DiffAug, Sastry et al. 2023, with a denoiser's single step).
"""

from __future__ import annotations

import torch

from diffgen.features.vae import AutoEncoder
from diffgen.sources.operators.base import Axis, Operator, Range, Scene, Strengths, column, normal_patterns, to_bytes


def _auto_encoder(scene: Scene) -> AutoEncoder:
    if scene.auto_encoder is None:
        raise RuntimeError("this operator needs the auto-encoder")
    return scene.auto_encoder


def _towards(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    network = _auto_encoder(scene)
    pixels = images.to(torch.float64)
    others = scene.seeds[[int(each["other"]) for each in strengths]].to(torch.float64)
    codes = network.encode(pixels)
    share = column(strengths, "share")[:, :, 0, 0]
    return to_bytes(network.stepped(pixels, codes, codes + share * (network.encode(others) - codes)))


def _vary(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    network = _auto_encoder(scene)
    pixels = images.to(torch.float64)
    codes = network.encode(pixels)
    noise = normal_patterns(strengths, tuple(codes.shape[1:]))
    noise = noise * network.spread * column(strengths, "sigma")[:, :, 0, 0]
    return to_bytes(network.stepped(pixels, codes, codes + noise))


def _restore(images: torch.Tensor, scene: Scene, strengths: Strengths) -> torch.Tensor:
    network = _auto_encoder(scene)
    pixels = images.to(torch.float64)
    noise = normal_patterns(strengths, tuple(images.shape[1:])) * column(strengths, "levels")
    # a picture has no grey levels beyond these
    noisy = (pixels + noise).clamp(0, 255)
    return to_bytes(network.stepped(pixels, network.encode(pixels), network.encode(noisy)))


OPERATORS = {
    "noise_and_restore": Operator(
        (Axis("levels", Range(0, 0, 30), Range(0, 0, 120), unit=" grey levels"),),
        _restore,
        patterned=True,
        learned=True,
    ),
    "towards": Operator((Axis("share", Range(0, 0, 0.2), Range(0, 0, 0.6)),), _towards, towards=True, learned=True),
    "code_noise": Operator((Axis("sigma", Range(0, 0, 0.5), Range(0, 0, 2)),), _vary, patterned=True, learned=True),
}
