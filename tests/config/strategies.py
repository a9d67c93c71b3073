"""Settings drawn at random, for tests of several of their parts."""

from __future__ import annotations

from hypothesis import strategies as st

from diffgen.config import Budget

SECONDS = st.floats(min_value=0, exclude_min=True, allow_nan=False, allow_infinity=False)
QUERIES = st.integers(min_value=1, max_value=10**30)

budgets = st.one_of(
    st.builds(Budget, seconds=SECONDS),
    st.builds(Budget, queries=QUERIES),
    st.builds(Budget, seconds=SECONDS, queries=QUERIES),
)
