"""Hostile changes to TorchScript and torch.export archives: each tries to write into a file or to call a port.

What an attacker would write is put in many spellings into many places: the text of the code, names of members, the
pickles, the description of an exported graph. Most candidates are nonsense to torch; enough are not.
"""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable

from benchmarks.fuzz_archives import Members, Target, archive_of, members_of, running_pickle
from benchmarks.fuzz_graphs import in_graph, in_weights
from benchmarks.fuzz_mutations import mutate
from benchmarks.fuzz_scripts import in_code


def hostile(content: bytes, target: Target, rng: random.Random, *, exported: bool) -> bytes:
    """A hostile copy of a sound archive: of a torch.export program (``exported``), or of TorchScript."""
    members = members_of(content)
    attacks = _EXPORTED if exported else _TORCHSCRIPT
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        members = rng.choice(attacks)(members, target, rng)
    if rng.random() < 0.3:
        members = _renamed(members, target, rng)
    made = archive_of(members, rng)
    if rng.random() < 0.15:
        made = _two_names(made, rng)
    return mutate(made, content, rng) if rng.random() < 0.15 else made


# -- names ----------------------------------------------------------------------------------------------------------


def _renamed(members: Members, target: Target, rng: random.Random) -> Members:
    """One member under another name, perhaps beside the sound one."""
    index = rng.randrange(len(members))
    name, content = members[index]
    names: list[Callable[[], str]] = [
        lambda: name.upper(),
        lambda: name.replace(".py", ".PY"),
        lambda: name.replace(".py", ".pY"),
        lambda: name.replace(".pkl", ".PKL"),
        lambda: name.replace(".json", ".JSON"),
        lambda: f"./{name}",
        lambda: name.replace("/", "//", 1),
        lambda: name.replace("/", "\\"),
        lambda: f"other/{name}",
        lambda: name.replace("/", "/../", 1),
        lambda: f"{name}\0.txt",
        lambda: f"{name} ",
        lambda: name.partition("/")[2],
        lambda: f"{name.partition('/')[0]}/model.json",
        lambda: f"{name.partition('/')[0]}/code/__torch__.py",
        lambda: f"{name.partition('/')[0]}/data/aotinductor/model/x.so",
        lambda: f"{name.partition('/')[0]}/extra/x.py",
    ]
    new = rng.choice(names)()
    changed = list(members)
    changed[index] = (new or "_", content)
    if rng.random() < 0.5:
        changed.insert(rng.choice((0, len(changed))), (name, content))
    return changed


def _two_names(content: bytes, rng: random.Random) -> bytes:
    """One member under two names, in front of its contents and in the directory: readers believe one or the other."""
    found = [match.start() for match in re.finditer(rb"\.(?:py|pkl|json)", content)]
    if not found:
        return content
    place = rng.choice(found)
    changed = bytearray(content)
    changed[place + 1 : place + 3] = changed[place + 1 : place + 3].upper()
    return bytes(changed)


# -- pickles --------------------------------------------------------------------------------------------------------


def _in_pickle(members: Members, target: Target, rng: random.Random) -> Members:
    """Other names, other instructions, bytes changed."""
    places = [index for index, (name, _) in enumerate(members) if name.endswith(".pkl")]
    if not places:
        return members
    index = rng.choice(places)
    name, content = members[index]
    how = rng.random()
    if how < 0.25:
        content = running_pickle(target, rng)
    elif how < 0.5:
        # in front: made, and thrown away
        content = content[:2] + running_pickle(target, rng)[2:-1] + b"0" + content[2:]
    elif how < 0.75:
        old = rng.choice((b"torch._utils\n_rebuild_tensor_v2", b"collections\nOrderedDict", b"torch\nFloatStorage"))
        new = rng.choice(
            (
                *(b"posix\nsystem", b"builtins\neval", b"torch\nload", b"torch._utils\n_rebuild_parameter"),
                *(b"__torch__.torch.classes.dist_rpc\nRpcAgent", b"__torch__.torch.classes.quantized\nx"),
                *(b"torch.jit._pickle\nrestore_type_tag", b"torch.jit._pickle\nbuild_tensor_from_id"),
            )
        )
        content = content.replace(old, new)
    elif how < 0.85:
        content = content[:2] + b"r" + struct.pack("<I", rng.choice((2**10, 2**16, 2**24))) + content[2:]
    else:
        content = mutate(content, content, rng)
    changed = list(members)
    changed[index] = (name, content)
    return changed


_TORCHSCRIPT = (in_code, in_code, in_code, in_code, _in_pickle)
_EXPORTED = (in_graph, in_graph, in_graph, in_graph, in_weights)
