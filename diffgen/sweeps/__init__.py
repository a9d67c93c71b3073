"""Sweeps: many comparisons from one file, pairs of models x techniques x seeds x budgets, each in a run folder."""
