"""Measurements; run from a checkout, never installed."""

import os

# as the command line does, before torch is imported: threads that wait would spin
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
