"""Hostile changes to a torch.export archive: the description of its graph, and the pickles of its weights."""

from __future__ import annotations

import io
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

from benchmarks.fuzz_archives import Members, Target, archive_of, members_of, running_pickle


def _python(target: Target, rng: random.Random) -> str:
    """An expression of Python that reaches outside."""
    file, port = target.file, target.port
    return rng.choice(
        [
            f"open({file!r}, 'w')",
            f"__import__('os').mkdir('{file}.made')",
            f"eval(\"open('{file}', 'w')\")",
            f"().__class__.__base__.__subclasses__()[0]('{file}')",
            f"__import__('socket').create_connection(('127.0.0.1', {port}))",
            f"[open({file!r}, 'w') for _ in (1,)][0]",
            f"(lambda: open({file!r}, 'w'))()",
            f"Symbol(\"open('{file}', 'w')\")",
            f"Symbol('a').__init__.__globals__['__builtins__']['open']('{file}', 'w')",
            f"L['x'].size.__globals__['open']('{file}', 'w')",
            f"sympify(\"open('{file}', 'w')\")",
            f"Integer(open('{file}', 'w'))",
            f"Max(open('{file}', 'w'), 1)",
            f"f'{{open({file!r}, 'w')}}'",
            f"(x := open({file!r}, 'w'))",
        ]
    )


def in_graph(members: Members, target: Target, rng: random.Random) -> Members:
    """The description of the graph with another operator, expression or name."""
    places = [index for index, (name, _) in enumerate(members) if "/models/" in name and name.endswith(".json")]
    if not places:
        return members
    index = rng.choice(places)
    name, content = members[index]
    try:
        program = json.loads(content)
    except ValueError:  # changed by another attack before
        return members
    rng.choice(_GRAPH_CHANGES)(program, target, rng)
    changed = list(members)
    changed[index] = (name, json.dumps(program).encode())
    return changed


def _nodes(program: Any) -> list[Any]:
    found: list[Any] = program["graph_module"]["graph"]["nodes"]
    return found


def _other_operator(program: Any, target: Target, rng: random.Random) -> None:
    node = rng.choice(_nodes(program))
    node["target"] = rng.choice(
        [
            *("torch.ops.aten.save.default", "torch.ops.aten.from_file.default", "torch.ops.aten.from_file.out"),
            *("torch.ops.aten.from_file", "torch.ops.aten.from_file.default ", "torch.ops.aten.relu.default.__call__"),
            *("torch.hub.load", "torch.save", "builtins.open", "builtins.exec", "os.system", "_operator.call"),
            *("torch.ops.image.write_file.default", "torch.ops.higher_order.cond", "torch.load", "math.__loader__"),
            *("torch.ops.aten.__class__.default", "_operator.methodcaller", "torch.ops.load_library", "subprocess.run"),
            *(
                "torch.utils.cpp_extension.load",
                "torch.ops.debugprims.load_tensor.default",
                "torch.classes.load_library",
            ),
        ]
    )
    texts = [{"name": "x", "arg": {"as_string": target.file}, "kind": 1}]
    flags = [{"name": "y", "arg": {"as_bool": True}, "kind": 1}, {"name": "z", "arg": {"as_int": 4}, "kind": 1}]
    if rng.random() < 0.7:
        node["inputs"] = texts + flags[: rng.randrange(3)]


def _more_nodes(program: Any, target: Target, rng: random.Random) -> None:
    nodes = _nodes(program)
    node = json.loads(json.dumps(rng.choice(nodes)))
    nodes.insert(rng.randrange(len(nodes) + 1), node)
    _other_operator(program, target, rng)


def _other_text(program: Any, target: Target, rng: random.Random) -> None:
    """Any text of the description becomes an expression."""
    places: list[tuple[Any, Any]] = []
    pending: list[Any] = [program]
    while pending:
        current = pending.pop()
        items = current.items() if isinstance(current, dict) else enumerate(current)
        for key, value in items:
            if isinstance(value, str):
                places.append((current, key))
            elif isinstance(value, (dict, list)):
                pending.append(value)
    if places:
        container, key = rng.choice(places)
        expression = _python(target, rng)
        container[key] = rng.choice((expression, f"{container[key]} if {expression} else 1", f"{expression} # "))


def _guard(program: Any, target: Target, rng: random.Random) -> None:
    program["guards_code"] = [f"{_python(target, rng)} is not None"]


def _new_key(program: Any, target: Target, rng: random.Random) -> None:
    key = rng.choice(("as_custom_obj", "as_operator", "expr_str", "class_fqn", "custom_obj", "in_spec", "metadata"))
    value: Any = rng.choice((_python(target, rng), {"name": "x", "class_fqn": "os.system"}))
    node = rng.choice(_nodes(program))
    rng.choice((program, program["graph_module"], node, *node["inputs"][:2]))[key] = value


def _container(program: Any, target: Target, rng: random.Random) -> None:
    """Inputs and outputs of another kind."""
    kind = rng.choice(("collections.namedtuple", "torch.Size", "builtins.dict", "os.system", "enum.Enum"))
    context = rng.choice(
        ('{"__enum__": true, "fqn": "os.system", "name": "x"}', json.dumps(_python(target, rng)), "[]")
    )
    text = json.dumps([1, {"type": kind, "context": context, "children_spec": []}])
    program["graph_module"]["module_call_graph"][0]["signature"][rng.choice(("in_spec", "out_spec"))] = text


_GRAPH_CHANGES: tuple[Callable[[Any, Target, random.Random], None], ...] = (
    *(_other_operator, _other_operator, _more_nodes, _other_text, _other_text, _other_text, _guard, _new_key),
    _container,
)


def in_weights(members: Members, target: Target, rng: random.Random) -> Members:
    """Weights, constants or the example as a pickle."""
    import torch

    program = running_pickle(target, rng)
    stream = io.BytesIO()
    torch.save(pickle.loads(pickle.dumps(1)), stream)
    saved = [
        (name, program if name.endswith("data.pkl") else content) for name, content in members_of(stream.getvalue())
    ]
    hostile_content = rng.choice((program, archive_of(saved, rng)))
    changed: Members = []
    chosen = rng.choice(("data/weights/", "data/constants/", "data/sample_inputs/"))
    for name, content in members:
        if chosen in name and name.endswith(".json"):
            description = json.loads(content)
            for entry in description["config"].values():
                entry["use_pickle"] = rng.choice((True, True, 1, "true"))
            content = json.dumps(description).encode()
        elif chosen in name:
            content = hostile_content
        changed.append((name, content))
    if rng.random() < 0.3:
        top = members[0][0].partition("/")[0]
        changed.append((f"{top}/{chosen}{rng.choice(('model.pt', 'opaque_obj_0', 'custom_obj_0'))}", hostile_content))
    return changed
