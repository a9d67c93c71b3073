"""diffgen.config"""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import example, given
from hypothesis import strategies as st

from diffgen.comparison.requirements import check_settings, settings_of_parts, with_own_settings
from diffgen.config import (
    Budget,
    CheckConfig,
    CompareConfig,
    FilterConfig,
    GanConfig,
    GeneratorConfig,
    LabelConfig,
    Limits,
    ModelSpec,
    Opening,
    Preprocessing,
    QuantizeConfig,
    RemoteConfig,
    SearchConfig,
    SelectorConfig,
    SourceConfig,
    TrainGanConfig,
    TrainingSetConfig,
    TuningConfig,
    applied,
    from_dict,
    replace,
    roles,
    to_dict,
)
from diffgen.config.plain import settings_among, with_table
from diffgen.config.schema import Maybe, describe, fields_of, setting, settings, table_class
from diffgen.errors import UserError
from diffgen.sources.seeds import SeedsSettings
from diffgen.techniques.dflare import DFlareSettings
from diffgen.techniques.drfuzz import DrFuzzSettings
from tests.config.strategies import budgets

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTS = st.integers(min_value=-(2**63), max_value=2**63 - 1)


# -- to and from plain values ----------------------------------------------------------------------------------------

CHOICES = {name: describe(Preprocessing, name).choices for name in ("channels", "scale", "layout", "outputs")}
SHARES = st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True)
COUNTS = st.integers(4, 4096)
SEEDS = st.integers(0, 2**32 - 1)
numbers = st.none() | st.lists(FLOATS, max_size=3).map(tuple)
sides = st.integers(1, 4096)
preprocessings = st.builds(
    Preprocessing,
    invert=st.none() | st.booleans(),
    size=st.none() | st.just(()) | st.tuples(sides, sides),
    mean=numbers,
    std=numbers,
    output=st.none() | st.text(),
    **{name: st.none() | st.sampled_from(values) for name, values in CHOICES.items()},
)
models = st.builds(
    ModelSpec,
    path=st.none() | st.text(),
    preprocessing=preprocessings,
    opening=st.builds(Opening, arch=st.none() | st.text(), allow_pickle=st.booleans()),
    label_map=st.none() | st.text(),
    class_names=st.lists(st.text(), max_size=3).map(tuple),
    class_order=st.lists(INTS, max_size=3).map(tuple),
)
gans = st.builds(
    GanConfig,
    latent_dim=COUNTS,
    steps=st.none() | COUNTS,
    augment=st.booleans(),
    ema_decay=SHARES,
    seed=SEEDS,
)
searches = st.builds(
    SearchConfig,
    population=COUNTS,
    prior=st.sampled_from(["generator", "box"]),
    bound=SHARES,
    mutation_gene_probability=st.none() | SHARES,
    reducer=st.sampled_from(["pca", "umap"]),
    cluster_sample=st.none() | COUNTS,
    techniques=st.dictionaries(
        st.sampled_from(["drfuzz", "dflare", "own"]),
        st.dictionaries(st.sampled_from(["a", "b"]), INTS | st.text(), min_size=1),
    ),
)
filters = st.builds(
    FilterConfig,
    names=st.lists(st.sampled_from(["ssim", "jury", "own"]), unique=True).map(tuple),
    filters=st.dictionaries(
        st.sampled_from(["ssim", "jury"]), st.dictionaries(st.just("threshold"), FLOATS, min_size=1)
    ),
)
compares = st.builds(
    CompareConfig,
    technique=st.text(),
    budget=budgets,
    seed=SEEDS,
    batch_size=st.none() | INTS,
    gan=gans,
    search=searches,
    filters=filters,
    models=st.just(()) | st.lists(models, min_size=2, max_size=4).map(tuple),
)


def through_toml(config: Any) -> Any:
    """As a run folder keeps it: a TOML text, encoded, decoded and read again."""
    text = tomli_w.dumps(to_dict(config)).encode("utf-8").decode("utf-8")
    return from_dict(type(config), tomllib.loads(text))


