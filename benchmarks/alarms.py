"""The table of alarms: candidates that a check must refuse, and candidates that it must let pass, without any limit.

Each is checked on labelled images, and on the same images without labels.

    python -m benchmarks.alarms OUT [--shared SHARED] [--data mnist digits] [--budget 2000q] [--only NAME ...]

OUT gets the models, the run folders and alarms.json; a candidate that is recorded there is not checked again, so that
the same command goes on after a break. SHARED has ``data/mnist``, which mnist alone needs. The base is a LeNet-5 that
was trained on images of the training half; every candidate is made from it, and each check has the default limits of
``diffgen check``. The verdict rests on real images, so no GAN is trained: all checks on one data set share a file that
draws from its principal components, and no filter is asked. Needs the extras ``keras`` and ``tflite``.
"""

from __future__ import annotations

import argparse
import json
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.alarm_candidates import COMPONENTS, Case, Components, base_network, cases, some_of
from diffgen.config import FILTER_PRESETS, Budget, CheckConfig, CompareConfig, GeneratorConfig, ModelSpec, Opening
from diffgen.data import load
from diffgen.errors import DiffgenError
from diffgen.gate.conditions import CRITERIA
from diffgen.gate.measurements import Share
from diffgen.gate.result import CheckResult
from diffgen.gate.rules import Status
from diffgen.runs.files import write_json
from diffgen.types import ImageSet
from diffgen.workflows.check import check
from diffgen.workflows.demo import save_onnx

_SHARES = {each.name: each.title for each in CRITERIA if each.title and each.kind and issubclass(each.kind, Share)}
_EPOCHS = {"mnist": 2, "digits": 20}


def run_case(
    case: Case, bases: Path, data: ImageSet, config: CompareConfig, folder: Path, *, random_images: int
) -> dict[str, Any]:
    """Check with and without labels, and what came of it as JSON values."""
    folder.mkdir(parents=True, exist_ok=True)
    base = bases / ("base-softmax.onnx" if case.beside_probabilities else "base.onnx")
    opening = Opening(isolate="off")  # files that were made here
    specs = (ModelSpec(opening=opening), ModelSpec(opening=opening, preprocessing=case.preprocessing))
    config = replace(config, models=specs)
    candidate = case.make(folder / "candidate")
    entry: dict[str, Any] = {"must": "pass" if case.passes else "be refused"}

    def checked(name: str, data: ImageSet) -> tuple[dict[str, Any], CheckResult | None]:
        try:
            result = check(
                base,
                copy(candidate),  # one that counts what it is asked begins anew
                data=data,
                config=replace(CheckConfig(), compare=config, random_images=random_images),
                output=folder / name,
                force=True,
            )
        except DiffgenError as error:
            return {"exit_code": error.exit_code, "status": "ERROR", "why": [str(error)]}, None
        why = [each.name for each in result.conditions if each.status in (Status.FAIL, Status.ERROR)]
        return {"exit_code": result.exit_code, "status": result.status.value, "why": why}, result

    labelled, result = checked("run", data)
    unlabelled, without = checked("unlabelled", replace(data, labels=None, class_names=()))
    if without is not None:
        unlabelled |= _figures(without)
    return {**entry, **labelled, **(_figures(result) if result else {}), "unlabelled": unlabelled}


def _figures(result: CheckResult) -> dict[str, Any]:
    values = result.values
    shares = {name: values[name] for name in _SHARES if values[name] is not None}
    accuracy, worst = values["accuracy_drop"], values["class_accuracy_drop"]
    return {
        "shares": {name: [each.share, *each.interval] for name, each in shares.items()},
        "accuracy": accuracy and accuracy.candidate_right / accuracy.of,
        "worst_class": worst and worst.name,
        "noise": values.steadiness.noise,
        "behaviours": len(values.behaviours),
        "new_faults": len(values.new_faults),
    }


