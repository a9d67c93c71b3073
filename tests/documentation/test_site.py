"""The whole site, built as ``make docs`` does: no warning, every notebook runs, every link leads somewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from docs.tools.links import problems

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def test_the_site_is_built_without_a_warning(repository: Path, tmp_path: Path) -> None:
    for package in ("sphinx", "furo", "myst_nb", "sphinx_copybutton"):
        pytest.importorskip(package, reason="pip install diffgen[docs] brings what builds the site")
    site = tmp_path / "site"
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", tmp_path / "doctrees"]
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    done = subprocess.run([*command, "docs", site], cwd=repository, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert list(problems(site)) == []
    for notebook in ("own-models", "published", "quantized", "selector", "technique"):
        page = (site / "tutorials" / f"{notebook}.html").read_text(encoding="utf-8")
        assert "cell_output" in page