@given(compares)
@example(CompareConfig())
@example(CompareConfig(search=SearchConfig(mutation_gene_probability=None, cluster_sample=None)))
@example(CompareConfig(gan=GanConfig(steps=7), filters=FilterConfig(filters={"discriminator": {"threshold": 0.0}})))
def test_settings_come_back_through_toml(config: CompareConfig) -> None:
    again = through_toml(config)
    assert again == config
    assert repr(again) == repr(config)  # 1 == 1.0 == True, but they are not the same setting


@pytest.mark.parametrize("kind", [CompareConfig, GanConfig, SearchConfig, FilterConfig, ModelSpec, Preprocessing])
def test_defaults_come_back(kind: type[Any]) -> None:
    assert through_toml(kind()) == kind()


def test_pre_processing_comes_back_as_tuples() -> None:
    second = ModelSpec(preprocessing=Preprocessing(mean=(0.4914, 0.4822, 0.4465), std=(0.2, 0.2, 0.2)))
    again = through_toml(CompareConfig(models=(ModelSpec(), second)))
    assert again.models[1].preprocessing.mean == (0.4914, 0.4822, 0.4465)
    assert isinstance(again.models[1].preprocessing.mean, tuple)
    assert again.models[0].preprocessing == Preprocessing()
    hash(again)


def test_every_setting_that_is_not_none_is_written() -> None:
    """A default that changes later must not change what an old run folder says."""

    def names(config: Any) -> set[str]:
        found = set()
        for each in fields(config):
            value = getattr(config, each.name)
            if is_dataclass(value) and not isinstance(value, Budget):
                found |= {f"{each.name}.{inner}" for inner in names(value)}
            elif value is not None:
                found.add(each.name)
        return found

    def keys(values: dict[str, Any]) -> set[str]:
        found = set()
        for name, value in values.items():
            found |= {f"{name}.{inner}" for inner in keys(value)} if isinstance(value, dict) else {name}
        return found

    # the tables of techniques and sources are written once it is known which is in use
    assert keys(to_dict(CompareConfig())) == names(CompareConfig()) - {
        "search.techniques",
        "source.families",
        "filters.filters",
    }


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"no_such": 1}, "no_such"),
        ({"gan": {"latent_dimm": 1}}, "latent_dimm"),
        ({"search": {"populaton": 1}}, "populaton"),
        ({"filters": {"": 1}}, "'filters.'"),
    ],
)
def test_unknown_settings_are_refused_and_the_known_ones_named(values: dict[str, Any], word: str) -> None:
    with pytest.raises(UserError, match=r"did you mean|known are") as caught:
        from_dict(CompareConfig, values)
    assert word in str(caught.value)


@pytest.mark.parametrize("value", [5, "fast", [1, 2], True])
def test_a_value_in_place_of_a_table_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match=r"gan is .* its own"):
        from_dict(CompareConfig, {"gan": value})


@pytest.mark.parametrize("value", [5, "fast", [1, 2], {"seconds": 5}])
def test_a_budget_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(UserError, match="budget"):
        from_dict(CompareConfig, {"budget": value})


def test_defaults_are_not_shared() -> None:
    assert CompareConfig().budget is not CompareConfig().budget
    assert CompareConfig() == CompareConfig()


