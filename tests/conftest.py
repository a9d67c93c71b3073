"""Settings and fixtures for every test: no network, no screen, and nothing of the user's own is read or written."""

from __future__ import annotations

import os
import pickle
import pkgutil
import re
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import settings

REPOSITORY = Path(__file__).resolve().parent.parent
ASSETS = REPOSITORY / "tests" / "assets"  # a.onnx and b.onnx: two small classifiers of the digits
BAD_INPUTS = REPOSITORY / "docs" / "reference" / "errors.md"
_TOLD = pytest.StashKey[dict[tuple[str, str], str]]()
_PAGE = pytest.StashKey[dict[tuple[str, str], str]]()
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_INTRODUCTION = """\
# Error sentences: bad inputs, and what diffgen says

    pytest tests/cli tests/data tests/models tests/runs tests/workflows -m "not slow" --write-bad-inputs

Each line was written by the test that checks the case. Nothing is left half-written; the exit code is 2 for what a
user can mend before anything is computed, 3 for a run that broke off (which `--resume` goes on with). Folders in front
of file names are left out here.
"""

# Read by matplotlib and by rich when they are imported, here and in the processes that tests start.
os.environ["MPLBACKEND"] = "Agg"
os.environ["NO_COLOR"] = "1"
os.environ["COLUMNS"] = "120"
# As the command line sets it; read when torch is imported.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
if "PYTEST_XDIST_WORKER" in os.environ:  # the processes share the cores already
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("FORCE_COLOR", None)

# A busy machine is not a wrong result, and a run that failed fails again.
settings.register_profile("diffgen", deadline=None, derandomize=True)
settings.load_profile("diffgen")


def _folder_of_session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the processes which test side by side have in common."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Puts diffgen's cache, and what Keras writes when it is imported, into folders of this test session.

    Processes that test side by side share the cache, as runs of a user do: what one trained the other finds.
    """
    session = _folder_of_session(tmp_path_factory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIFFGEN_CACHE", str(session / "cache"))
        patch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
        yield


_BRIEF = {
    "diffgen.features.encoder._STEPS_GREY": 60,
    "diffgen.features.encoder._STEPS_COLOUR": 90,
    "diffgen.comparison.jury._SHOWN_GREY": 3_000,
    "diffgen.comparison.jury._SHOWN_COLOUR": 9_000,
    "diffgen.models.noise._LARGEST": 256,
}


@pytest.fixture(scope="session", autouse=True)
def _brief_lessons() -> Iterator[dict[str, int]]:
    """What nearly every run does is brief: the encoder of the cells and the jury learn a fraction of a user's lessons.

    So is the largest batch that a model is tried with. Settings and patches of a test come before it; how it is for a
    user, tests with ``whole_lessons`` see. A command in a process of its own does all, or finds in the cache what was
    learned here.

    Yields:
        How long they learn usually.
    """
    usual = {name: pkgutil.resolve_name(name) for name in _BRIEF}
    with pytest.MonkeyPatch.context() as patch:
        for name, length in _BRIEF.items():
            patch.setattr(name, length)
        yield usual


@pytest.fixture(scope="module")
def whole_lessons(_brief_lessons: dict[str, int]) -> Iterator[None]:
    """They learn as long as a user's, and models are tried with as large a batch."""
    with pytest.MonkeyPatch.context() as patch:
        for name, length in _brief_lessons.items():
            patch.setattr(name, length)
        yield


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_is_heard() -> None:
    """A shell starts what it puts into the background deaf to SIGINT, and Python leaves it so."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_here(family: int, host: str) -> bool:
    """Whether it is this machine: of addresses others have, none can be bound. Ray does not call it 127.0.0.1."""
    if host in ("127.0.0.1", "::1", "localhost"):
        return True
    with socket.socket(family) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


@pytest.fixture(scope="session", autouse=True)
def _offline() -> Iterator[None]:
    """Refuses every connection that leaves this machine, so that a hidden download fails here and not at a user's."""
    connect = socket.socket.connect

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_here(self.family, address[0]):
            raise OSError(f"The tests run without a network; something tried to reach {address[0]}.")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", refuse)
        yield


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[Any]:
    """Three nodes of a real Ray cluster on this machine; the first is the head."""
    pytest.importorskip("ray", reason="Ray is not installed (pip install diffgen[ray])")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
    from ray.cluster_utils import Cluster

    usual = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    made = Cluster(initialize_head=True, head_node_args={**usual, "include_dashboard": False})
    for _ in range(2):
        made.add_node(**usual)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    for number, handler in before.items():
        signal.signal(number, handler)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_folder() -> Path:
    """The folder with the published models and data sets: DIFFGEN_SHARED, or ``shared`` beside the checkout."""
    folder = Path(os.environ.get("DIFFGEN_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"There is no folder {folder}; name the one with models/ and data/ in DIFFGEN_SHARED.")
    return folder


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Callable[[Path], Any]], Any]:
    """Makes something in a new folder, and gives what the maker gave to whatever process of the session asks for it."""

    def made(name: str, make: Callable[[Path], Any]) -> Any:
        folder = _folder_of_session(tmp_path_factory) / "made" / name
        folder.mkdir(parents=True, exist_ok=True)
        given = folder / "given.pickle"
        with FileLock(folder / "lock"):
            if not given.exists():
                given.write_bytes(pickle.dumps(make(folder)))
        return pickle.loads(given.read_bytes())

    return made


