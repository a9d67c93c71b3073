"""The tables of the SINVAD, GIFTbench and Argus papers from runs of these techniques, published figures beside them.

    python -m benchmarks.latent_tables RUN [RUN ...]

RUN is the folder of a run of ``--technique sinvad``, ``giftbench``, ``argus`` or ``latte``; each table has a line for
every run and model that it can be made of. Searches count up to the first one that the run's end has cut off: of those
begun later, the ones that reached their aim soon would be too many.

The tables stand in benchmarks/results/papers.md, with what cannot be compared.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.significance import a12
from diffgen.comparison.opened_run import OpenedRun
from diffgen.events import Progress
from diffgen.metrics.ssim import structural_similarity
from diffgen.origins import read_recipe
from diffgen.runs.folder import RunFolder
from diffgen.runs.triggers import TriggerTable
from diffgen.techniques.argus import SHARES
from diffgen.types import ImageSet

# SINVAD, table 3: mean difference of the two highest probabilities, of its pictures and of the test set; Cliff's delta
BOUNDARY = {"MNIST": (0.0638, 0.9957, -0.98), "Fashion-MNIST": (0.1330, 0.9186, -0.92)}
# GIFTbench (ICST 2025), table III: viable seeds %, misclassified %, iterations, valid %, label preserved %
WALKS = {
    "MNIST, low, VAE": (99, 4.04, 245.41, 50.00, 100.00),
    "MNIST, low, GAN": (99, 8.08, 242.05, 75.00, 83.33),
    "MNIST, low, DM": (87, 50.57, 164.61, 45.45, 30.00),
    "MNIST, high, VAE": (99, 100.00, 62.92, 73.74, 49.32),
    "MNIST, high, GAN": (99, 96.97, 107.46, 69.79, 62.69),
    "MNIST, high, DM": (87, 100.00, 26.77, 40.23, 34.29),
}
# table II, MNIST: length of the latent vector, minutes of training, ms of one picture
SPACES = {"VAE": (400, 6, 0.27), "GAN": (100, 9, 0.70), "DM": (16_384, 405, 960.68)}
# Argus, tables 1 and 3, LeNet-5 on MNIST: MSE, SSIM, label diversity, error rate, success rate
INTERPOLATED = {
    0.1: (0.0012, 0.9902, 3.6, 0.2094, 1.0),
    0.2: (0.0019, 0.9094, 5.1, 0.3134, 1.0),
    0.3: (0.0066, 0.8768, 8.6, 0.4375, 1.0),
}
# table 4, Argus-0.2 on CIFAR-10, ResNet-18: MSE, SSIM, label diversity, error rate
ABLATED = {
    "the whole": (0.0076, 0.8224, 6.1, 0.400),
    "without the quantiser": (0.0243, 0.6594, 6.0, 0.323),
    "without the quantiser and the discriminators": (0.0301, 0.6971, 6.1, 0.369),
}


@dataclass(frozen=True)
class Run:
    """A run of one of these techniques, opened.

    Attributes:
        folder: of the run.
        counted: what the technique itself counted.
    """

    folder: RunFolder
    counted: dict[str, NDArray[Any]]

    @classmethod
    def open(cls, path: Path) -> Run:
        """The run in a folder."""
        folder = RunFolder.open(path)
        counted = folder.read_arrays("outcomes")
        if "number" in counted:
            fair = begun_before_all_that_go_on(counted["number"], counted.get("worker"))
            counted = {name: values[fair] for name, values in counted.items() if name != "under_way"}
        return cls(folder, counted)

    @cached_property
    def opened(self) -> OpenedRun:
        """Its settings, data and models."""
        return OpenedRun(self.folder, "cpu")

    @property
    def technique(self) -> str:
        """Its name."""
        return self.opened.config.technique

    @property
    def own(self) -> dict[str, Any]:
        """The technique's own settings."""
        return dict(self.opened.config.search.techniques.get(self.technique, {}))

    @property
    def family(self) -> str:
        """The family of its source; a vq with discriminators is another one."""
        source = self.opened.config.source
        adversaries = source.families.get(str(source.family), {}).get("discriminators", False)
        return f"{source.family} with discriminators" if adversaries else str(source.family)

    @cached_property
    def triggers(self) -> TriggerTable:
        """With verdicts."""
        return self.folder.read_judged()

    @cached_property
    def data(self) -> ImageSet:
        """The real images."""
        return self.opened.data(None, purpose="make tables of it", progress=Progress())

    @cached_property
    def real_margins(self) -> NDArray[np.float64]:
        """float64 (N, M): difference of the two highest probabilities that each model gives each real image."""
        answers = []
        for model in self.opened.models():
            model.prepare(self.data.images[:200])
            answers.append(model.predict(self.data.images))
        return top_two(np.stack(answers, axis=1))

    @cached_property
    def steps(self) -> list[dict[str, float]]:
        """The strengths of the step that made each trigger; none for a seed that was encoded and drawn again."""
        if self.triggers.recipes is None:  # it found nothing
            return []
        return [dict(read_recipe(each.decode())[0].strengths) for each in self.triggers.recipes.tolist()]


