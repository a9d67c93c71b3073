"""Every benchmark that is a command still runs: each test is named after one, and none may be without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

import benchmarks
from tests.benchmarks.conftest import Bench
from tests.models.painters import Painter, export, pictures

COMMANDS = sorted(
    file.stem for file in Path(benchmarks.__path__[0]).glob("*.py") if '__name__ == "__main__"' in file.read_text()
)


@pytest.mark.parametrize("name", COMMANDS)
def test_it_has_a_smoke_test(name: str) -> None:
    beside = Path(__file__).with_name(f"test_{name}.py")  # one with more to check than that it runs
    assert f"test_{name}" in globals() or beside.is_file(), (
        f"benchmarks/{name}.py is a command that no test runs; add test_{name} here, or {beside.name}"
    )


@pytest.mark.slow
def test_islands(bench: Bench) -> None:
    small = ("--quick", "--passes", 1, "--population", 20)
    said = bench("islands", "speed", "--workers", "1,2", "--milliseconds", 1, "--seconds", 1, *small)
    assert [line.split(" | ")[1:3] for line in said.splitlines()[2:]] == [["1", "1"], ["2", "1"], ["1", "2"]]
    said = bench("islands", "kills", "--kills", 1, "--pause", 1, "--budget", "400q", *small)
    assert said.rstrip().endswith("| 0 | yes |")


def test_segmentation(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number, image in enumerate(pictures(50)[0]):
        Image.fromarray(image.transpose(1, 2, 0)).save(tmp_path / "data" / f"{number:02}.png")
    said = bench("segmentation", export(Painter("map", 0.25), tmp_path / "a.onnx"), "--data", tmp_path / "data")
    assert said.count("\n| ") == 7
    assert "| none | 0.0 % (0.0 to " in said


@pytest.mark.slow
def test_filters(bench: Bench, small_run: Path, tmp_path: Path) -> None:
    said = bench("filters", "digits", "digits", "--run", small_run, "--sheet", tmp_path / "sheet.png", "--quick")
    assert said.count("| preset default |") == 5  # rejected, three of the judge, cost
    assert (tmp_path / "sheet.png").is_file()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_formats(bench: Bench, shared_folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert", reason="the extra tflite is not installed")
    pytest.importorskip("h5py", reason="the extra keras is not installed")
    few = ("--queries", 200, "--resnet-queries", 200, "--images", 200, "--quick")
    places = (shared_folder / "data" / "mnist", shared_folder / "data" / "cifar10" / "test.zip")
    bench("formats", *places, shared_folder / "models", *few, "--out", tmp_path / "page.md")
    assert (tmp_path / "page.md").read_text().count("\n| ") == 26


@pytest.mark.slow
def test_fuzz_doors(bench: Bench, tmp_path: Path) -> None:
    said = bench("fuzz_doors", "--seconds", 1, "--only", "idx", "npz", "sidecar", "--output", tmp_path / "found")
    assert "0 different findings" in said


@pytest.mark.slow
def test_gan(bench: Bench, tmp_path: Path) -> None:
    words = ("digits", tmp_path, "--variant", "quick", "--quick")
    (tmp_path / "gan.jsonl").write_text('{"variant": "quick", "seed": 0, "coverage": 0.9}\n')  # of an older version
    said = bench("gan", *words)
    assert said.count("\n| quick | 1 | 10 |") == 1
    assert bench("gan", *words).splitlines()[-1] == said.splitlines()[-1]  # is there and is not done again


@pytest.mark.slow
def test_gate(bench: Bench, shared_of_digits: Path, small_gan: Path, tmp_path: Path) -> None:
    words = ("--only", "false-alarms", "sensitivity", "--limit", 1, "--queries", 200, "--gan", small_gan, "--quick")
    said = bench("gate", shared_of_digits, tmp_path, *words)
    assert "| lenet.pt against lenet.onnx, seed 0 | 0 of 898" in said
    assert " of 1 checks of a model against itself passed" in said  # so short a check may only warn


@pytest.mark.slow
def test_judge(bench: Bench, small_gan: Path) -> None:
    said = bench("judge", "digits", "--gan", small_gan, "--pictures", 900)
    assert "recognised of the real test images" in said
    found = json.loads(said[said.index("{") :])
    assert found["covered_images"] == 90  # the tenth of 898 that was held out
    assert 0 <= found["coverage_held_out"] <= 1 and found["coverage_held_out_ceiling"] > 0.5


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_kill_and_resume(bench: Bench, tmp_path: Path) -> None:
    bench("kill_and_resume", "--times", 1, "--queries", 400, "--gan-steps", 20, "--out", tmp_path / "page.md")
    assert "| kills (SIGKILL) | 1 |" in (tmp_path / "page.md").read_text()


def test_lenet_pair(bench: Bench, tmp_path: Path) -> None:
    said = bench("lenet_pair", "digits", tmp_path / "lenets")
    assert "lenet_b: accuracy" in said
    assert {file.name for file in (tmp_path / "lenets").iterdir()} == {"lenet_a.pt", "lenet_a.onnx", "lenet_b.onnx"}


@pytest.fixture
def hands(shared_folder: Path) -> Path:
    """Photographs of hands."""
    folder = shared_folder / "data" / "sign-digits"
    if not (folder / "train.zip").is_file():
        pytest.skip(f"There is no {folder / 'train.zip'}.")
    return folder


@pytest.mark.slow  # 600 photographs through two networks of 224 pixels
def test_nets_of_224(bench: Bench, hands: Path, tmp_path: Path) -> None:
    assert bench("nets_of_224", hands, tmp_path, "--epochs", 0).count("% of 600 photographs") == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["mobilenet_v2.pt", "resnet18.pt"]


@pytest.mark.slow
def test_nets_of_hands(bench: Bench, hands: Path, tmp_path: Path) -> None:
    assert bench("nets_of_hands", hands, tmp_path, "--epochs", 0).count("% of 600 photographs") == 2
    assert (tmp_path / "hands96.onnx").is_file()


def test_pairs(bench: Bench, shared_of_digits: Path, tmp_path: Path) -> None:
    said = bench("pairs", shared_of_digits / "data", tmp_path, "--only", "optimizer")
    assert said.count("\n| optimizer | ") == 3
    assert "| optimizer | A | lenet5 | 44,426 |" in said


@pytest.mark.slow
def test_remote_faults(bench: Bench, tmp_path: Path) -> None:
    bench("remote_faults", "--queries", 256, "--quick", "--out", tmp_path / "page.md")
    assert "remote runs end with the same archive" in (tmp_path / "page.md").read_text()


@pytest.mark.slow
def test_techniques(bench: Bench, models: tuple[Path, Path], tmp_path: Path) -> None:
    some = ("diffgan", "diffchaser")
    words = ("--techniques", *some, "--training", "digits:train", "--queries", 200, "--seeds", 1, "--quick")
    said = bench("techniques", "run", "--pair", "structure", *models, "digits:test", *words, "--out", tmp_path)
    assert '"queries": 200' in said
    bench("techniques", "table", "--out", tmp_path)
    assert all(f"| {name} | 1 | 200 |" in (tmp_path / "techniques.md").read_text() for name in some)
    tables = bench("paper_tables", tmp_path)
    assert tables.count("| structure (M1, M2) | diffgan |") == 7


def test_paper_tables(bench: Bench, tmp_path: Path) -> None:
    """An empty folder has no table; test_techniques draws those of a run."""
    assert bench("paper_tables", tmp_path).strip() == ""


def test_throughput(bench: Bench) -> None:
    few = ("--archive", 100, "--rounds", 1, "--no-paper", "--json")
    said = bench("throughput", *few, "--population", 40)
    found = json.loads(said)
    assert found["with_filters"]["rounds"] == 1
    assert found["population"] == 40
    assert found["forward_share"] > 0 and found["search_per_s"] > 0


@pytest.mark.slow
def test_sizes(bench: Bench, tmp_path: Path) -> None:
    words = (tmp_path, "--images", 60, "--steps", 3, "--resize", 32, "--budget", "100q", "--quick")
    found = json.loads(bench("sizes", *words).splitlines()[-1])
    assert found["images"] == 60
    assert found["first"]["queries"] == found["second"]["queries"] == 100
    assert {"Reading images", "Searching for disagreements"} <= {each["stage"] for each in found["first"]["stages"]}


# -- the benchmark on pictures that people judged, with MNIST in place of the larger sets --


def test_human_labelled(bench: Bench, shared_folder: Path, shared_of_digits: Path, tmp_path: Path) -> None:
    judged = shared_folder / "data" / "human-labelled"
    if not (judged / "mnist.npz").is_file():
        pytest.skip(f"There is no {judged / 'mnist.npz'}.")
    places = {
        "human-labelled": judged,
        **dict.fromkeys(("mnist", "fashion-mnist"), shared_of_digits / "data" / "mnist"),
    }
    (tmp_path / "data").mkdir()
    for name, place in places.items():
        (tmp_path / "data" / name).symlink_to(place)
    said = bench("human_labelled", tmp_path, "--quick")
    assert "459 valid pictures, 19 invalid ones" in said
    assert said.count("\n| preset paper |") == 3  # all, by generator, wrecked


@pytest.mark.slow
def test_causes(bench: Bench, shared_folder: Path, tmp_path: Path) -> None:
    one = ("--only", "ResNet-20", "--kinds", "one", "--faults", "BGR for RGB", "--nets", tmp_path)
    bench("causes", shared_folder, *one, "--out", tmp_path / "page.md")
    assert "| one fault | ResNet-20 | BGR for RGB | yes |" in (tmp_path / "page.md").read_text()
