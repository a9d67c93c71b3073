"""The page as another program asks it: the real server, a real client, real run folders, real processes."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from diffgen import api
from diffgen.data.picture_file import decode
from diffgen.runs.folder import RunFolder
from diffgen.runs.outputs import hold
from diffgen.ui.jobs import Jobs
from diffgen.ui.labelling import Sheets
from diffgen.ui.place import Place
from tests.ui.conftest import HOSTILE, TOKEN
from tests.ui.serving import served

pytest.importorskip("gradio_client", reason="pip install 'diffgen[test]' brings it")
httpx = pytest.importorskip("httpx", reason="it comes with gradio")

_JSON = {"Content-Type": "application/json"}
_PATIENCE = 600  # seconds that a job may take on a busy machine


@pytest.fixture(scope="module")
def client(page: str) -> Iterator[Any]:
    from gradio_client import Client

    yield Client(page, verbose=False, headers=known(page))


@pytest.fixture(scope="module")
def http(page: str) -> Iterator[Any]:
    with httpx.Client(base_url=page, timeout=1200, headers=known(page)) as found:
        yield found


def known(page: str) -> dict[str, str]:
    """What a browser sends that has opened the address with the token."""
    answer = httpx.get(page, params={"token": TOKEN}, timeout=1200)
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}


@cache
def _parameters(client: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.view_api(return_format="dict", print_info=False)["named_endpoints"]["/start"][
        "parameters"
    ]
    return found


def started(client: Any, **changes: Any) -> list[Any]:
    """What the form holds, in the order of the endpoint, with some fields filled in."""
    fields = _parameters(client)
    values = [each["parameter_default"] if each["parameter_has_default"] else "" for each in fields]
    for place, name in enumerate(("models", "data", "technique", "preset", "budget", "seed", "name", "more")):
        values[place] = changes.get(name, values[place])
    return values


def ended(place: Place, run: str) -> api.RunLine:
    """What is known of a run when its process is over."""
    until = time.monotonic() + _PATIENCE
    while (job := Jobs(place).of(run)) is not None and job.alive:
        assert time.monotonic() < until, job.state()
        time.sleep(0.3)
    assert job is not None and job.problem == ""
    return api.describe_run(place.runs / run)


def test_the_page_comes_from_here_alone(http: Any) -> None:
    page = http.get("/")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    loaded = re.findall(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"']([^\"']+)", page.text)
    assert loaded
    assert not [each for each in loaded if "//" in each]
    assert "fonts.googleapis" not in page.text
    config = http.get("/config").json()
    assert config["analytics_enabled"] is False
    for sheet in (each for each in loaded if ".css" in each):
        assert not re.findall(r"url\([\"']?https?:", http.get(sheet).text)


def test_a_number_is_shown_with_the_value_that_it_has(http: Any) -> None:
    """The browser shows 0, and sends it, where a number has none."""
    components = [each["props"] for each in http.get("/config").json()["components"] if each["type"] == "number"]
    shown = [each for each in components if each["visible"] is True]
    assert {each["label"] for each in shown} >= {"Seed", "Pictures"}
    assert [each["label"] for each in shown if each.get("value") is None] == []


def test_a_foreign_page_is_refused(http: Any, place: Place) -> None:
    foreign = {"Origin": "http://evil.example"}
    assert http.post("/gradio_api/queue/join", json={}, headers=foreign).status_code == 403
    assert http.post("/labels/done/Eve", json={"id": "x", "label": "1"}, headers=foreign).status_code == 403
    assert http.get("/", headers={"Host": "evil.example"}).status_code == 421


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../etc/passwd", "/files/../manifest.json", "{runs}/a.onnx"])
def test_no_other_file_is_served(http: Any, place: Place, path: str) -> None:
    path = path.format(runs=place.runs)
    for route in ("/gradio_api/file=", "/file=", "/files/", "/labels/done/"):
        answer = http.get(f"{route}{path}")
        assert answer.status_code in (400, 403, 404), (route, path)


def test_pictures_are_those_of_the_run(http: Any, place: Place) -> None:
    images = RunFolder.open(place.runs / "done").read_triggers().images
    for number in (0, 57, len(images) - 1):
        answer = http.get(f"/files/done/picture/{number}.png")
        assert answer.headers["content-type"] == "image/png"
        assert np.array_equal(decode(answer.content, "picture", "page"), images[number, 0])
    assert http.get(f"/files/done/picture/{len(images)}.png").status_code == 404
    strip = decode(http.get("/files/done/sheet.png?n=7,3,3").content, "strip", "page")
    assert np.array_equal(strip, np.concatenate([images[7, 0], images[3, 0], images[3, 0]], axis=1))
    for wrong in ("", "x", ",".join(["1"] * 101), "999999"):
        assert http.get(f"/files/done/sheet.png?n={wrong}").status_code == 404
    assert http.get("/files/nothing/picture/0.png").text.startswith("There is no run 'nothing'")


def test_the_zip_holds_what_export_writes(http: Any, place: Place, tmp_path: Path) -> None:
    answer = http.get("/files/done/export.zip")
    with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
        found = {name.removeprefix("done/"): packed.read(name) for name in packed.namelist() if not name.endswith("/")}
    written = api.export(place.runs / "done", tmp_path / "export")
    files = {str(each.relative_to(written.folder)): each for each in Path(written.folder).rglob("*") if each.is_file()}
    assert found.keys() == files.keys()
    pictures = [name for name in files if name.endswith(".png")]
    assert pictures
    assert all(found[name] == files[name].read_bytes() for name in pictures)


def test_a_report_is_a_page_of_nowhere(http: Any) -> None:
    assert http.get("/files/unfinished/report.html").text == "The run unfinished has no report yet."
    policy = http.get("/files/done/report.html").headers["content-security-policy"]
    assert policy.startswith("sandbox")
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy


def test_runs_behaviours_and_pictures(client: Any, place: Place) -> None:
    finds = api.browse(place.runs / "done")
    number = int(finds.numbers(api.TriggerQuery())[0])
    first = finds.find(number)
    said = client.predict("done", number, api_name="/picture")
    assert all(
        f"{role} says {finds.class_names[label]}" in said
        for role, label in zip("AB", first.picture.labels, strict=True)
    )
    assert "has no trigger 123456" in client.predict("done", 123456, api_name="/picture")


def test_hostile_names_stay_text(client: Any, place: Place) -> None:
    finds = api.browse(place.runs / "hostile")
    page = client.predict("hostile", int(finds.numbers(api.TriggerQuery("all", label=0))[0]), api_name="/picture")
    assert "&lt;img src=x" in page
    assert HOSTILE[0] not in page


def test_two_people_label_and_their_kappa_is_told(client: Any, http: Any, place: Place) -> None:
    from sklearn.metrics import cohen_kappa_score

    client.predict("done", "Ada", 12, api_name="/draw_sheet")
    ids = Sheets(place).ids("done")
    assert len(ids) == 12
    said = {"Ada": [*"332211009988"], "Bo": [*"33221100998", "invalid"]}
    for person, labels in said.items():
        for identifier, label in zip(ids, labels, strict=True):
            answer = http.post(f"/labels/done/{person}", json={"id": identifier, "label": label})
            assert answer.status_code == 200
    outcome = client.predict("done", api_name="/put_labels")
    kappa = cohen_kappa_score(said["Ada"], said["Bo"])
    assert f"kappa {kappa:.2f}" in outcome
    assert "11 pictures have a class, 0 show none, 1 is undecided" in outcome
    outcomes, sources = api.label_counts(place.runs / "done")
    assert sources["human"] == sum(outcomes.values()) == 11
    with pytest.raises(Exception, match="Somebody has begun"):
        client.predict("done", "Ada", 5, api_name="/draw_sheet")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/labels/done/Ada", {"id": "t000000000000", "label": "1"}, 404),
        ("/labels/done/Ada", {"label": "1"}, 400),
        ("/labels/done/..%2fEve", {"id": "x", "label": "1"}, 404),
        ("/labels/nothing/Ada", {"id": "x", "label": "1"}, 404),
    ],
)
def test_a_wrong_vote_is_refused(http: Any, path: str, body: dict[str, str], status: int) -> None:
    assert http.post(path, json=body).status_code == status


def test_a_run_that_came_after_the_list_was_drawn_may_be_chosen(client: Any, place: Place) -> None:
    """The list of a page is drawn anew, as when a run is deleted; another page makes a run that it does not name."""
    for name in ("gone", "later"):
        shutil.copytree(place.runs / "done", place.runs / name)
        if name == "gone":
            client.predict("gone", "gone", api_name="/delete")
    try:
        assert "done" in client.predict("later", api_name="/status")
    finally:
        shutil.rmtree(place.runs / "later")


@pytest.mark.parametrize(("body", "status"), [(b"[" * 4000, 400), (b" " * 5000 + b"{}", 413)])
def test_a_body_that_is_no_vote_is_refused(http: Any, body: bytes, status: int) -> None:
    assert http.post("/labels/done/Ada", content=body).status_code == status


def test_a_body_is_refused_before_its_end(page: str) -> None:
    """Of a body that says to be a gigabyte, no more is waited for than a vote can be."""
    host = page.removeprefix("http://").rstrip("/")
    head = f"POST /labels/done/Ada HTTP/1.1\r\nHost: {host}\r\nCookie: {known(page)['Cookie']}\r\n"
    with socket.create_connection((host.partition(":")[0], int(host.partition(":")[2])), timeout=1200) as wire:
        wire.sendall(f"{head}Content-Length: {1 << 30}\r\n\r\n".encode() + b" " * 10_000)
        assert wire.recv(100).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"models": "a.onnx"}, "needs 2 to"),
        ({"models": "a.onnx\nnothing.onnx"}, "is missing"),
        ({"models": "a.onnx\n/etc/passwd"}, "not in the folders that this page may read"),
        ({"data": "/etc"}, "not in the folders that this page may read"),
        ({"data": ""}, "The data is missing"),
        ({"budget": "soon"}, "The budget 'soon' is not understood"),
        ({"name": "../x"}, "is no name of a run"),
        ({"name": "done"}, "There is a run 'done' already"),
        ({"more": "search.populaton=5"}, "search.populaton"),
        ({"more": "search.population=1"}, "search.population"),
        ({"technique": "diffgan", "preset": "nonsense"}, "nonsense"),
    ],
)
def test_wrong_input_starts_nothing(client: Any, place: Place, changes: dict[str, str], sentence: str) -> None:
    before = sorted(place.runs.glob(".ui/jobs/*"))
    good = {"models": "a.onnx\nb.onnx", "data": "digits:test", "name": "never"}
    with pytest.raises(Exception, match=re.escape(sentence)):
        client.predict(*started(client, **{**good, **changes}), api_name="/start")
    assert sorted(place.runs.glob(".ui/jobs/*")) == before


def test_a_wrong_file_is_told_of_where_it_was_given(client: Any, place: Place) -> None:
    (place.runs / "wrong.onnx").write_bytes(b"no model")
    cards, _ = client.predict("a.onnx\nwrong.onnx", "digits:test", api_name="/inspect")
    assert "a.onnx" in cards
    assert "right on 200 images" in cards
    assert re.search(r"B: [^<]*wrong\.onnx", cards)


def test_a_run_goes_its_whole_way(client: Any, place: Place) -> None:
    """Started, watched, looked through, asked again, put beside another one, deleted; in processes of their own."""
    more = "data_labels=ignore\nfilters.names=[]\nsearch.population=50"
    form = started(
        client,
        models="a.onnx\nb.onnx",
        data="digits:test",
        technique="real_data",
        budget="400q",
        name="whole",
        more=more,
    )
    assert client.predict(*started(client), api_name="/command")[0].startswith("# A comparison needs")
    command, program = client.predict(*form, api_name="/command")
    assert command.startswith("diffgen compare ")
    assert "diffgen.compare(" in program
    client.predict(*form, api_name="/start")
    with pytest.raises(Exception, match=r"already|works on the run"):
        client.predict(*form, api_name="/start")
    seen = ended(place, "whole")
    assert (seen.status, seen.problem) == ("done", "")
    assert seen.figures is not None and seen.figures["queries"] == 400
    assert seen.triggers == seen.figures["triggers"] > 0
    assert "made from real image" in client.predict("whole", 0, api_name="/picture")
    assert "Settings that differ" in client.predict("whole", "done", api_name="/beside")
    assert "no check" in client.predict("whole", api_name="/verdict")
    with pytest.raises(Exception, match="not its name"):
        client.predict("whole", "hole", api_name="/delete")
    assert (place.runs / "whole" / "manifest.json").exists()
    client.predict("whole", "whole", api_name="/delete")
    assert not (place.runs / "whole").exists()
    assert Jobs(place).of("whole") is None, "another browser would show it for as long as its job is remembered"


@pytest.mark.slow
def test_a_candidate_is_checked_and_accepted(client: Any, place: Place) -> None:
    """It is accepted into the store of the check, also after a reload, when the field has another one."""
    words = ["a.onnx", "b.onnx", "digits:test", "1000q", 0, "mine", "gate", *[""] * 8]
    client.predict(*words, api_name="/start_check")
    ended(place, "gate")
    said = client.predict("gate", "regressions", api_name="/verdict")
    assert "Conditions" in said and "were new to mine" in said
    client.predict("gate", "regressions", api_name="/accept")
    assert (place.runs / "mine").is_dir()
    assert not (place.runs / "regressions").exists()


@pytest.mark.slow
def test_the_command_serves_on_this_machine_alone(place: Place) -> None:
    words = [sys.executable, "-m", "diffgen", "ui", str(place.runs), "--files", str(place.runs), "--port", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=\S{20,}", said)
        assert found, said
        try:
            assert httpx.get(f"http://127.0.0.1:{found[1]}/", timeout=1200).status_code == 401
            answer = httpx.get(found[0], timeout=1200)
            assert answer.status_code == 200
            ports = Path("/proc/net/tcp").read_text(encoding="ascii")
            bound = [line.split()[1] for line in ports.splitlines() if f":{int(found[1]):04X} 00000000:0000" in line]
            assert bound == [f"0100007F:{int(found[1]):04X}"]
            # an open tab listens to the page's heart for ever
            heart = found[0].replace("?", "gradio_api/heartbeat/tab?")
            with httpx.stream("GET", heart, timeout=1200) as tab:
                assert tab.status_code == 200
                process.send_signal(signal.SIGINT)
                process.wait(1200)
        finally:
            process.kill()
    assert process.returncode in (0, 130, -signal.SIGINT)


def test_no_function_takes_a_file_that_nobody_dropped_onto_the_page(page: str, place: Place, tmp_path: Path) -> None:
    """Who knows the token may pick from the folders that were named, and read no other file of the account."""
    (secret := tmp_path / "secret.txt").write_text("a secret of the account", encoding="utf-8")
    runs = {each.name for each in place.runs.iterdir()}
    with httpx.Client(base_url=page, timeout=60, headers=known(page)) as client:
        (dropped,) = client.post("gradio_api/upload", files={"files": ("b.onnx", b"b")}).json()
        paths = [str(secret), f"{Path(dropped).parent}/../../../../../{secret}", "http://127.0.0.1:9/x", dropped + "x"]
        functions = [each for each in client.get("config").json()["dependencies"] if each["backend_fn"]]
        taking = [each for each in functions if each["inputs"]]
        assert len(taking) > 40
        calls = []
        for number, each in enumerate(taking):
            file = {"path": paths[number % len(paths)], "meta": {"_type": "gradio.FileData"}}
            nested = (file, [file], {"a": [file]})[number % 3]
            calls.append({"fn_index": each["id"], "data": [nested] * len(each["inputs"])})
        assert [text for text in _said(client, calls) if "was not dropped onto this page" not in text] == []
        upload = next(each["id"] for each in functions if ["upload"] in [target[1:] for target in each["targets"]])
        file = {"path": dropped, "meta": {"_type": "gradio.FileData"}, "orig_name": "b.onnx"}
        assert "/kept/" in _said(client, [{"fn_index": upload, "data": [[file], ""]}])[0]
    assert not [each for each in place.own("uploads").rglob("*") if each.is_file() and b"secret" in each.read_bytes()]
    assert {each.name for each in place.runs.iterdir()} == runs


def test_what_no_field_can_hold_is_told_of_in_a_sentence(page: str) -> None:
    """A program may send anything; the name of an error of Python says nothing to whoever sees it."""
    with httpx.Client(base_url=page, timeout=60, headers=known(page)) as client:
        about = client.get("config").json()
        labels = {each["id"]: each["props"].get("label") for each in about["components"]}
        taking = [each for each in about["dependencies"] if each["backend_fn"] and each["inputs"]]
        for value, field in ((5, "Run"), (float("nan"), "Trigger"), ([], "Run"), (True, "Seed"), ("x", "Trigger")):
            asked = [each for each in taking if field in [labels[place] for place in each["inputs"]]]
            calls = [
                {"fn_index": each["id"], "data": [value if labels[at] == field else None for at in each["inputs"]]}
                for each in asked
            ]
            told = f"The field {field} cannot hold {value!r}; give it another value."
            assert calls
            for text in _said(client, calls):
                assert told.replace("'", "&#x27;") in text or told in text or "cannot hold None" in text


def _said(client: Any, calls: list[dict[str, Any]]) -> list[str]:
    """What came of calls, in the order in which they ended: each whole answer."""
    session, found = {"session_hash": f"session-{time.monotonic_ns()}"}, []
    for each in calls:
        body = json.dumps({**each, **session})  # which writes NaN, too
        client.post("gradio_api/queue/join", content=body, headers=_JSON).raise_for_status()
    with client.stream("GET", "gradio_api/queue/data", params=session) as lines:
        for line in lines.iter_lines():
            if '"process_completed"' in line:
                found.append(line)
                if len(found) == len(calls):
                    break
    return found


def test_what_was_dropped_is_gone_when_the_page_ends(tmp_path: Path) -> None:
    """What a killed page left goes when another one starts; what a living one holds, and what a run keeps, stays."""
    place = Place(tmp_path, (tmp_path,))
    folders = [place.own("uploads", name) for name in ("page-killed", "page-living", "kept")]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "a.onnx").write_bytes(b"a")
        os.utime(folder, (0, 0))
    held = hold(folders[1])
    assert held is not None
    with served(place, TOKEN) as address:
        answer = httpx.post(f"{address}gradio_api/upload", files={"files": ("b.onnx", b"b")}, headers=known(address))
        assert Path(answer.json()[0]).read_bytes() == b"b"
        assert not folders[0].exists()
    assert sorted(place.own("uploads").iterdir()) == sorted(folders[1:])
    os.close(held)
