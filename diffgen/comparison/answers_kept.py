"""Answers of models to a large set of real images, kept in the cache: asking about all of them takes long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch

from diffgen.comparison.known_scores import KnownFigures
from diffgen.comparison.machine import installed, versions
from diffgen.config import to_dict
from diffgen.events import Progress
from diffgen.models import BlackBox
from diffgen.models.noise import NumericNoise
from diffgen.models.panel import panel_of
from diffgen.numerics import all_threads
from diffgen.runs.artifacts import Artifact, read_tensors, unreadable, write_tensors
from diffgen.tasks.kept_answers import KeptAnswers
from diffgen.types import ImageSet

FORMAT = 5
_RUNTIMES = ("ai-edge-litert", "keras", "tensorflow", "jax")  # that answer for models, beside those of every run
Asked = tuple[KeptAnswers, list[NumericNoise], KnownFigures]


def asked_once(models: Sequence[BlackBox], data: ImageSet, ask: Callable[[], Asked], progress: Progress) -> Asked:
    """What models say of all real images, and how much that moves: from the cache where the set is a large one.

    Models that are Python objects, those whose code is not in their file, and those that a server answers for, are
    asked every time; so are all after an update of what computes their answers.

    Args:
        data: a set is large when it is mapped from a file.
        progress: is told where the answers come from.
    """
    told_by_file = [
        each.digest is not None and each.url is None and each.arch is None and not each.unpickled for each in models
    ]
    if not isinstance(data.images, np.memmap) or not all(told_by_file):
        return ask()
    artifact = Artifact(
        "answers",
        {
            "format": FORMAT,
            "data": data.digest,
            "threads": all_threads(),
            **({} if (panel := panel_of(models)) is None else {"task": repr(panel.task)}),
            "versions": versions() | {package: installed(package) for package in _RUNTIMES},
            "models": [
                {
                    "digest": each.digest,
                    "format": each.format,
                    "device": str(each.device),
                    "batch size": each.batch_size,
                    "isolated": each.isolated,
                    "preprocessing": to_dict(each.preprocessing),
                    "class order": list(each.class_order),
                }
                for each in models
            ],
        },
    )

    def make(path: Path) -> Asked:
        answers, noises, known = ask()
        tensors = {"probabilities": torch.from_numpy(answers.probabilities)}
        if answers.classes is not None:
            tensors["classes"] = torch.from_numpy(answers.classes)
        noted = {"count": answers.count, "noises": [asdict(each) for each in noises], "known": asdict(known)}
        write_tensors(path, tensors, noted)
        return answers, noises, known

    def load(path: Path) -> Asked:
        try:
            header, tensors = read_tensors(path)
            classes = tensors["classes"].numpy() if "classes" in tensors else None
            answers = KeptAnswers(tensors["probabilities"].numpy(), classes, int(header["count"]))
            noises = [NumericNoise(**each) for each in header["noises"]]
            known = KnownFigures(**header["known"] | {"scores": tuple(header["known"]["scores"])})
            if len(answers) != len(data) or len(noises) != len(models):
                raise ValueError("it holds answers to other images")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise unreadable("The file of the models' answers", path, error) from error
        progress.say(f"What the models say of the {len(data):,} real images is in the cache ({path.name}).")
        for model, noise in zip(models, noises, strict=True):
            if noise.alone:
                model.ask_alone()
        return answers, noises, known

    return artifact.obtain(load, make, progress)
