"""The gate as a test of your own suite: ``pip install pytest diffgen``, then ``pytest test_model_gate.py``."""

from diffgen import Limits
from diffgen.testing import assert_no_regression


def test_int8_may_replace_float() -> None:
    assert_no_regression(
        "models/float.onnx",
        "models/int8.onnx",
        data="val/",
        store="regressions/",
        budget="20000q",
        seed=0,
        limits=Limits(max_disagreement=0.02, max_accuracy_drop=0.005, max_new_behaviours=0),
        output="gate",
        force=True,
    )
