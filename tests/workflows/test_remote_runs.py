"""Comparisons with a model behind an address: faults, a server that dies, resumption, query budget, secrets."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen.comparison.stages import CompareResult
from diffgen.config import CompareConfig, ModelSpec, Opening, RemoteConfig
from diffgen.errors import ServiceError, UserError
from diffgen.runs.folder import RunFolder
from diffgen.types import ImageSet
from diffgen.workflows.compare import compare
from diffgen.workflows.replay import replay
from diffgen.workflows.resume import resume
from tests.models.remote.fault_proxy import FaultProxy
from tests.models.remote.mlserver_process import MlServer, mlserver_python
from tests.models.remote.oip_server import OipServer, hang_up, onnx_model
from tests.recording import Recording

SECRET = "Bearer s3cr3t-t0ken"
VARIABLE = "H3_TOKEN"
PROBED = 192  # real images that are asked about again, for the numeric noise and for a drift, at most


def digests(images: np.ndarray) -> list[bytes]:
    """Of uint8 images, as a server sees them."""
    return [hashlib.sha256(image).digest() for image in images.astype(np.float32) / np.float32(255)]


def pair(**opening: Any) -> tuple[ModelSpec, ModelSpec]:
    """What is said of B alone."""
    return ModelSpec(), ModelSpec(opening=Opening(**opening))


@pytest.fixture
def quick(small_config: CompareConfig, monkeypatch: pytest.MonkeyPatch) -> CompareConfig:
    monkeypatch.setenv(VARIABLE, SECRET)
    monkeypatch.setattr("diffgen.models.remote.server.time.sleep", lambda seconds: None)
    return replace(small_config, models=pair(remote=RemoteConfig(auth_env=VARIABLE)))


def test_faults_and_the_servers_death_change_nothing(
    model_files: dict[str, Path], quick: CompareConfig, finished: CompareResult, digits: ImageSet, tmp_path: Path
) -> None:
    """The archive is that of the run with the file, no image is sent twice, and the secret is nowhere."""
    run, progress = tmp_path / "run", Recording()
    hidden = ("error", "busy", "dropped")  # what the server itself does not see
    with (
        OipServer({"b": onnx_model(model_files["b"])}, token=SECRET, binary=True) as server,
        FaultProxy(f"http://127.0.0.1:{server.port}", rate=0.1, seed=5, kinds=hidden) as proxy,
    ):
        server.intercept = lambda handler: server.images > 1500 and hang_up(handler)
        with pytest.raises(ServiceError, match="see that it runs") as caught:
            compare(
                model_files["a"],
                proxy.address("b"),
                data="digits:test",
                config=quick,
                output=run,
                events=progress,
            )
        assert caught.value.exit_code == 3
        (note,) = caught.value.__notes__
        assert note.endswith(f"diffgen compare --resume {run} --b-allow-remote --b-auth-env {VARIABLE}'")
        assert RunFolder.open(run).has_checkpoint()
        server.intercept = None

        before = server.images
        with pytest.raises(
            UserError, match=f"is asked at {proxy.address('b')}, which sends pictures there; add --b-al"
        ):
            resume(run)
        options = pair(allow_remote=True)
        with pytest.raises(UserError, match=f"add --b-auth-env {VARIABLE} to send it there again"):
            resume(run, options=options)
        assert server.images == before
        options = pair(allow_remote=True, remote=RemoteConfig(auth_env=VARIABLE))
        result = resume(run, options=options, events=progress)
        assert proxy.injected.total() > 5
        seen = dict(server.seen)
        again = replay(run, options=options)
        assert again.reproduced == again.replayed > 0

    ours, theirs = (RunFolder.open(each).read_triggers().columns() for each in (run, finished.run))
    assert result.triggers == finished.triggers
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)

    real = set(digests(digits.images))
    probed = {digest for digest, count in seen.items() if count > 1 and digest in real}
    assert 0 < len(probed) <= PROBED
    more = {digest: count for digest, count in seen.items() if count > 1 and digest not in probed}
    # in the broken run and the resumed one together: triggers once in the search, and once to be sure
    assert more == dict.fromkeys(digests(ours["images"]), 2)

    written = b"".join(file.read_bytes() for file in sorted(run.rglob("*")) if file.is_file())
    assert b"127.0.0.1" in written  # that much is known of the server
    for secret in (SECRET, SECRET.split()[1]):
        assert secret.encode() not in written
        assert not any(secret in text for text in [*progress.heard, str(caught.value), note])


def test_the_query_budget_ends_the_search_and_leaves_enough_to_verify(
    model_files: dict[str, Path], quick: CompareConfig, tmp_path: Path
) -> None:
    progress = Recording()
    with OipServer({"b": onnx_model(model_files["b"])}, binary=True) as server:

        def limited(budget: int) -> CompareConfig:
            return replace(quick, models=pair(remote=RemoteConfig(query_budget=budget)))

        with pytest.raises(UserError, match=r"may be asked about 1,000 images.*takes about 1,474; give a larger"):
            compare(
                model_files["a"], server.address("b"), data="digits:test", config=limited(1000), output=tmp_path / "x"
            )
        assert server.images == 0 and not (tmp_path / "x").exists()

        result = compare(
            model_files["a"],
            server.address("b"),
            data="digits:test",
            config=limited(1_900),
            output=tmp_path / "run",
            events=progress,
        )
        assert server.images <= 1_900
        assert 100 < result.queries < 600 and result.triggers > 0
        assert any("query budget of model b ended the search" in text for text in progress.heard)
        verdicts = RunFolder.open(tmp_path / "run").read_arrays("verdicts")
        assert (verdicts["confirmed"] > 0).all()
        assert RunFolder.open(tmp_path / "run").manifest["status"] == "done"


@pytest.mark.slow
def test_a_real_mlserver_through_faults_gives_the_same_archive(
    model_files: dict[str, Path], small_config: CompareConfig, finished: CompareResult, tmp_path: Path
) -> None:
    python = mlserver_python()
    if python is None:
        pytest.skip("There is no environment with MLServer; make one with make mlserver.")
    (tmp_path / "mlserver").mkdir()
    with (
        MlServer(python, {"b": model_files["b"]}, tmp_path / "mlserver") as server,
        FaultProxy(server.origin, rate=0.05, seed=1) as proxy,
    ):
        compare(model_files["a"], proxy.address("b"), data="digits:test", config=small_config, output=tmp_path / "run")
        assert proxy.injected.total() > 5
    ours, theirs = (RunFolder.open(each).read_triggers().columns() for each in (tmp_path / "run", finished.run))
    for name in theirs:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_another_model_at_the_address_is_noticed(
    model_files: dict[str, Path], finished: CompareResult, tmp_path: Path
) -> None:
    """A run is not gone on with when the server says other things of its model."""
    run = tmp_path / "run"
    source = Path(finished.run)
    run.mkdir()
    with OipServer({"b": onnx_model(model_files["b"])}) as server:
        for file in ("config.toml", "manifest.json"):
            (run / file).write_bytes((source / file).read_bytes())
        folder = RunFolder.open(run)
        entry = {"name": "b", "path": server.address("b"), "sha256": "0" * 64}
        folder.save_manifest(status="interrupted", files={**folder.manifest["files"], "B": entry})
        options = pair(allow_remote=True)
        with pytest.raises(UserError, match="says other things of its model than in the run"):
            resume(run, options=options)
        # who names the address allows it
        with pytest.raises(UserError, match="says other things"):
            resume(run, None, server.address("b"))
        assert server.images == 0
