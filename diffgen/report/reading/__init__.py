"""Reads what a report shows out of a run folder, one file for each part of the page."""