@pytest.fixture(scope="session")
def done_run(made_once: Callable[..., Any]) -> Path:
    """A small comparison of ``ASSETS`` on changed digits, with jury and filter; not to be changed.

    A copy beside it, ``unfinished``, is what a kill leaves after some generations.
    """
    from diffgen.comparison import checkpoints
    from diffgen.config import Budget, CompareConfig, FilterConfig, SearchConfig, SourceConfig
    from diffgen.events import Event, TriggersFound
    from diffgen.workflows.compare import compare

    def make(folder: Path) -> Path:
        run, unfinished = folder / "done", folder / "unfinished"

        def copy_midway(event: Event) -> None:
            begun = isinstance(event, TriggersFound) and (run / "checkpoint.previous.npz").exists()
            if begun and not unfinished.exists():
                shutil.copytree(run, unfinished, ignore=shutil.ignore_patterns("lock"))

        config = CompareConfig(
            budget=Budget(queries=700),
            seed=1,
            device="cpu",
            source=SourceConfig(family="seeds"),
            search=SearchConfig(population=50),
            filters=FilterConfig(names=("ssim",), near_duplicate=0.8, filters={"ssim": {"threshold": 0.5}}),
        )
        models = ASSETS / "a.onnx", ASSETS / "b.onnx"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(checkpoints, "SECONDS", 0.0)
            patch.setattr(checkpoints, "SHARE", 1e9)
            compare(*models, data="digits:test", config=config, output=run, events=copy_midway)
        return run

    return Path(made_once("small", make))


@pytest.fixture(scope="session")
def unfinished_run(done_run: Path) -> Path:
    """The same comparison as a kill leaves it; not to be changed."""
    return done_run.with_name("unfinished")


@pytest.fixture(scope="session")
def take(done_run: Path) -> Callable[[str, Path], Path]:
    """Copies one of these runs: "done" or "unfinished"."""

    def copy(name: str, folder: Path) -> Path:
        return Path(shutil.copytree(done_run.with_name(name), folder))

    return copy


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write-bad-inputs",
        action="store_true",
        help=f"write {BAD_INPUTS.relative_to(REPOSITORY)} from the cases of this session",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_TOLD], config.stash[_PAGE] = {}, {}
    if config.getoption("--write-bad-inputs") and BAD_INPUTS.is_file():
        # a session of some tests renews their lines and keeps the others; remove the page to begin anew
        config.stash[_TOLD].update(_read_page())


def _read_page() -> dict[tuple[str, str], str]:
    """The sentences of the page of bad inputs, by group and case."""
    found: dict[tuple[str, str], str] = {}
    group = ""
    for line in BAD_INPUTS.read_text(encoding="utf-8").splitlines():
        group = line.removeprefix("## ") if line.startswith("## ") else group
        if group and line.startswith("| ") and line != "| given | said |":
            _, case, sentence, _ = re.split(r"(?<!\\)\|", line)
            found[group, case.strip()] = sentence.strip()
    return found


@pytest.fixture
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str, object], None]:
    """Puts a case of bad input and its sentence on the page of bad inputs.

    Without --write-bad-inputs it fails where the page misses the case or has another sentence, numbers aside.
    """
    shared = re.escape(f"{_folder_of_session(tmp_path_factory)}/made")
    places = re.compile(
        rf"(?:(?:{shared}|{re.escape(str(tmp_path_factory.getbasetemp()))})/[^/\s'\"]+|{re.escape(str(REPOSITORY))})/?"
    )

    def cell(text: object) -> str:
        plain = places.sub("", " ".join(str(text).split()))
        plain = re.sub(
            r"/[^\s'\"]*pytest-of[^\s'\"]*", "/...", plain
        )  # the beginning of one that the sentence cuts off
        shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in plain)
        return shown.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")

    def tell(group: str, case: str, sentence: object) -> None:
        key = group, cell(case)
        if request.config.getoption("--write-bad-inputs"):
            request.config.stash[_TOLD][key] = cell(sentence)
            return
        if not request.config.stash[_PAGE]:
            request.config.stash[_PAGE].update(_read_page())
        sentence_there = request.config.stash[_PAGE].get(key)
        advice = f"run this test with --write-bad-inputs, which renews {BAD_INPUTS}."
        assert sentence_there is not None, f"The page misses {key[1]!r}; {advice}"
        # numbers may be a process, a port, or seconds
        assert _NUMBER.sub("0", cell(sentence)) == _NUMBER.sub("0", sentence_there), f"The page is stale; {advice}"

    return tell


def pytest_sessionfinish(session: pytest.Session) -> None:
    cases = session.config.stash[_TOLD]
    if not session.config.getoption("--write-bad-inputs"):
        return
    lines = [_INTRODUCTION]
    for group in dict.fromkeys(group for group, _ in cases):
        mine = {case: sentence for (of, case), sentence in cases.items() if of == group}
        lines += [f"## {group}", "", "| given | said |", "|---|---|"]
        lines += [*(f"| {case} | {sentence} |" for case, sentence in mine.items()), ""]
    lines[0] += f"\n{len(cases)} cases.\n"
    BAD_INPUTS.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
