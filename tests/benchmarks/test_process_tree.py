"""Memory and processor time of children count too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.process_tree import ProcessTree, processor_seconds, started_by

pytestmark = pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's /proc")

_CHILD = """
held = bytearray(b"x" * (200 << 20))
total = sum(i * i for i in range(3_000_000))
print(total, flush=True)
input()
"""


def test_a_child_counts() -> None:
    tree = ProcessTree()
    tree.reset()
    before, seconds = tree.peak, processor_seconds(os.getpid())
    with subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert "input()" in started_by(os.getpid())[child.pid]
        tree.look()
        assert tree.peak.total - before.total > 150 and tree.peak.anonymous - before.anonymous > 150
        assert tree.peak.own - before.own < 50
        assert processor_seconds(os.getpid()) - seconds > 0.1
        child.communicate(b"\n")
    tree.reset()
    assert tree.peak.total - before.total < 50
    assert processor_seconds(os.getpid()) - seconds > 0.1, "what it has used is not forgotten"
