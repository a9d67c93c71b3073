"""What importing costs, and that all that is imported is declared."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

# Each takes from a third of a second to several seconds, which `diffgen --help` must not cost.
HEAVY = {
    "hdbscan",
    "matplotlib",
    "numba",
    "onnxruntime",
    "optuna",
    "pandas",
    "pymoo",
    "scipy",
    "skimage",
    "sklearn",
    "torch",
    "torchvision",
    "umap",
}

# What only the type checker knows.
FOR_TYPES = {"_typeshed"}

# Where the name that is imported is not the name that is installed.
DISTRIBUTIONS = {
    **{"PIL": "Pillow", "skimage": "scikit-image", "sklearn": "scikit-learn"},
    **{"umap": "umap-learn", "yaml": "PyYAML"},
}


def modules_after(statement: str, folder: Path) -> set[str]:
    """Top-level modules that a fresh interpreter holds after ``statement``."""
    program = f"import sys\n{statement}\nprint('MODULES', *sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("MODULES")[2].split())


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_asking_for_help_imports_nothing_heavy(argument: str, repository: Path) -> None:
    statement = f"import diffgen.cli\ntry:\n    diffgen.cli.main([{argument!r}])\nexcept SystemExit:\n    pass"
    assert modules_after(statement, repository) & HEAVY == set()


def test_every_import_is_declared(repository: Path) -> None:
    config = ConfigParser()
    config.read(repository / "setup.cfg")
    extras = {name: text for name, text in config["options.extras_require"].items() if name not in ("test", "dev")}
    lines = "\n".join([config["options"]["install_requires"], *extras.values()]).splitlines()
    declared = {normal(line) for line in lines if line.strip()}
    undeclared = {}
    for folder in ("diffgen", "filters", "gan_training"):
        for file in sorted((repository / folder).rglob("*.py")):
            for name in imported_names(file) - {"diffgen", *FOR_TYPES} - sys.stdlib_module_names:
                if normal(DISTRIBUTIONS.get(name, name)) not in declared:
                    undeclared[name] = str(file.relative_to(repository))
    assert undeclared == {}, "Add these to install_requires in setup.cfg, or import what is declared there."


def test_modules_that_need_a_requirement_are_named_as_they_are(repository: Path) -> None:
    text = (repository / "setup.cfg").read_text(encoding="utf-8").partition("[importlinter]")[0]
    comments = " ".join(line for line in text.splitlines() if line.lstrip().startswith("#"))
    named = set(re.findall(r"(?<![\w./])([a-z]\w*)\.(\w+)", comments)) - {("config", "toml")}
    folders = [repository / "diffgen", repository]
    wrong = [
        f"{folder}.{module}"
        for folder, module in sorted(named)
        if any((place / folder).is_dir() for place in folders)
        and not any((place / folder / name).exists() for place in folders for name in (module, f"{module}.py"))
    ]
    assert named and wrong == []


def normal(requirement: str) -> str:
    """``tomli-w>=1.0`` as ``tomli_w``."""
    return requirement.partition(">")[0].strip().lower().replace("-", "_")


def imported_names(file: Path) -> set[str]:
    """Top-level names that a file imports anywhere outside a ``try`` that answers for their absence."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    optional = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.Try) and any("ImportError" in ast.unparse(h.type or node) for h in node.handlers)
        for statement in node.body
        for child in ast.walk(statement)
    }
    names = set()
    for node in ast.walk(tree):
        if node in optional:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.partition(".")[0])
    return names
