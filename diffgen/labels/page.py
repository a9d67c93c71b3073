"""The page on which a person labels: one HTML file that opens from disk and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from diffgen.labels.keys import keys_of
from diffgen.labels.reading import INVALID_WORD
from diffgen.runs.pictures import png_bytes
from diffgen.types import UInt8Array

_WIDTH = 280


def render_page(ids: Sequence[str], images: UInt8Array, class_names: Sequence[str]) -> str:
    """The labelling page.

    Args:
        ids: N names of pictures.
        images: uint8 (N, C, H, W), shown in this order.
        class_names: K names in label order.

    Returns:
        a whole HTML document; write it as UTF-8.
    """
    environment = Environment(
        loader=PackageLoader("diffgen.labels", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    assert environment.loader is not None
    script, style = (environment.loader.get_source(environment, name)[0] for name in ("label.js", "label.css"))
    height, width = images.shape[2:]
    scale = max(1, _WIDTH // max(height, width))
    keys, invalid_key = keys_of(class_names)
    sheet = {
        "name": hashlib.sha256("".join(ids).encode()).hexdigest()[:16],
        "ids": list(ids),
        "pictures": [base64.b64encode(png_bytes(image)).decode("ascii") for image in images],
        "classes": [name.strip() for name in class_names],
        "keys": keys,
        "invalid": {"word": INVALID_WORD, "key": invalid_key},
    }
    # "<" could end the element that the values stand in
    values = json.dumps(sheet).replace("<", "\\u003c")
    policy = "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return environment.get_template("label.html.j2").render(
        style=Markup(style),
        script=Markup(script),
        policy=policy,
        values=Markup(values),
        choices=list(zip(keys, class_names, strict=True)),
        by_name="" in keys,
        invalid_key=invalid_key,
        width=width * scale,
        height=height * scale,
        count=len(ids),
    )
