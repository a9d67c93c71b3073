"""Hostile and clumsy uses of every verb, each with its outcome and a verdict."""
