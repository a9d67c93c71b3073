"""The search for triggers: loop, evaluator, archive, objectives and the NSGA-II engine. Knows no file format, no screen."""
