"""The search for triggers: loop, evaluator, archive, objectives, NSGA-II. Knows no file format, no screen."""
