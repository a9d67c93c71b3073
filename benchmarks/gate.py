"""What the gate finds: real pairs of models, false alarms, and planted regressions.

    python -m benchmarks.gate SHARED OUT [--only pairs false-alarms sensitivity] [--seconds 60 300] [--limit N]

SHARED has ``models/`` and ``data/``. OUT gets the run folders and gate.json; a case that is recorded there is not run
again, so that the same command goes on after a break. One process; every table is printed anew at the end. All checks
on one data set share its GAN, which is trained first when the cache has none (``--gan FILE`` names one for MNIST).

* pairs: each pair of SHARED/models on the real test set, searched for each number of seconds.
* false-alarms: one LeNet-5 against itself saved as TorchScript, torch.export and ONNX, 20 checks.
* sensitivity: in the last layer of that LeNet-5 the weights of class 4 are led toward those of class 9, several sizes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.lenet_pair import train
from benchmarks.quick import add_quick, trained_as_asked
from diffgen.config import Budget, CheckConfig, CompareConfig, Limits, ModelSpec, Opening, Preprocessing, replace
from diffgen.data import load
from diffgen.errors import UserError
from diffgen.runs.arrays import read_arrays, write_arrays
from diffgen.runs.files import write_json
from diffgen.runs.folder import RunFolder
from diffgen.workflows.check import check
from diffgen.workflows.demo import save_onnx, save_torchscript

PARTS = ("pairs", "false-alarms", "sensitivity")
_CHECKS = 20
_QUERIES = 20_000
_BASE, _TOWARD = 4, 9  # the class pair of the planted regression
_SIZES = (0.0003, 0.00125, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
_CIFAR = Preprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
_GREYS = Preprocessing(scale="0..255")


@dataclass(frozen=True)
class Case:
    """One check; ``settings`` are the comparison's, besides budget and seed."""

    name: str
    base: Path
    candidate: Path
    data: str
    budget: Budget
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> str:
        """Of its run; by name, so that no other choice of cases writes over it."""
        return re.sub(r"[^0-9a-z.]+", "-", self.name.lower())


def pairs(shared: Path, seconds: list[float]) -> Iterator[Case]:
    """The published models."""
    mnist, tiny, he = (
        shared / "models" / name for name in ("mnist-lenet5-family", "cifar10-resnet8-tiny", "cifar10-resnet-he")
    )
    mnist_data, cifar_data = f"{shared / 'data' / 'mnist'}:test", str(shared / "data" / "cifar10" / "test.zip")
    greys = {"models": (ModelSpec(preprocessing=_GREYS),) * 2}
    resnets = {
        "models": tuple(
            ModelSpec(preprocessing=_CIFAR, opening=Opening(arch=f"benchmarks.cifar_resnets:{name}"))
            for name in ("resnet20", "resnet32")
        )
    }
    rows: list[tuple[str, Path, Path, str, dict[str, Any]]] = [
        ("LeNet-5, quantized", mnist / "base.h5", mnist / "quantized.tflite", mnist_data, {}),
        ("LeNet-5, retrained", mnist / "base.h5", mnist / "retrained.h5", mnist_data, {}),
        ("LeNet-5, adversarially trained", mnist / "base.h5", mnist / "adversarially-trained-cw.h5", mnist_data, {}),
        ("ResNet-8, int8", tiny / "float32.tflite", tiny / "int8.tflite", cifar_data, greys),
        ("ResNet-20, ResNet-32", he / "resnet20.state_dict.th", he / "resnet32.state_dict.th", cifar_data, resnets),
    ]
    for (name, base, candidate, data, settings), limit in itertools.product(rows, seconds):
        yield Case(f"{name}, {limit:g} s", base, candidate, data, Budget(seconds=limit), settings=settings)


def own_lenet(out: Path, shared: Path) -> nn.Module:
    """A LeNet-5 trained on MNIST's training images; its weights are kept in OUT."""
    from benchmarks.lenet_pair import lenet5

    file, network = out / "lenet.npz", lenet5()
    if not file.is_file():
        data = load(f"{shared / 'data' / 'mnist'}:train")
        assert data.labels is not None
        trained = train(torch.from_numpy(data.images), torch.from_numpy(data.labels), seed=1)
        write_arrays(file, {name: value.numpy() for name, value in trained.state_dict().items()})
    network.load_state_dict({name: torch.from_numpy(value) for name, value in read_arrays(file).items()})
    return network.eval()


def save_exported(network: nn.Module, path: Path) -> None:
    """Save a classifier of 1x28x28 images with torch.export, for batches of any size."""
    batch = torch.export.Dim("batch", min=1, max=4096)
    program = torch.export.export(network, (torch.zeros(2, 1, 28, 28),), dynamic_shapes=({0: batch},))
    torch.export.save(program, path)


def false_alarms(out: Path, shared: Path, queries: int) -> Iterator[Case]:
    """One model in three formats: every ordered pair of formats, with as many seeds as it takes."""
    network = own_lenet(out, shared)
    savers: dict[str, Callable[[nn.Module, Path], None]] = {
        "lenet.pt": save_torchscript,
        "lenet.onnx": save_onnx,
        "lenet.pt2": save_exported,
    }
    for name, save in savers.items():
        if not (out / name).is_file():
            save(network, out / name)
    ordered = itertools.cycle(itertools.permutations(savers, 2))
    for seed, (base, candidate) in zip(range(_CHECKS), ordered, strict=False):
        yield Case(
            f"{base} against {candidate}, seed {seed}",
            out / base,
            out / candidate,
            f"{shared / 'data' / 'mnist'}:test",
            Budget(queries=queries),
            seed,
        )


