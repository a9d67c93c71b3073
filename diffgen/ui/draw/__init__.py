"""Pieces of HTML: each file draws one, and decides nothing; every name in them is escaped."""
