"""The graphs that torch made of a TorchScript file, looked through before the network is asked.

Whatever torch read in the file stands in them, so that nothing depends on reading the code as torch does.
"""

from __future__ import annotations

from typing import Any

import torch

from diffgen.models.untrusted.archives import UntrustedError
from diffgen.models.untrusted.operators import FOREIGN_CLASSES, PACKED_WEIGHTS, is_allowed

# Calls of functions and methods: those of ``forward`` are put in place before it is looked through.
_CALLS = frozenset({"prim::CallFunction", "prim::CallMethod"})


def check_graphs(module: torch.nn.Module) -> None:
    """See that a network as torch has opened it calls operators of the list alone.

    Every method of every part is looked through, and ``forward`` once more with all that it calls in its place. Nothing
    is run, and nothing is optimized, which would compute what is constant.

    Args:
        module: as torch.jit.load gives it.

    Raises:
        UntrustedError: it calls something else.
    """
    for part in module.modules():
        script: Any = part._c
        for name in script._method_names():
            _check(script._get_method(name).graph, may_call=True)
    top: Any = module._c
    if top._has_method("forward"):
        _check(top._get_method("forward").inlined_graph, may_call=False)


def _check(graph: Any, *, may_call: bool) -> None:
    pending = [graph]
    while pending:
        block = pending.pop()
        for node in block.nodes():
            _check_node(node, may_call=may_call)
            pending.extend(node.blocks())
            for attribute in node.attributeNames():
                kind = node.kindOf(attribute)
                if kind == "g":
                    pending.append(node.g(attribute))
                elif kind == "gs":
                    pending.extend(node.gs(attribute))


def _check_node(node: Any, *, may_call: bool) -> None:
    kind = node.kind()
    namespace, _, operator = kind.partition("::")
    if not is_allowed(namespace, operator) and not (may_call and kind in _CALLS):
        raise UntrustedError(f"it calls {kind[:60]!r}, which is not on the list of operators that only compute")
    for output in node.outputs():
        made = output.type()
        if made.kind() != "ClassType":
            continue
        name = made.annotation_str
        if name.startswith(FOREIGN_CLASSES) and name not in PACKED_WEIGHTS:
            raise UntrustedError(f"it uses {name[:80]!r}, a class outside of the file")
