"""Parts: one contract for all, diffgen's own or not; the tutorial as it stands; packages of others."""

from __future__ import annotations

import functools
import math
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pytest
import torch

import diffgen
from diffgen import parts
from diffgen.comparison.named_settings import settled
from diffgen.comparison.requirements import check_settings, families_in_use
from diffgen.config import Budget, CheckConfig, CompareConfig, FilterConfig, SearchConfig, SourceConfig
from diffgen.config.schema import Maybe, setting, settings
from diffgen.data import load
from diffgen.data.split import DataSplit
from diffgen.errors import UserError
from diffgen.events import StopToken, TriggersFound
from diffgen.filters import FILTERS, FilterContext, filters_named
from diffgen.runs.folder import RunFolder
from diffgen.sources.base import Family, FamilyContext, ImageSource
from diffgen.sources.registry import SOURCES
from diffgen.techniques import TECHNIQUES, technique_class
from diffgen.techniques.dflare import DFlareSettings
from diffgen.techniques.drfuzz import DrFuzzSettings
from diffgen.techniques.random_latent import RandomLatent
from diffgen.workflows.demo import dense_classifier, save_onnx, train_classifier
from tests.techniques.encoding_sources import PixelSource

CODE = re.compile(r"<!-- (\w+) -->\n```\{code-cell\} python\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def page(repository: Path) -> dict[str, str]:
    """The pieces of code of the tutorial by name."""
    return dict(CODE.findall((repository / "docs" / "tutorials" / "technique.md").read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two small models of digits."""
    place = tmp_path_factory.mktemp("tutorial")
    training = load("digits:train")
    for name, passes in (("a", 6), ("b", 3)):
        save_onnx(train_classifier(dense_classifier(10), training, seed=passes, passes=passes), place / f"{name}.onnx")
    return place


@pytest.fixture(scope="module")
def made(page: dict[str, str]) -> Iterator[dict[str, Any]]:
    """What the tutorial defines, as a module ``my_package``."""
    import types

    module = types.ModuleType("my_package")
    sys.modules["my_package"] = module
    for name in ("technique", "filter", "generator"):
        exec(compile(page[name], f"tutorial-{name}", "exec", dont_inherit=True), module.__dict__)
    yield module.__dict__
    del sys.modules["my_package"]


@pytest.fixture(scope="module")
def used(page: dict[str, str], made: dict[str, Any], folder: Path) -> dict[str, Any]:
    """After the part of the tutorial that uses them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        names = dict(made)
        exec(compile(page["use"], "tutorial-use", "exec", dont_inherit=True), names)
    return names


def test_each_is_at_most_40_lines(page: dict[str, str]) -> None:
    assert page.keys() == {"technique", "filter", "generator", "use"}
    for name in ("technique", "filter", "generator"):
        code = page[name][page[name].index("class ") :]
        assert len([line for line in code.splitlines() if line.strip()]) <= 40, name


def test_the_tutorial_finds_triggers(used: dict[str, Any], folder: Path) -> None:
    noise, strokes = used["noise"], used["strokes"]
    assert noise.triggers > 0 and noise.valid_triggers > 0 and noise.queries == 2000
    assert strokes.triggers > 0 and strokes.queries == 2000
    kept = RunFolder.open(folder / "noise")
    assert kept.manifest["technique"] == "my_package:RandomNoise"
    assert kept.manifest["extensions"] == {"technique": "my_package:RandomNoise", "filters": ["my_package:Smoothness"]}
    assert kept.config()["search"]["own"] == {"strengths": [10, 40]}
    assert kept.config()["filters"]["names"] == ["ssim", "my_package:Smoothness"]
    assert {each["name"] for each in kept.results()["filters"]} == {"ssim", "smoothness"}
    drawn = RunFolder.open(folder / "strokes")
    assert drawn.manifest["extensions"]["generator"] == "my_package:Strokes"
    assert "my_package:Strokes" in (folder / "strokes" / "report.html").read_text(encoding="utf-8")
    # what needs none of the objects works without them
    assert diffgen.replay(folder / "noise").replayed > 0


def test_a_run_with_objects_is_gone_on_with_when_they_are_given_again(
    made: dict[str, Any], used: dict[str, Any], folder: Path
) -> None:
    stop = StopToken()

    def listen(event: object) -> None:
        if isinstance(event, TriggersFound) and event.queries > 500:
            stop.stop()

    broken = diffgen.compare(
        str(folder / "a.onnx"),
        str(folder / "b.onnx"),
        data="digits:test",
        budget="2000q",
        technique=made["RandomNoise"],
        technique_settings=made["NoiseSettings"](strengths=(10, 40)),
        filters=["ssim", made["Smoothness"]()],
        output=folder / "broken",
        events=listen,
        stop=stop,
    )
    assert broken.interrupted
    assert broken.go_on == f'diffgen.resume("{broken.run}", technique=RandomNoise, filters=[Smoothness])'
    with pytest.raises(UserError, match="with the object my_package:RandomNoise, and none was given"):
        diffgen.resume(broken.run)
    with pytest.raises(UserError, match="my_package:Smoothness, and none was given; give it again"):
        diffgen.resume(broken.run, technique=made["RandomNoise"])
    with pytest.raises(UserError, match=r"and my_package:Strokes was given; leave generator= out"):
        diffgen.resume(broken.run, technique=made["RandomNoise"], generator=made["Strokes"])
    again = diffgen.resume(broken.run, technique=made["RandomNoise"], filters=[made["Smoothness"]()])
    assert replace(again, run="", seconds=0) == replace(used["noise"], run="", seconds=0)


def test_a_run_with_objects_is_shrunk_when_they_are_given_again(
    made: dict[str, Any], used: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    assert used["strokes"].valid_triggers >= 2
    run = shutil.copytree(folder / "strokes", tmp_path / "strokes")
    with pytest.raises(UserError, match=r"none was given; give it again with \S+ to diffgen\.shrink"):
        diffgen.shrink(run)
    assert diffgen.shrink(run, generator=made["Strokes"], filters=[made["Smoothness"]()], limit=2).tried == 2


def test_a_check_takes_objects_and_goes_on_with_them(made: dict[str, Any], folder: Path) -> None:
    stop = StopToken()

    def listen(event: object) -> None:
        if isinstance(event, TriggersFound):
            stop.stop()

    class Draws(RandomLatent):
        """A technique of one's own that draws random pictures."""

    given: dict[str, Any] = {"technique": Draws, "generator": made["Strokes"], "filters": [made["Smoothness"]()]}
    models, place = [folder / "a.onnx", folder / "b.onnx"], folder / "checked"
    config = CheckConfig(random_images=64, variations=0)
    broken = diffgen.check(
        *models, data="digits:test", budget="300q", config=config, output=place, events=listen, stop=stop, **given
    )
    assert broken.status.value == "ERROR"
    objects = "technique=Draws, generator=Strokes, filters=[Smoothness]"
    assert broken.go_on == f'diffgen.resume_check("{place}", {objects})'
    kept = RunFolder.open(place)
    assert kept.manifest["extensions"].keys() == {"technique", "generator", "filters"}
    assert [each["name"] for each in kept.results()["filters"]] == ["smoothness"]
    with pytest.raises(UserError, match=r"give it again with technique= to diffgen\.resume_check"):
        diffgen.resume_check(place)
    again = diffgen.resume_check(place, **given)
    assert again.status.value != "ERROR"
    assert RunFolder.open(place).results()["queries"] == 300


def test_objects_are_known_in_their_own_run_alone(made: dict[str, Any]) -> None:
    name = parts.name_of(made["RandomNoise"])
    with pytest.raises(UserError, match="is an object of a Python program"):
        technique_class(name)
    own = parts.Extensions.among(functools.partial(made["RandomNoise"]), None, None)
    with own.in_use():
        assert technique_class(name) is made["RandomNoise"]
    with pytest.raises(UserError, match="is an object of a Python program"):
        technique_class(name)


@pytest.mark.parametrize("technique", [object, print, functools.partial(dict)])
def test_what_is_no_technique(technique: Any) -> None:
    own = parts.Extensions.among(technique, None, None)
    with own.in_use(), pytest.raises(UserError, match="derive it from that class"):
        technique_class(parts.name_of(technique))


def test_what_is_no_filter() -> None:
    thing = object()
    with (
        parts.Extensions.among(None, None, [thing]).in_use(),
        pytest.raises(UserError, match="neither a class derived from"),
    ):
        filters_named(["builtins:object"])
    with pytest.raises(UserError, match="is an object of a Python program"):
        filters_named(["builtins:object"])


def test_objects_of_one_class_are_told_apart_by_their_names(made: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    def smoothness(name: str) -> Any:
        filter_ = made["Smoothness"]()
        filter_.name = name
        return filter_

    given = [smoothness("rough"), smoothness("smooth")]
    names = ["my_package:Smoothness:rough", "my_package:Smoothness:smooth"]
    models = (str(folder / "a.onnx"), str(folder / "b.onnx"))
    settings = {"data": "digits:test", "technique": "real_data", "budget": "200q", "data_labels": "ignore"}
    diffgen.compare(*models, filters=given, output=tmp_path / "run", **settings)
    run = RunFolder.open(tmp_path / "run")
    assert run.config()["filters"]["names"] == run.manifest["extensions"]["filters"] == names
    assert [each["name"] for each in run.results()["filters"]] == ["rough", "smooth"]
    with pytest.raises(UserError, match="give objects of one class a name each"):
        diffgen.compare(*models, filters=[smoothness("rough"), smoothness("rough")], output=tmp_path / "no", **settings)


@pytest.mark.parametrize("name", ["jury", "ssim", "smoothness"])
def test_a_filter_that_is_called_as_another_one(made: dict[str, Any], name: str) -> None:
    """Scores are kept by these names: one called jury was given those of the jury."""
    another = type("Another", (made["Smoothness"],), {"name": name})
    given = [made["Smoothness"], another]
    whose = "another one" if name == "smoothness" else "one of diffgen's own"
    with (
        parts.Extensions.among(None, None, given).in_use(),
        pytest.raises(UserError, match=f"is called '{name}', and so is {whose}"),
    ):
        filters_named([parts.name_of(each) for each in given])


def test_settings_that_are_not_the_techniques_own(made: dict[str, Any]) -> None:
    config = CompareConfig(search=SearchConfig(techniques={"own": {"strength": 3}}))
    with pytest.raises(UserError, match=r"cannot be .*'strength'"):
        made["RandomNoise"].settings_in(config.search)
    with pytest.raises(UserError, match="has no settings of its own"):
        check_settings(config)
    with pytest.raises(UserError, match=r"has its settings in \[search.dflare\]; leave \[search.own\] out"):
        check_settings(replace(config, technique="dflare"))


@pytest.mark.parametrize(
    ("technique", "settings", "sentence"),
    [
        ("dflare", DrFuzzSettings(mutants=5), "takes an object of diffgen.techniques.dflare:DFlareSettings."),
        ("diffgan", DrFuzzSettings(mutants=5), "has no settings of its own; leave it out."),
        ("dflare", {"mutations": 5}, "technique_settings= is of builtins:dict, but the technique dflare takes"),
    ],
)
def test_settings_of_another_technique_are_refused(
    technique: str, settings: Any, sentence: str, folder: Path, tmp_path: Path
) -> None:
    models = folder / "a.onnx", folder / "b.onnx"
    with pytest.raises(UserError) as caught:
        diffgen.compare(
            *models, data="digits", technique=technique, technique_settings=settings, output=tmp_path / "run"
        )
    assert sentence in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_settings_of_our_own_technique_from_python(folder: Path, tmp_path: Path) -> None:
    found = diffgen.compare(
        folder / "a.onnx",
        folder / "b.onnx",
        data="digits:test",
        budget="300q",
        technique="dflare",
        technique_settings=DFlareSettings(mutations=7),
        filters=["ssim"],
        output=tmp_path / "run",
    )
    assert RunFolder.open(found.run).config()["search"]["dflare"] == {"mutations": 7}


class OwnSearch(RandomLatent):
    """Draws from a source and says no more than a class of one's own has to."""

    presets = diffgen.Technique.presets


class OwnRecipes(RandomLatent):
    """The same, with presets of its own."""

    presets: ClassVar = {
        "default": diffgen.Preset(source="seeds"),
        "rough": diffgen.Preset(SearchConfig(population=7), source="gan", gan={"latent_dim": 9}),
    }


@pytest.mark.parametrize(
    ("kind", "recipe", "source"),
    [
        (OwnSearch, None, "seeds"),
        (OwnRecipes, None, "seeds"),
        (OwnRecipes, "rough", "gan"),
        ("random_latent", None, "gan"),
        ("diffgan", "paper", "gan"),
    ],
)
def test_a_gan_is_trained_for_a_technique_that_says_so_alone(kind: Any, recipe: str | None, source: str) -> None:
    named = {} if recipe is None else {"preset": recipe}
    with settled(CompareConfig(), named, technique=kind) as config:
        assert config.source.family == source
        assert [each.name for each in families_in_use(config)] == [source]
        if recipe == "rough":
            assert (config.search.population, config.gan.latent_dim) == (7, 9)


def test_a_preset_that_ones_own_technique_does_not_have() -> None:
    with (
        pytest.raises(UserError, match=r"no preset of .*OwnRecipes called 'ruff'; give one of 'default', 'rough'"),
        settled(CompareConfig(), {"preset": "ruff"}, technique=OwnRecipes),
    ):
        pass


def test_a_search_of_ones_own_draws_from_real_images(folder: Path, tmp_path: Path) -> None:
    settings = {"data": "digits:test", "budget": "100q", "filters": "none", "output": tmp_path / "run"}
    found = diffgen.compare(folder / "a.onnx", folder / "b.onnx", technique=OwnSearch, **settings)
    run = RunFolder.open(found.run)
    assert (run.config()["source"]["family"], run.manifest["gan"]) == ("seeds", None)
    assert run.read_triggers().seeds is not None


def test_an_exception_of_ones_own_technique_comes_out_as_it_is_and_what_was_found_is_kept(
    made: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    class Faulty(made["RandomNoise"]):  # type: ignore[misc]
        mended = False

        def propose(self, room: int) -> diffgen.Proposal:
            if self._batches == 3 and not self.mended:
                raise ZeroDivisionError("my fault")
            return super().propose(room)

    models = str(folder / "a.onnx"), str(folder / "b.onnx")
    settings = {"data": "digits:test", "budget": "320q", "filters": "none", "data_labels": "ignore"}
    with pytest.raises(ZeroDivisionError, match="my fault") as caught:
        diffgen.compare(*models, technique=Faulty, output=tmp_path / "run", **settings)
    again = f'diffgen.resume("{tmp_path / "run"}", technique=Faulty)'
    assert f"what was found is kept; go on with '{again}'" in caught.value.__notes__
    found = len(RunFolder.open(tmp_path / "run").read_triggers())
    assert found > 0
    Faulty.mended = True
    resumed = diffgen.resume(tmp_path / "run", technique=Faulty)
    assert resumed.queries == 320
    assert resumed.triggers >= found


def test_a_first_proposal_that_cannot_be_is_refused_before_there_is_a_run(
    made: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    class Misspelt(made["RandomNoise"]):  # type: ignore[misc]
        def propose(self, room: int) -> diffgen.Proposal:
            proposal = super().propose(room)
            recipes = ("noise(strength=5,angle=3)",) * len(proposal)
            return replace(proposal, origins=diffgen.Origins(proposal.origins.seeds, recipes))

    settings = {"data": "digits:test", "budget": "100q", "filters": "none", "data_labels": "ignore"}
    with pytest.raises(UserError, match="needs one space behind each comma") as caught:
        diffgen.compare(folder / "a.onnx", folder / "b.onnx", technique=Misspelt, output=tmp_path / "run", **settings)
    assert not hasattr(caught.value, "__notes__")  # there is nothing to go on with
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_objects_of_a_script_serve_workers(page: dict[str, str], folder: Path, tmp_path: Path) -> None:
    """A worker imports the script, which has another name there."""
    script = tmp_path / "script.py"
    use = """\
    if __name__ == "__main__":
        import sys

        from diffgen.config import CompareConfig, FilterConfig

        quick = CompareConfig(filters=FilterConfig(filters={"jury": {"shown": 640}}))
        given = {"technique": RandomNoise, "filters": ["ssim", Smoothness()], "config": quick}
        run = {"data": "digits:test", "budget": "300q", "workers": 2, "output": sys.argv[3]}
        print(diffgen.compare(*sys.argv[1:3], **given, **run).queries)
    """
    script.write_text("\n".join((page["technique"], page["filter"], textwrap.dedent(use))))
    command = [sys.executable, str(script), str(folder / "a.onnx"), str(folder / "b.onnx"), str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.split() == ["300"], done.stderr
    assert RunFolder.open(tmp_path / "run").manifest["technique"] == "__main__:RandomNoise"


def test_a_generator_that_finds_genes_serves_searches_from_real_images(folder: Path) -> None:
    found = diffgen.compare(
        str(folder / "a.onnx"),
        str(folder / "b.onnx"),
        data="digits:test",
        budget="300q",
        technique="latte",
        generator=PixelSource(),
        filters=["ssim"],
        output=folder / "pixels",
    )
    assert found.queries == 300
    assert RunFolder.open(found.run).read_arrays("outcomes")["asked"].sum() == 300


def test_diffgens_own_techniques_are_found_without_a_look_at_all_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search asks dozens of times which technique it has; each look reads a file of every installed package."""
    looks: list[str] = []
    monkeypatch.setattr("diffgen.parts.metadata.entry_points", lambda group: looks.append(group) or ())
    assert issubclass(technique_class("diffgan"), diffgen.Technique)
    assert not looks
    with pytest.raises(UserError, match="dflare"):
        technique_class("dflarr")
    assert looks == ["diffgen.techniques"]


@pytest.fixture
def package(page: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of somebody else's, installed: its module and what pip would write beside it."""
    site = tmp_path / "site"
    about = site / "others_work-1.0.dist-info"
    about.mkdir(parents=True)
    (site / "others_work.py").write_text("\n".join(page[name] for name in ("technique", "filter", "generator")))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: others-work\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        textwrap.dedent("""\
        [diffgen.techniques]
        noise = others_work:RandomNoise
        broken = others_work:Nothing
        [diffgen.filters]
        smoothness = others_work:Smoothness
        [diffgen.sources]
        strokes = others_work:Strokes
        """)
    )
    monkeypatch.syspath_prepend(str(site))
    return site


def test_a_package_of_others_is_known_by_name(package: Path, folder: Path, tmp_path: Path) -> None:
    assert {"noise", "diffgan"} <= set(TECHNIQUES.names())
    assert TECHNIQUES.lines()["noise"] == "Of the package others-work."
    with pytest.raises(UserError, match="The technique broken of others-work cannot be loaded"):
        technique_class("broken")
    with pytest.raises(UserError, match=r"no filter called 'smothness'; did you mean 'smoothness'?"):
        filters_named(("smothness",))
    models = str(folder / "a.onnx"), str(folder / "b.onnx")
    few = Budget(queries=300)
    config = CompareConfig(
        budget=few,
        technique="noise",
        search=SearchConfig(techniques={"own": {"strengths": [50.0]}}),
        filters=FilterConfig(names=("ssim", "smoothness")),
    )
    noise = diffgen.compare(*models, data="digits:test", config=config, output=tmp_path / "noise")
    kept = RunFolder.open(noise.run)
    assert (kept.manifest["technique"], kept.manifest["extensions"]) == ("others_work:RandomNoise", {})
    drawn = CompareConfig(budget=few, source=SourceConfig(family="strokes"), filters=FilterConfig(names=()))
    stop = StopToken()

    def listen(event: object) -> None:
        if isinstance(event, TriggersFound):
            stop.stop()

    strokes = diffgen.compare(
        *models, data="digits:test", config=drawn, output=tmp_path / "strokes", events=listen, stop=stop
    )
    assert RunFolder.open(strokes.run).config()["source"]["family"] == "strokes"
    assert diffgen.resume(strokes.run).queries == 300


@settings("filters.darkness")
class DarknessSettings:
    """Settings of a filter of somebody else's."""

    threshold: Maybe[float] = setting(None, "Lowest darkness that passes.")
    scale: float = setting(1.0, "What the darkness is multiplied by.", gt=0)


class Darkness(diffgen.Filter):
    """A filter with settings that asks the discriminator: all that diffgen's own can say."""

    name = "darkness"
    description = "how dark a picture is, for a picture that the discriminator can score"
    needs = frozenset({"discriminator"})
    Settings = DarknessSettings

    def __init__(self, scorer: Any = None, scale: float = 1.0, threshold: float = math.nan) -> None:
        self.scorer, self.scale, self.threshold = scorer, scale, threshold

    @classmethod
    def make(cls, context: FilterContext) -> Darkness:
        own = cls.settings_among(context.tables)
        return cls(context.scorer, own.scale, context.threshold(cls))

    def fit(self, real: torch.Tensor) -> None:
        """Nothing to learn."""

    def score(self, images: torch.Tensor, *, enough: float = math.inf) -> torch.Tensor:
        assert len(self.scorer.score(images)) == len(images)
        return -self.scale * images.float().mean(dim=(1, 2, 3)).cpu()


@settings("source.clouds")
class CloudSettings:
    """Settings of a family of somebody else's."""

    values: int = setting(4, "Genes.", ge=1)


class Clouds(Family):
    """A family with settings, an encoder and a discriminator: all that diffgen's own can say."""

    name = "clouds"
    Settings = CloudSettings

    def gives(self, config: CompareConfig) -> parts.Needs:
        return super().gives(config) | {"encoder", "discriminator"}

    def supports(self, image_shape: tuple[int, int, int]) -> None:
        """All will do."""

    def prepare(self, split: DataSplit, config: CompareConfig, context: FamilyContext) -> ImageSource:
        assert self.settings(config).values == 5
        scorer = type("Mean", (), {"score": lambda _, images: images.float().mean(dim=(1, 2, 3))})()
        return ImageSource(PixelSource(), scorer, facts={"kind": "clouds"})


class Wander(RandomLatent):
    """A technique that needs what the family above gives."""

    name = "wander"
    presets: ClassVar = {"default": diffgen.Preset(source="vae")}

    @classmethod
    def needs(cls, config: SearchConfig) -> parts.Needs:
        return frozenset({"source", "encoder", "discriminator"})


@pytest.fixture(params=["entry points", "classes", "objects"])
def others(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The three parts above, as each way gives them to a verb."""
    if request.param == "classes":
        return {"technique": Wander, "generator": Clouds, "filters": [Darkness]}
    if request.param == "objects":
        return {"technique": functools.partial(Wander), "generator": Clouds(), "filters": [Darkness]}
    about = tmp_path / "others-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[diffgen.techniques]\nwander = tests.test_parts:Wander\n[diffgen.sources]\nclouds = tests.test_parts:Clouds\n"
        "[diffgen.filters]\ndarkness = tests.test_parts:Darkness\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return {"technique": "wander", "source": "clouds", "filters": ["darkness"]}


def test_a_part_of_somebody_elses_does_what_diffgens_own_does(
    others: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    """Needs are met by what another part gives, no GAN is trained, and settings come from tables of its own."""
    config = CompareConfig(
        budget=Budget(queries=100),
        source=SourceConfig(families={"clouds": {"values": 5}}),
        filters=FilterConfig(filters={"darkness": {"scale": 2.0, "threshold": -400.0}}),
    )
    run = RunFolder.open(
        diffgen.compare(
            folder / "a.onnx", folder / "b.onnx", data="digits:test", config=config, output=tmp_path / "run", **others
        ).run
    )
    assert run.manifest["gan"] is None
    assert run.config()["source"]["clouds"] == {"values": 5}
    assert run.config()["filters"]["darkness"] == {"threshold": -400.0, "scale": 2.0}
    assert [(each["name"], each["threshold"]) for each in run.results()["filters"]] == [("darkness", -400.0)]
    for table, sentence in (("source", "clouds.value is not known"), ("filters", "darkness.scales is not known")):
        wrong = (
            {"families": {"clouds": {"value": 5}}} if table == "source" else {"filters": {"darkness": {"scales": 2.0}}}
        )
        bad = replace(config, **{table: replace(getattr(config, table), **wrong)})
        with pytest.raises(UserError, match=f"{table}.{sentence}"):
            diffgen.compare(folder / "a.onnx", folder / "b.onnx", data="digits:test", config=bad, **others)


OWN = [(registry, name) for registry in (TECHNIQUES, SOURCES, FILTERS) for name in registry.own()]
EVERY = [*OWN, (TECHNIQUES, Wander), (SOURCES, Clouds), (FILTERS, Darkness)]


def named(each: Any) -> str:
    """Alike in every process that collects tests."""
    return str(each.base.kind if isinstance(each, parts.Registry) else getattr(each, "__name__", each))


@pytest.mark.parametrize(("registry", "part"), EVERY, ids=named)
def test_the_contract_of_every_part(registry: parts.Registry[Any], part: Any) -> None:
    kind = registry.own()[part] if isinstance(part, str) else part
    assert issubclass(kind, parts.Part) and issubclass(kind, registry.base)
    assert kind.name and (not isinstance(part, str) or kind.name == part)
    assert kind.__doc__ and not parts.is_object(kind.name)
    words, config = set(get_args(parts.Need)), CompareConfig()
    if kind.Settings is not None:
        assert kind.Settings.__table__ == f"{registry.place.table}.{kind.name}"
        assert isinstance(kind.settings_among({}), kind.Settings)
        written = registry.written_out(config, [kind])
        assert kind.settings_among(registry.tables(written)) == kind.settings_among({})
    if registry is TECHNIQUES:
        assert kind.needs(config.search) <= words
        assert "default" in kind.presets
        with settled(config, {}, technique=kind.name if isinstance(part, str) else kind) as own:
            check_settings(own)  # its default source gives what it needs
        for each in kind.presets.values():
            assert ("source" not in kind.needs(each.search)) or each.source in SOURCES.own()
    elif registry is SOURCES:
        assert kind().gives(config) <= words and kind().needs(config) <= {"auto_encoder"}
    else:
        assert kind.needs <= {"discriminator", "jury", "auto_encoder", "answers"}
        assert math.isnan(kind.threshold) and kind.needs <= words
    assert kind.hints.keys() <= words


def test_names_of_objects() -> None:
    assert parts.name_of("ssim") == "ssim"
    assert parts.name_of(np.ones(3)) == "numpy:ndarray"
    assert parts.name_of(functools.partial(functools.partial(Path))) == parts.name_of(Path)
    assert parts.is_object(parts.name_of(Path))
