"""The line of a comparison: preflight, source of images, search, verdicts, results; one step a file."""
