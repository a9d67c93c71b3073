"""Which key each class has when somebody labels by keyboard."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from diffgen.labels.sheet import keys_of


@pytest.mark.parametrize(
    ("names", "keys", "invalid"),
    [
        (list(string.digits), list(string.digits), "x"),
        (list(string.ascii_lowercase), list(string.ascii_lowercase), "-"),
        (list(string.ascii_uppercase), list(string.ascii_lowercase), "-"),
        (["cat", "dog", "bird"], ["0", "1", "2"], "x"),
        (["1", "one", "k", "thing"], ["1", "0", "k", "2"], "x"),
        (["a", "A", "b"], ["", "", "b"], "x"),
        (["x", "X", "-"], ["", "", "-"], "."),
    ],
)
def test_a_letter_is_its_own_key(names: list[str], keys: list[str], invalid: str) -> None:
    assert keys_of(names) == (tuple(keys), invalid)


@given(st.lists(st.one_of(st.characters().map(str), st.text(max_size=3)), min_size=1, max_size=80))
def test_no_key_stands_for_two_things_or_for_another_letter(names: list[str]) -> None:
    keys, invalid = keys_of(names)
    given_keys = [key for key in keys if key]
    assert len(set(given_keys)) == len(given_keys)
    letters = {name.strip().lower() for name in names}
    for name, key in zip(names, keys, strict=True):
        assert key in ("", name.strip().lower()) or key not in letters
    assert invalid not in letters