def begun_before_all_that_go_on(number: NDArray[Any], worker: NDArray[Any] | None) -> NDArray[np.bool_]:
    """bool (n,): the searches whose figures are fair; when a run ends, those that have not reached their aim go on.

    Args:
        number: int (n,), of the searches that ended, in the order in which their worker began them.
        worker: int (n,), whose they are; None: there was one.
    """
    fair = np.zeros(len(number), dtype=bool)
    owners = np.zeros(len(number), dtype=np.int64) if worker is None else worker
    for each in np.unique(owners):
        own = owners == each
        ended = np.isin(np.arange(own.sum() + 1), number[own])
        fair[own] = number[own] < np.argmin(ended)
    return fair


def top_two(probabilities: NDArray[Any]) -> NDArray[np.float64]:
    """float64 (N, M): highest less second highest probability, for (N, M, K); SINVAD's Eq. 3."""
    highest = np.sort(probabilities.astype(np.float64), axis=2)[:, :, -2:]
    return np.asarray(highest[:, :, 1] - highest[:, :, 0])


def ends_of(run: Run) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows of the triggers that searches ended with, and the place of each search among the outcomes.

    A search ends with its nearest picture that is what it was after; for GIFTbench that is the first one. Where all
    models give the same other label, it is no disagreement, and the run does not have it.
    """
    if run.triggers.seeds is None:  # it found nothing
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    away = np.array([step.get("distance", np.nan) for step in run.steps])
    rows, places = [], []
    for place in np.flatnonzero(run.counted["reached"]).tolist():
        own = np.flatnonzero(run.triggers.seeds == run.counted["row"][place])
        wanted = run.counted["distance"][place]
        # recipes have six digits
        found = own[np.isclose(away[own], wanted, rtol=1e-5, atol=1e-9)]
        if len(found):
            rows.append(int(found[0]))
            places.append(place)
    return np.array(rows, dtype=np.int64), np.array(places, dtype=np.int64)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    kept = list(rows)
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in kept)]
    return [*lines, ""] if kept else []


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f}%" if whole else ""


def _model(aim: int) -> str:
    return "disagreement" if aim < 0 else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[aim]


def boundary(runs: Sequence[Run]) -> list[str]:
    """SINVAD's table 3 (RQ2)."""
    rows = []
    for run in runs:
        if run.technique != "sinvad" or run.own["search"] != "boundary":
            continue
        found, places = ends_of(run)
        # a run that found nothing has answers of no class
        answers = run.triggers.probabilities if len(run.triggers) else np.empty((0, run.real_margins.shape[1], 2))
        margins = top_two(answers)
        for aim in np.unique(run.counted["aim"]).tolist():
            own = found[run.counted["aim"][places] == aim]
            reached = int((run.counted["reached"].astype(bool) & (run.counted["aim"] == aim)).sum())
            for model in [aim] if aim >= 0 else range(margins.shape[1]):
                ours, real = margins[own, model], run.real_margins[:, model]
                delta = f"{2 * a12(ours, real) - 1:.2f}" if len(ours) else ""
                means = (f"{each.mean():.4f}" if len(each) else "" for each in (ours, real))
                rows.append((run.family, _model(aim), _model(model), f"{len(own):,} of {reached:,}", *means, delta))
    head = ("source", "searched for", "model", "pictures that are disagreements", "ours", "test set", "Cliff's delta")
    lines = _table(head, rows)
    told = "; ".join(
        f"{name} {ours:.4f}, test set {real:.4f}, delta {delta:.2f}" for name, (ours, real, delta) in BOUNDARY.items()
    )
    title = "## SINVAD, table 3: difference of the two highest probabilities"
    return [title, "", *lines, f"Published: {told}.", ""] if lines else []


