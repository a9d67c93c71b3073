"""What islands, sweeps and tuning on several workers have in common: what these say, calls elsewhere, Ray."""
