"""A place with real run folders, and the page served from it."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from diffgen.ui import missing
from diffgen.ui.place import Place

ASSETS = Path(__file__).resolve().parent.parent / "assets"
HOSTILE = ("<img src=x onerror=document.title='hacked'>", "${document.title='hacked'}", "{{constructor}}")


def take(name: str, folder: Path) -> Path:
    """A copy of an old run whose models are where they are here."""
    run = Path(shutil.copytree(ASSETS / name, folder))
    file = run / "manifest.json"
    manifest = json.loads(file.read_text(encoding="utf-8"))
    for role, model in (("A", "a.onnx"), ("B", "b.onnx")):
        manifest["files"][role]["path"] = str(ASSETS / model)
    file.write_text(json.dumps(manifest), encoding="utf-8")
    return run


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Three runs: done, unfinished, and one whose classes have hostile names."""
    runs = tmp_path_factory.mktemp("place")
    take("run-0.1.0-near-duplicates", runs / "done")
    take("run-0.1.0-unfinished", runs / "unfinished")
    hostile = take("run-0.1.0", runs / "hostile")
    results = json.loads((hostile / "results.json").read_text(encoding="utf-8"))
    results["class_names"][: len(HOSTILE)] = HOSTILE
    (hostile / "results.json").write_text(json.dumps(results), encoding="utf-8")
    shutil.copyfile(ASSETS / "a.onnx", runs / "a.onnx")
    shutil.copyfile(ASSETS / "b.onnx", runs / "b.onnx")
    return Place(runs.resolve(), (runs.resolve(),))


@pytest.fixture(scope="session")
def page(place: Place) -> Iterator[str]:
    """The address of the page, served by this process."""
    if missing():
        pytest.skip(f"The page needs {missing()}: pip install 'diffgen[ui]'.")
    import uvicorn

    from diffgen.ui.server import Address, application, listen

    listening = listen(Address("127.0.0.1", 0))
    address = Address("127.0.0.1", listening.getsockname()[1])
    app = application(place, address, first="done")
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{address.port}/"
    server.should_exit = True
    thread.join(10)
