"""What is built is what a user gets: the wheel's content, and a run of it far from the checkout.

Nothing is downloaded. The wheel is installed without its dependencies into a fresh environment, which then borrows
the packages of the environment that runs the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from configparser import ConfigParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.packaging

ROOTS = {"diffgen": "diffgen", "filters": "diffgen.filters", "gan_training": "diffgen.gan_training"}


def package_folders(repository: Path) -> dict[str, Path]:
    """Package name -> its folder, for every folder of the three roots that holds Python files."""
    found = {}
    for root, name in ROOTS.items():
        for file in sorted((repository / root).rglob("*.py")):
            parts = file.parent.relative_to(repository / root).parts
            found[".".join((name, *parts))] = file.parent
    # The symlinks inside diffgen/ show two of the roots a second time.
    return {name: folder.resolve() for name, folder in found.items()}


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built from, so that building leaves nothing in the checkout."""
    copy = tmp_path_factory.mktemp("build") / "checkout"
    copy.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in (*ROOTS, "tests", "benchmarks"):
        if (repository / folder).is_dir():
            shutil.copytree(repository / folder, copy / folder, symlinks=True, ignore=ignore)
    for file in ("setup.cfg", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md"):
        if (repository / file).is_file():
            shutil.copy(repository / file, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    run(sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", "dist", ".", cwd=checkout)
    (built,) = (checkout / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh virtual environment with the wheel in it; gives its folder of programs."""
    folder = tmp_path_factory.mktemp("elsewhere") / "env"
    venv.create(folder, symlinks=os.name != "nt", with_pip=False)
    scripts = folder / ("Scripts" if os.name == "nt" else "bin")
    python = scripts / "python"
    run(sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--no-index", wheel, cwd=folder)
    site = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    # A path in a .pth file comes after the environment's own packages, and the .pth files in it are not read: the
    # development install of diffgen beside the tests' packages stays out of sight.
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return scripts


def test_every_folder_is_listed_in_setup_cfg(repository: Path) -> None:
    config = ConfigParser()
    config.read(repository / "setup.cfg")
    listed = config["options"]["packages"].split()
    assert listed == sorted(listed)
    assert set(listed) == set(package_folders(repository)), "`packages` in setup.cfg and the folders differ."


def test_every_package_has_an_init(repository: Path) -> None:
    bare = {name for name, folder in package_folders(repository).items() if not (folder / "__init__.py").is_file()}
    assert bare == set()


def test_wheel_holds_every_module_once_and_nothing_else(wheel: Path, repository: Path) -> None:
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    expected = {
        f"{package.replace('.', '/')}/{file.name}"
        for package, folder in package_folders(repository).items()
        for file in folder.glob("*.py")
    }
    folders = ("templates", "assets")
    others = [file for name in folders for file in (repository / "diffgen").glob(f"*/{name}/*")]
    expected |= {file.relative_to(repository).as_posix() for file in others if file.is_file()}
    expected |= {"diffgen/api.pyi", "diffgen/py.typed"}
    assert len(names) == len(set(names))
    assert set(names) == expected
    assert {name.partition("/")[0] for name in names} == {"diffgen"}


def test_wheel_holds_the_templates(wheel: Path) -> None:
    assert any(name.startswith("diffgen/report/templates/") for name in zipfile.ZipFile(wheel).namelist())


def test_wheel_built_from_the_source_archive_is_the_same(checkout: Path, wheel: Path) -> None:
    # `build` without --sdist or --wheel makes the archive and then the wheel from what the archive holds.
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist-archive", ".", cwd=checkout)
    (again,) = (checkout / "dist-archive").glob("*.whl")
    assert sorted(zipfile.ZipFile(again).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


def test_installed_program_ignores_modules_of_the_same_name(environment: Path, tmp_path: Path) -> None:
    for name in ROOTS.keys() - {"diffgen"}:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the user\\'s own {name}.py was imported')\n")
    assert "0." in run(environment / "diffgen", "--version", cwd=tmp_path)
    program = "import diffgen.filters, diffgen.gan_training as last; print(last.__file__)"
    assert str(environment.parent.resolve()) in run(environment / "python", "-c", program, cwd=tmp_path)