def escapes(runs: Sequence[Run]) -> list[str]:
    """SINVAD's class-escape rate (RQ3), and what encoding alone spoils (RQ4)."""
    rows = []
    for run in runs:
        if run.technique != "sinvad" or run.own["search"] != "escape":
            continue
        counted = run.counted
        viable = counted["viable"].astype(bool)
        for aim in np.unique(counted["aim"]).tolist():
            own = viable & (counted["aim"] == aim)
            pairs: dict[tuple[int, int], list[int]] = {}
            keys = zip(counted["expected"][own].tolist(), counted["target"][own].tolist(), strict=True)
            for pair, reached in zip(keys, counted["reached"][own].tolist(), strict=True):
                pairs.setdefault(pair, []).append(reached)
            often = sorted(pairs, key=lambda pair: (-float(np.mean(pairs[pair])), -len(pairs[pair]), pair))[:5]
            most = ", ".join(f"{a} to {b} {sum(pairs[a, b])} of {len(pairs[a, b])}" for a, b in often)
            reached = int(counted["reached"][own].sum())
            rows.append((run.family, _model(aim), f"{int(own.sum()):,}", _percent(reached, int(own.sum())), most))
    head = ("source", "searched for", "attempts", "class-escape rate", "pairs with the highest rates")
    lines = _table(head, rows)
    told = "Published as pictures (figures 14 and 15) only."
    return ["## SINVAD, RQ3: class-escape rate", "", *lines, told, ""] if lines else []


def reconstructions(runs: Sequence[Run]) -> list[str]:
    """SINVAD's RQ4: how many seeds the models still know when they are encoded and drawn again."""
    rows = []
    for run in runs:
        if run.technique not in ("sinvad", "giftbench"):
            continue
        for aim in np.unique(run.counted["aim"]).tolist():
            viable = run.counted["viable"][run.counted["aim"] == aim]
            named = f"{run.technique} {run.own.get('steps', '')}".strip()
            rows.append((run.family, named, _model(aim), f"{len(viable):,}", _percent(viable.sum(), len(viable))))
    lines = _table(("source", "technique", "models", "seeds", "named as before"), rows)
    told = (
        "Published: within 10 % of the test accuracy from 10 genes on (MNIST, Fashion-MNIST, figure 17); ImageNet-32 "
        "falls from 67.4 % to 59.5 % (VDVAE) and 32.6 % (dense)."
    )
    title = "## SINVAD, RQ4: seeds that are named as before when encoded and drawn again"
    return [title, "", *lines, told, ""] if lines else []


def walks(runs: Sequence[Run]) -> list[str]:
    """GIFTbench's table III."""
    rows = []
    for run in runs:
        if run.technique != "giftbench":
            continue
        found, places = ends_of(run)
        counted, named = run.counted, run.triggers.known.named
        for aim in np.unique(counted["aim"]).tolist():
            own = counted["aim"] == aim
            viable = own & counted["viable"].astype(bool)
            reached = viable & counted["reached"].astype(bool)
            here = counted["aim"][places] == aim
            pictures, expected = found[here], counted["expected"][places[here]]
            valid = run.triggers.valid[pictures]
            preserved = "" if named is None else _percent((named[pictures] == expected)[valid].sum(), valid.sum())
            rows.append(
                (
                    run.family,
                    run.own["steps"],
                    _model(aim),
                    f"{int(own.sum()):,}",
                    _percent(viable.sum(), own.sum()),
                    f"{_percent(reached.sum(), viable.sum())} ({int(reached.sum())})",
                    f"{counted['generations'][viable].mean():.1f}" if viable.any() else "",
                    f"{_percent(valid.sum(), len(valid))} ({int(valid.sum())} of {len(valid)})",
                    preserved,
                )
            )
    head = (
        "source",
        "steps",
        "searched for",
        "seeds",
        "viable",
        "reached",
        "generations",
        "valid",
        "label kept, of the valid",
    )
    lines = _table(head, rows)
    told = [
        (name, f"{seeds}%", f"{wrong:.1f}%", f"{number:.1f}", f"{valid:.1f}%", f"{kept:.1f}%")
        for name, (seeds, wrong, number, valid, kept) in WALKS.items()
    ]
    published = _table(("published", "viable", "misclassified", "iterations", "valid, by people", "label kept"), told)
    return ["## GIFTbench, table III: walks from seeds", "", *lines, *published] if lines else []


