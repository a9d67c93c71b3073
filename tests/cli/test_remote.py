"""What the command line says of remote models that cannot be used: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.remote.oip_server import OipServer, Served, onnx_model

GROUP = "Remote models"
SECRET = "Bearer s3cr3t-t0ken"


@pytest.fixture(scope="module")
def server(files: dict[str, Path]) -> Iterator[OipServer]:
    models = {
        "b": onnx_model(files["b.onnx"]),
        "seven": onnx_model(files["seven.onnx"]),
        "nan": Served(lambda pixels: np.full((len(pixels), 10), np.nan, np.float32)),
        "labels": Served(lambda pixels: np.zeros(len(pixels), np.int64), outputs={"label": "INT64"}),
        "text": Served(lambda pixels: pixels, datatype="BYTES"),
        "colour": Served(lambda pixels: pixels, shape=(-1, 3, 32, 32)),
        "columns": Served(lambda pixels: np.zeros((len(pixels), 2, 5), np.float32)),
        "crash": Served(lambda pixels: 1 // 0),
    }
    with OipServer(models) as running:
        yield running


def options(server: OipServer, case: str) -> tuple[list[object], str]:
    """Words after ``compare A``, and what must be said."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    origin = f"http://127.0.0.1:{port}"
    few = ("--retries", 1)
    cases: dict[str, tuple[list[object], str]] = {
        "a server that is not running": ([f"{origin}/v2/models/b", *few], "nothing listens there"),
        "an address that is not a model's": ([f"{origin}/v1/models/b:predict"], "is not that of a model"),
        "a password in the address": (["http://me:s3cr3t@h/v2/models/b"], "holds more than host and path"),
        "a model that the server does not know": ([server.address("nope")], "does not know the model nope"),
        "a version that the server does not have": ([server.address("b/versions/9")], "no version 9"),
        "images of another shape": ([server.address("colour")], "takes 3x32x32 images but the data has 1x28x28"),
        "a datatype that images cannot have": ([server.address("text")], "takes BYTES"),
        "labels in place of probabilities": ([server.address("labels")], "gives INT64 values"),
        "an answer that is no row of values per image": ([server.address("columns")], "gives an array of shape"),
        "NaN": ([server.address("nan")], "gave NaN or infinite values"),
        "a model that fails on the server": ([server.address("crash")], "ZeroDivisionError"),
        "another number of classes": ([server.address("seven")], "answers with 10 classes but model B"),
        "a query budget below the number of real images": (
            [server.address("b"), "--query-budget", 500],
            "may be asked about 500 images",
        ),
        "a query budget of 0": ([server.address("b"), "--query-budget", 0], "(--query-budget) is 0; give 1 or more"),
        "a negative timeout": (
            [server.address("b"), "--b-timeout", -1],
            "(--timeout) is -1; give a number above 0 and up to",
        ),
        "a variable that is not set": ([server.address("b"), "--auth-env", "NO_SUCH"], "NO_SUCH is not set"),
    }
    return cases[case]


@pytest.mark.parametrize(
    "case",
    [
        "a server that is not running",
        "an address that is not a model's",
        "a password in the address",
        "a model that the server does not know",
        "a version that the server does not have",
        "images of another shape",
        "a datatype that images cannot have",
        "labels in place of probabilities",
        "an answer that is no row of values per image",
        "NaN",
        "a model that fails on the server",
        "another number of classes",
        "a query budget below the number of real images",
        "a query budget of 0",
        "a negative timeout",
        "a variable that is not set",
    ],
)
def test_it_is_said_in_one_sentence(
    case: str,
    server: OipServer,
    files: dict[str, Path],
    diffgen_command: Callable[..., Any],
    told: Callable[[str, str, object], None],
    tmp_path: Path,
) -> None:
    words, sentence = options(server, case)
    found = diffgen_command("compare", files["a.pt"], *words, "--data", "digits:test", "-o", tmp_path / "run", "-q")
    assert found.code == 2, found.err
    assert sentence in found.err and found.err.count("\n") == 1
    assert "s3cr3t" not in found.err
    assert not (tmp_path / "run").exists()
    said = found.err.removeprefix("diffgen: ")
    told(GROUP, case, re.sub(r"127\.0\.0\.1:\d+", "HOST", said))


