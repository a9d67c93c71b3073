"""Settings of the site that ``make docs`` builds."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import diffgen

project = "diffgen"
author = "The diffgen developers"
copyright = "the diffgen developers, Apache License 2.0"
version = release = diffgen.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "docs.tools.sphinx_pages",
]
exclude_patterns = ["_build", "tools"]
nitpicky = False

html_theme = "furo"
html_title = f"diffgen {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False

myst_enable_extensions = ["colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "myst-nb.lexer"]

# Notebooks are text; running them is part of the build, and one that fails ends it. Nothing of an earlier build is
# shown, since the program may be another now. DIFFGEN_DOCS_NOTEBOOKS=off builds the pages alone, in seconds.
nb_execution_mode = os.environ.get("DIFFGEN_DOCS_NOTEBOOKS", "force")
nb_execution_raise_on_error = True
nb_execution_timeout = 900
nb_execution_in_temp = True
nb_merge_streams = True

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# `diffgen` in a notebook's shell is this environment's; its cache is the build's, unless DIFFGEN_CACHE names another
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ.setdefault("DIFFGEN_CACHE", str(Path(__file__).parent / "_build" / "cache"))
os.environ["NO_COLOR"] = "1"
toc_object_entries_show_parents = "hide"