def spaces(runs: Sequence[Run]) -> list[str]:
    """GIFTbench's table II, as far as runs know it."""
    found = {}
    for run in runs:
        if run.technique == "giftbench" and run.triggers.genes is not None:
            facts = run.folder.results()["gan"]
            known = (str(facts.get(name, "")) for name in ("updates", "drawn again"))
            found[run.family] = (run.family, str(run.triggers.genes.shape[1]), *known)
    lines = _table(("source", "genes", "updates of its training", "drawn again"), found.values())
    told = _table(
        ("published, MNIST", "length", "minutes of training, on a GPU", "ms a picture"),
        [(name, f"{length:,}", str(minutes), str(ms)) for name, (length, minutes, ms) in SPACES.items()],
    )
    return ["## GIFTbench, table II: the latent spaces", "", *lines, *told] if lines else []


def interpolations(runs: Sequence[Run]) -> list[str]:
    """Argus' tables 1 and 3 (and 4, with a line for each source)."""
    rows = []
    for run in runs:
        if run.technique not in ("argus", "latte") or run.triggers.seeds is None:  # None: it found nothing
            continue
        counted, steps = run.counted, run.steps
        share = np.array([step["share"] for step in steps])
        for kind, asked in enumerate(counted["asked"].tolist()):
            own = np.flatnonzero(np.isclose(share, SHARES[kind])) if run.technique == "argus" else np.arange(len(share))
            ours = torch.from_numpy(run.triggers.images_of(own)).float() if len(own) else torch.empty(0)
            real = torch.from_numpy(run.data.images[run.triggers.seeds[own]]).float()
            far = f"{(((ours - real) / 255) ** 2).mean():.4f}" if len(own) else ""
            alike = f"{structural_similarity(ours, real).mean():.4f}" if len(own) else ""
            wrong = counted["wrong"][counted["wrong"][:, 1] == kind]
            seeds = len(counted["seed_rows"])
            for model in range(counted["errors"].shape[1]):
                labels = wrong[wrong[:, 2] == model]
                hit = len(np.unique(labels[:, 0]))
                rows.append(
                    (
                        f"{run.technique}, {run.family}",
                        "x".join(map(str, run.data.image_shape)),
                        f"{SHARES[kind]:g}" if run.technique == "argus" else "0.05 to 0.3",
                        _model(model),
                        f"{asked:,}",
                        far,
                        alike,
                        f"{len(labels) / seeds:.1f}" if seeds else "",
                        _percent(counted["errors"][kind, model], asked),
                        _percent(hit, seeds) + f" of {seeds:,}",
                    )
                )
    head = ("technique, source", "images", "share", "model", "pictures", "MSE", "SSIM", "LD", "ER", "SR, seeds")
    lines = _table(head, rows)
    published = _table(
        ("published: Argus, VQ-VAE, LeNet-5", "MSE", "SSIM", "LD", "ER", "SR"),
        [
            (f"{by:g}", f"{far:.4f}", f"{alike:.4f}", f"{labels:.1f}", f"{100 * wrong:.1f}%", f"{100 * hit:.0f}%")
            for by, (far, alike, labels, wrong, hit) in INTERPOLATED.items()
        ],
    )
    ablated = _table(
        ("published, table 4: Argus-0.2, CIFAR-10, ResNet-18", "MSE", "SSIM", "LD", "ER"),
        [
            (name, f"{far:.4f}", f"{alike:.4f}", f"{labels:.1f}", f"{100 * wrong:.1f}%")
            for name, (far, alike, labels, wrong) in ABLATED.items()
        ],
    )
    title = "## Argus, tables 1, 3 and 4: pictures between classes"
    return [title, "", *lines, *published, *ablated] if lines else []


TABLES: tuple[Callable[[Sequence[Run]], list[str]], ...] = (
    boundary,
    escapes,
    reconstructions,
    spaces,
    walks,
    interpolations,
)


def main() -> None:
    """Print Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN")
    runs = [Run.open(path) for path in parser.parse_args().runs]
    print("\n".join(line for table in TABLES for line in table(runs)))


if __name__ == "__main__":
    main()
