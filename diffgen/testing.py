"""For the test suites of users: a regression check as one assertion.

>>> from diffgen.testing import assert_no_regression
>>> def test_int8_may_replace_float():
...     assert_no_regression("float.onnx", "int8.onnx", data="val/", budget="20000q", store="regressions/")
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from diffgen.comparison.named_settings import check_config
from diffgen.config import CheckConfig, Limits, replace
from diffgen.config.named import NamedCheckSettings
from diffgen.gate.result import CheckResult
from diffgen.gate.rules import Status
from diffgen.workflows.check import check


def assert_no_regression(
    base: Any,
    candidate: Any,
    *,
    data: Any,
    store: str | Path | None = None,
    limits: Limits | None = None,
    config: CheckConfig | None = None,
    output: str | Path | None = None,
    force: bool = False,
    **settings: Unpack[NamedCheckSettings],
) -> CheckResult:
    """Fail the test that calls this when the candidate may not replace the base; see :func:`diffgen.check`.

    Args:
        limits: what is allowed, in place of those of ``config``.
        base, candidate, data, store, config, output, force, settings: as for :func:`diffgen.check`.

    Returns:
        the outcome, which is PASS or WARN.

    Raises:
        AssertionError: the check failed or did not come to its end. The message has the conditions that are to blame,
            the worst new behaviours, and the path of the report.
        UserError: something given cannot be used.
    """
    config = CheckConfig() if config is None else config
    check_config(config, CheckConfig)
    if limits is not None:
        config = replace(config, limits=limits)
    result = check(
        base,
        candidate,
        data=data,
        store=store,
        config=config,
        output=output,
        force=force,
        command="diffgen.testing.assert_no_regression(...)",
        **settings,
    )
    if result.status in (Status.FAIL, Status.ERROR):
        raise AssertionError(failure_message(result))
    return result


def failure_message(result: CheckResult) -> str:
    """What a developer reads first: the conditions that are to blame, the worst new behaviours, where the report is."""
    lines = [f"diffgen check: {result.status.value}"]
    lines += [
        f"  {each.status.value} {each.name.replace('_', ' ')}: {each.sentence}"
        for each in result.conditions
        if each.status in (Status.FAIL, Status.ERROR)
    ]
    lines += [f"  new: {each}" for each in result.worst]
    return "\n".join([*lines, f"  report: {result.report}"])
