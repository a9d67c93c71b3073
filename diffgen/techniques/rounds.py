"""Techniques that ask about one batch after another until the budget is used up."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from diffgen.search.evaluator import BudgetExhausted
from diffgen.techniques.base import Technique, TechniqueContext


class InRounds(Technique):
    """A technique whose state between two rounds is all there is to it; ``_rounds`` counts them from 1."""

    def __init__(self, context: TechniqueContext) -> None:
        super().__init__(context)
        self._rounds = 0

    def run(self, on_generation: Callable[[], None]) -> None:
        """See the base class."""
        while True:
            self._rounds += 1
            self.context.evaluator.generation = self._rounds
            try:
                self._round()
            except BudgetExhausted:
                return
            on_generation()

    @abstractmethod
    def _round(self) -> None:
        """Ask about one batch.

        Raises:
            BudgetExhausted: the budget ended before it, or within it.
        """