def test_access_redirects_and_certificates(
    files: dict[str, Path],
    diffgen_command: Callable[..., Any],
    told: Callable[[str, str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("H3_TOKEN", "Bearer wr0ng")
    model = {"b": onnx_model(files["b.onnx"])}

    def tell(case: str, err: str, running: OipServer) -> None:
        told(GROUP, case, err.removeprefix("diffgen: ").replace(f"127.0.0.1:{running.port}", "HOST"))

    with OipServer(model, token=SECRET) as running:
        found = diffgen_command("inspect", running.address("b"), "--data", "digits:test")
        assert found.code == 2 and "wants an Authorization header" in found.err
        tell("a server that wants a header", found.err, running)
        found = diffgen_command("inspect", running.address("b"), "--data", "digits:test", "--auth-env", "H3_TOKEN")
        assert found.code == 2 and "its Authorization header is not accepted" in found.err
        assert "wr0ng" not in found.err and "HTTP 401: Unauthorized" in found.err
        tell("a header that is not accepted", found.err, running)
        assert running.images == 0

    def lead_on(handler: Any) -> bool:
        handler.give(302, {}, {"Location": "https://login.example.com/?next=x"})
        return True

    with OipServer(model, intercept=lead_on) as running:
        found = diffgen_command("inspect", running.address("b"), "--data", "digits:test", "--auth-env", "H3_TOKEN")
        assert found.code == 2 and "leads on to somewhere else (HTTP 302)" in found.err  # it was sent the header
        tell("a redirect", found.err, running)


def test_inspect_finds_the_pre_processing_of_a_remote_model(
    files: dict[str, Path],
    diffgen_command: Callable[..., Any],
    told: Callable[[str, str, object], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("H3_TOKEN", SECRET)
    with OipServer({"b": onnx_model(files["b.onnx"])}, token=SECRET) as running:
        found = diffgen_command("inspect", running.address("b"), "--data", "digits:test", "--auth-env", "H3_TOKEN")
        assert found.code == 0
        assert f"{running.address('b')} is a remote model (Open Inference Protocol v2)." in found.out
        assert "takes    1x28x28" in found.out
        asked = running.images
        found = diffgen_command("inspect", running.address("b"), "--data", "digits:test", "--write")
        assert found.code == 2 and "is an address; leave --write out" in found.err and running.images == asked
        told(GROUP, "inspect --write", found.err.removeprefix("diffgen: ").replace(f"127.0.0.1:{running.port}", "HOST"))


def test_an_outage_is_no_answer_about_pre_processing(
    files: dict[str, Path], diffgen_command: Callable[..., Any]
) -> None:
    """The candidates that could be tried do not pass for all of them."""

    def die(handler: Any) -> bool:
        handler.close_connection = running.images > 1500
        return running.images > 1500

    with OipServer({"b": onnx_model(files["b.onnx"])}, intercept=die) as running:
        found = diffgen_command("inspect", running.address("b"), "--data", "digits:test", "--retries", 0)
    assert found.code == 3 and "the connection was lost" in found.err
    assert "Best on" not in found.out


def test_an_address_survives_the_configuration_file(
    files: dict[str, Path], diffgen_command: Callable[..., Any], tmp_path: Path
) -> None:
    address = "http://127.0.0.1:1/v2/models/b"
    words = ("--b-auth-env", "TOKEN", "--query-budget", 5000, "--b-timeout", 7)
    printed = diffgen_command("compare", files["a.pt"], address, "--data", "digits", *words, "--print-config").out
    (tmp_path / "mine.toml").write_text(printed)
    again = diffgen_command("compare", "--config", tmp_path / "mine.toml", "--print-config").out
    assert again == printed
    assert f'path = "{address}"' in printed
    for line in ('auth_env = "TOKEN"', "query_budget = 5000", "timeout = 7.0"):
        assert line in printed.split("[[models]]")[-1]
