"""Measurements; run from a checkout, never installed."""