def table(entries: dict[str, Any]) -> str:
    """The figures on one data set as Markdown."""
    titles = ["candidate", "must", "with labels", "because of", "without labels", "because of", "accuracy"]
    titles += ["worst class", "numeric noise", "behaviours found", "of them with faults", *_SHARES.values()]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for name, entry in entries.items():
        both = entry, entry["unlabelled"]
        cells = [name, entry["must"]]
        cells += [text for each in both for text in (each["status"], ", ".join(each["why"]).replace("_", " "))]
        if "noise" in entry:
            cells += [f"{entry['accuracy']:.2%}", entry["worst_class"], f"{entry['noise']:.1g}"]
            cells += [f"{entry['behaviours']:,}", f"{entry['new_faults']:,}"]
        else:
            cells += [""] * 5
        shares = both[1].get("shares", {}) | both[0].get("shares", {})
        cells += [_share(shares[each]) if each in shares else "" for each in _SHARES]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(entry: list[float]) -> str:
    share, low, high = entry
    return f"{share:.2%} [{low:.2%}, {high:.2%}]"


def kept(entries: dict[str, Any]) -> dict[str, str]:
    """How many of those that must be refused were, and of those that must pass did, with labels and without."""
    counts = {}
    for must in ("be refused", "pass"):
        mine = [(each, each["unlabelled"]) for each in entries.values() if each["must"] == must]
        right = [
            sum((each["exit_code"] == 0) == (must == "pass") for each in column) for column in zip(*mine, strict=True)
        ]
        counts[must] = " and ".join(f"{count} of {len(mine)}" for count in right)
    return counts


def parse(words: list[str] | None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--shared", type=Path, default=Path("shared"))
    parser.add_argument("--data", nargs="+", choices=list(_EPOCHS), default=list(_EPOCHS))
    parser.add_argument("--budget", type=Budget.parse, default=Budget(queries=2000), help="of each search")
    parser.add_argument("--random-images", type=int, default=CheckConfig().random_images)
    parser.add_argument("--epochs", type=int, help="of the base's training, in place of those of the data set")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these candidates")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> dict[str, dict[str, Any]]:
    """Check what was not checked yet, print the tables, and return all figures by data set and candidate."""
    arguments = parse(words)
    out = arguments.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    file = out / "alarms.json"
    record: dict[str, dict[str, Any]] = json.loads(file.read_text()) if file.is_file() else {}
    config = CompareConfig(budget=arguments.budget, device="cpu", filters=FILTER_PRESETS["none"])
    for name in arguments.data:
        source = "digits" if name == "digits" else str((arguments.shared / "data" / "mnist").absolute())
        training, test, epochs = (
            some_of(load(f"{source}:train")),
            load(f"{source}:test"),
            arguments.epochs or _EPOCHS[name],
        )
        folder = out / name
        folder.mkdir(exist_ok=True)
        network, entries = base_network(folder, training, epochs), record.setdefault(name, {})
        save_onnx(network, folder / "base.onnx")
        save_onnx(nn.Sequential(network, nn.Softmax(dim=1)), folder / "base-softmax.onnx")
        torch.manual_seed(0)  # of the principal components
        drawing = Components(torch.from_numpy(training.images))
        torch.jit.save(torch.jit.trace(drawing, torch.zeros(2, COMPONENTS)), str(folder / "generator.pt"))
        generator = GeneratorConfig(file=str(folder / "generator.pt"), latent_dim=COMPONENTS)
        for number, case in enumerate(cases(folder, network, training, test, epochs)):
            if case.name in entries or (arguments.only and case.name not in arguments.only):
                continue
            entries[case.name] = run_case(
                case,
                folder,
                test,
                replace(config, generator=generator),
                folder / f"{number:02d}",
                random_images=arguments.random_images,
            )
            write_json(file, record)
            print(f"{name}: {case.name}: {entries[case.name]}", flush=True)
    for name in arguments.data:
        print(f"\n## {name}\n\n{table(record[name])}\n\n{kept(record[name])}")
    return record


if __name__ == "__main__":
    main()