def sensitivity(out: Path, shared: Path, seconds: float) -> Iterator[Case]:
    """Class 4's weights of the last layer led toward class 9's by a share of the way."""
    base = out / "lenet.onnx"
    if not base.is_file():
        save_onnx(own_lenet(out, shared), base)
    for size in _SIZES:
        file = out / f"planted-{size:g}.onnx"
        if not file.is_file():
            network = own_lenet(out, shared)
            last = [module for module in network.modules() if isinstance(module, nn.Linear)][-1]
            with torch.no_grad():
                for values in (last.weight, last.bias):
                    values[_BASE] += size * (values[_TOWARD] - values[_BASE])
            save_onnx(network, file)
        yield Case(f"planted {size:g}", base, file, f"{shared / 'data' / 'mnist'}:test", Budget(seconds=seconds))


def run_case(case: Case, folder: Path, gan: Path | None, *, quick: bool) -> dict[str, Any]:
    """Check, and what came of it as JSON values."""
    defaults = CompareConfig()
    comparison = replace(defaults, budget=case.budget, seed=case.seed, **case.settings)
    comparison = trained_as_asked(comparison, quick=quick)
    if gan is not None and "mnist" in case.data:
        comparison = replace(comparison, gan_file=str(gan))
    config = CheckConfig(limits=Limits(max_disagreement=0.0), compare=comparison)
    try:
        result = check(case.base, case.candidate, data=case.data, config=config, output=folder, force=True)
    except UserError as error:
        return {"not_run": str(error)}
    values, real, random = result.values, result.values["disagreement_real"], result.values["disagreement_random"]
    assert real is not None and random is not None
    drop = values["accuracy_drop"]
    shown = [] if drop is None else [drop.base_right / real.of, drop.candidate_right / real.of]
    return {
        "status": result.status.value,
        "queries": values.search.queries,
        "real": [real.count, real.of, *real.interval],
        "random": [random.count, random.of, *random.interval],
        "accuracy": shown,
        "pictures": sum(each.count for each in values.behaviours),
        "behaviours": len(values.behaviours),
        "worst": list(result.worst),
        "run": folder.name,
    }


def table(entries: dict[str, Any], out: Path) -> str:
    """The figures of one part as Markdown."""
    lines = [
        "| case | real images that differ | random generated ones | accuracy | queries | distinct valid pictures "
        "| behaviours | label pairs | largest shift |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, entry in entries.items():
        if "not_run" in entry:
            lines.append(f"| {name} | not run: {entry['not_run']} | | | | | | | |")
            continue
        rates = [f"{n:,} of {of:,} (up to {high:.2%})" for n, of, _, high in (entry["real"], entry["random"])]
        found = RunFolder.open(out / entry["run"]).results()["check"]["behaviours"]
        shift = f"{max(each['shift'] for each in found):.2f}" if found else ""
        accuracy = ", ".join(f"{each:.2%}" for each in entry["accuracy"])
        lines.append(
            f"| {name} | {rates[0]} | {rates[1]} | {accuracy} | {entry['queries']:,} | {entry['pictures']:,} | "
            f"{entry['behaviours']:,} | {len({tuple(each['said']) for each in found})} | {shift} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument(
        "--seconds",
        nargs="+",
        type=float,
        default=[60.0, 300.0],
        help="of the search, for pairs; sensitivity takes the least",
    )
    parser.add_argument(
        "--queries", type=int, default=_QUERIES, help="of a search for false alarms (default: %(default)s)"
    )
    parser.add_argument("--gan", type=Path, help="a GAN of MNIST's test images, so that none is trained")
    parser.add_argument("--limit", type=int, help="run only so many cases that are not recorded yet")
    add_quick(parser)
    arguments = parser.parse_args()
    out, shared = arguments.out.absolute(), arguments.shared.absolute()
    out.mkdir(parents=True, exist_ok=True)
    file = out / "gate.json"
    record: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.is_file() else {}
    makers: dict[str, Callable[[], Iterator[Case]]] = {
        "pairs": lambda: pairs(shared, arguments.seconds),
        "false-alarms": lambda: false_alarms(out, shared, arguments.queries),
        "sensitivity": lambda: sensitivity(out, shared, min(arguments.seconds)),
    }
    left = arguments.limit
    for part in arguments.only:
        entries = record.setdefault(part, {})
        for case in makers[part]():
            if left == 0:
                break
            if case.name in entries and "not_run" not in entries[case.name]:
                continue
            entries[case.name] = run_case(case, out / case.folder, arguments.gan, quick=arguments.quick)
            write_json(file, record)
            print(f"{part}: {case.name}: {entries[case.name]}", flush=True)
            left = None if left is None else left - 1
    for part in arguments.only:
        print(f"\n## {part}\n\n{table(record[part], out)}")
    alarms = [each for each in record.get("false-alarms", {}).values() if "status" in each]
    if alarms:
        passed = sum(each["status"] == "PASS" and each["pictures"] == 0 for each in alarms)
        print(f"\n{passed} of {len(alarms)} checks of a model against itself passed without a trigger.")


if __name__ == "__main__":
    main()