# -- what cannot be --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: SearchConfig(divergence="typo"),
            "search.divergence (--divergence) is 'typo'; give one of 'euclidean+1'",
        ),
        (lambda: SearchConfig(divergence="top2-margn"), "did you mean 'top2-margin'?"),
        (lambda: GanConfig(schedule="fast"), "gan.schedule (--gan-schedule) is 'fast'; give one of 'quick', 'default'"),
        (lambda: CompareConfig(until="saturatd"), "until (--until) is 'saturatd'; did you mean 'saturated'?"),
        (lambda: CompareConfig(budget=60), 'budget (--budget) is 60; give text such as "60s"'),
        (lambda: CompareConfig(models=(ModelSpec(), 5)), "models is 5, but it has settings of its own"),
        (lambda: CompareConfig(gan=5), "gan is 5, but it has settings of its own"),
        (lambda: SearchConfig(populaton=3), "search.populaton is not known; did you mean search.population?"),
        (lambda: SearchConfig(population="many"), "search.population is 'many'; give a whole number."),
        (lambda: GanConfig(augment=1), "gan.augment is 1; give true or false."),
        (lambda: Preprocessing(mean=("x",)), "preprocessing.mean (--mean) is 'x'; give a number."),
        (lambda: Limits(max_accuracy_drop="1"), "is 1, which may stand for 1% or for everything; write 1% or 100%"),
        (lambda: Limits(max_accuracy_drop=" 1.0"), "is 1, which may stand for 1% or for everything; write 1% or 100%"),
        (lambda: Limits(max_accuracy_drop=1), "is 1, which may stand for 1% or for everything; write 1% or 100%"),
        (lambda: Limits(max_shift="5"), "limits.max_shift (--max-shift) is '5', not a fraction between 0 and 1"),
        (lambda: replace(CompareConfig(), seed=-1), "seed (--seed) is -1; give a number from 0 to 4294967295"),
    ],
)
def test_from_python_too_a_value_is_refused_when_the_object_is_made(make: Any, sentence: str) -> None:
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value).startswith("The setting ")
    assert sentence in str(caught.value)


KINDS = (
    *(
        CompareConfig,
        GanConfig,
        GeneratorConfig,
        SearchConfig,
        FilterConfig,
        *settings_of_parts(),
        RemoteConfig,
    ),
    *(
        Opening,
        ModelSpec,
        CheckConfig,
        Limits,
        TrainGanConfig,
        TuningConfig,
        SelectorConfig,
        LabelConfig,
        TrainingSetConfig,
        QuantizeConfig,
    ),
)
VALUES = [(kind, name) for kind in KINDS for name in fields_of(kind) if table_class(kind, name) is None]


@pytest.mark.parametrize(("kind", "name"), VALUES, ids=lambda each: getattr(each, "__name__", each))
def test_every_setting_has_a_sentence_and_keeps_its_range(kind: type[Any], name: str) -> None:
    about = describe(kind, name)
    assert about.about.endswith(".")
    assert not about.choices or about.default in (None, *about.choices)
    if about.bounds is None:
        return
    low, high = about.bounds.low, about.bounds.high
    wrong = [] if low is None else [low if about.bounds.open_low else low - 1]
    wrong += [] if high is None else [high if about.bounds.open_high else high + 1]
    for value in wrong:
        with pytest.raises(UserError, match=f"The setting {re.escape(about.key)} .*; give "):
            kind(**{name: value if about.kind is int else float(value)})


def test_none_and_auto_are_texts_for_none() -> None:
    assert SearchConfig(cluster_sample="none").cluster_sample is None
    assert CompareConfig(batch_size="auto").batch_size is None
    assert Limits(max_shift="100%") == Limits(max_shift=1.0)
    assert Limits(max_shift="none", max_disagreement="0.5%") == Limits(max_disagreement=0.005)


def test_paths_and_lists_are_taken() -> None:
    assert CompareConfig(gan_file=Path("gan.safetensors")).gan_file == "gan.safetensors"
    assert FilterConfig(names=["ssim"]).names == ("ssim",)


def test_a_comparison_has_no_single_model() -> None:
    with pytest.raises(UserError, match="needs two models"):
        CompareConfig(models=(ModelSpec(),))
    assert roles(3) == "ABC" == roles((1, 2, 3))


# -- settings whose class is declared beside what they are settings of ------------------------------------------------


