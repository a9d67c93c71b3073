"""Names, presets, and the baseline."""

from __future__ import annotations

import pytest

from diffgen.errors import UserError
from diffgen.techniques import PRESETS, preset, technique_names


def test_every_technique_has_a_default_preset() -> None:
    assert technique_names() == ("dflare", "diffgan", "drfuzz", "random_latent", "real_data")
    for name in technique_names():
        assert preset(name, "default") == PRESETS[name]["default"]


def test_paper_preset_has_the_published_constants() -> None:
    paper = preset("diffgan", "paper")
    assert (paper.population, paper.prior, paper.bound) == (100, "box", 1.0)
    assert (paper.crossover_probability, paper.crossover_eta) == (0.9, 15.0)
    assert (paper.mutation_probability, paper.mutation_gene_probability) == (0.1, None)
    assert (paper.reducer, paper.reducer_dim, paper.umap_neighbors, paper.umap_min_dist) == ("umap", 2, 5, 0.1)
    assert (paper.min_cluster_size, paper.cluster_sample, paper.cluster_growth) == (3, None, 0.0)


@pytest.mark.parametrize(
    ("technique", "name", "hint"),
    [
        ("difgan", "default", "did you mean 'diffgan'"),
        ("diffgan", "papr", "did you mean 'paper'"),
        ("zzz", "x", "known are dflare, diffgan, drfuzz, random_latent, real_data"),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(technique: str, name: str, hint: str) -> None:
    with pytest.raises(UserError, match=hint):
        preset(technique, name)