def test_a_techniques_settings_are_a_table_among_those_of_the_search() -> None:
    search = SearchConfig().with_technique(DrFuzzSettings(mutants=5))
    assert to_dict(search)["drfuzz"] == {"fidelity": "discriminator", "mutants": 5}
    assert through_toml(search) == search and hash(through_toml(search)) == hash(search)
    assert settings_among(DrFuzzSettings, search.techniques) == DrFuzzSettings(mutants=5)
    assert settings_among(DFlareSettings, search.techniques) == DFlareSettings()
    # one table over another, key by key
    below = from_dict(CompareConfig, {"search": {"drfuzz": {"mutants": 5, "fidelity": "none"}}})
    assert applied(below, {"search": {"drfuzz": {"mutants": 7}}}).search.techniques == {
        "drfuzz": {"mutants": 7, "fidelity": "none"}
    }


@pytest.mark.parametrize(
    ("tables", "sentence"),
    [
        ({"drfuz": {"mutants": 5}}, "search.drfuz is not known; did you mean search.drfuzz?"),
        ({"drfuzz": {"mutant": 5}}, "search.drfuzz.mutant is not known; did you mean search.drfuzz.mutants?"),
        ({"drfuzz": {"mutants": 0}}, "search.drfuzz.mutants is 0; give a number from 1 to 1000000"),
        ({"dflare": {"mutations": "many"}}, "search.dflare.mutations is 'many'; give a whole number"),
        ({"drfuzz": {"fidelity": "non"}}, "search.drfuzz.fidelity is 'non'; did you mean 'none'?"),
        ({"techniques": {"drfuzz": {"mutants": 5}}}, "search.techniques is not known"),
    ],
)
@pytest.mark.parametrize("technique", ["drfuzz", "dflare", "diffgan"])
def test_tables_of_techniques_are_checked_whichever_is_in_use(
    technique: str, tables: dict[str, Any], sentence: str
) -> None:
    config = from_dict(CompareConfig, {"technique": technique, "search": tables})
    with pytest.raises(UserError) as caught:
        check_settings(config)
    assert sentence in str(caught.value)


def test_a_table_of_a_source_is_checked_and_written_out() -> None:
    config = CompareConfig(source=SourceConfig(family="seeds").with_family(SeedsSettings(operators=("blur",))))
    assert through_toml(config) == config
    given = from_dict(CompareConfig, {"source": {"family": "seeds", "seeds": {"operators": ["blur"]}}})
    check_settings(given)
    assert with_own_settings(given).source.families == config.source.families
    assert with_own_settings(replace(given, source=SourceConfig())).source.families == {}
    for tables, sentence in (
        ({"seeds": {"steps": 9}}, "source.seeds.steps is 9; give a number from 1 to 8"),
        ({"seeds": {"step": 1}}, "source.seeds.step is not known; did you mean source.seeds.steps?"),
        ({"seeds": {"operators": ["blurr"]}}, "The operator 'blurr' is not known; did you mean 'blur'?"),
        ({"sedes": {"steps": 1}}, "source.sedes is not known; did you mean source.seeds?"),
    ):
        with pytest.raises(UserError, match=re.escape(sentence)):
            check_settings(from_dict(CompareConfig, {"source": tables}))


def test_what_nobody_named_is_written_out_for_the_technique_in_use() -> None:
    given = SearchConfig(techniques={"drfuzz": {"mutants": 5}})
    for technique, written in (
        ("drfuzz", {"drfuzz": {"mutants": 5, "fidelity": "discriminator"}}),
        ("dflare", {"drfuzz": {"mutants": 5}, "dflare": {"mutations": 100}}),
        ("diffgan", {"drfuzz": {"mutants": 5}}),
    ):
        assert with_own_settings(CompareConfig(technique=technique, search=given)).search.techniques == written


def test_none_comes_back_in_a_table_too() -> None:
    @settings("search.mine")
    class Mine:
        limit: Maybe[int] = setting(7, "A limit.")

    tables = with_table({}, Mine(limit=None))
    assert settings_among(Mine, tomllib.loads(tomli_w.dumps(tables))) == Mine(limit=None)
