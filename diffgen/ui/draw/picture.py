"""One picture with everything that is known of it."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from diffgen import api
from diffgen.report.data import Picture
from diffgen.tasks.classification import listed, role_name
from diffgen.types import Float32Array
from diffgen.ui.draw.parts import badge, joined, picture_address
from diffgen.wording import percent

_ROWS = 6  # classes that are shown


def who_is_wrong(picture: Picture) -> str:
    """As a short sentence: ``B is wrong``, ``both are wrong``, or nothing."""
    wrong = [role_name(model) for model in picture.wrong]
    if not wrong:
        return ""
    if len(wrong) == len(picture.labels):
        return "both are wrong" if len(wrong) == 2 else "all are wrong"
    return f"{listed(wrong)} are wrong" if len(wrong) > 1 else f"{wrong[0]} is wrong"


def detail(find: api.Find, run: str, stamp: str, models: tuple[str, ...], names: tuple[str, ...]) -> Markup:
    """A trigger: what each model says, how it came about, and the pictures that belong to it."""
    picture = find.picture
    number = picture.identifier
    figures = [_figure(picture_address(run, number, stamp=stamp), f"trigger {number}", "what was found")]
    if find.seed is not None:
        address = picture_address(run, number, "seed", stamp)
        figures.append(_figure(address, f"real image {find.seed:,}", "what it was made from"))
    elif picture.nearest_real is not None:
        figures.append(_figure(picture_address(run, number, "nearest", stamp), "nearest real image", ""))
    if find.shrunk is not None:
        pair = find.shrunk
        # another pair is another address: the browser keeps pictures
        address = picture_address(run, number, "shrunk", f"{stamp}-{pair.difference:.6g}")
        figures.append(_figure(address.replace(".png", "/agreeing.png"), "shrunk: they agree", ""))
        text = f"{pair.difference:.2f} grey levels further"
        figures.append(_figure(address.replace(".png", "/trigger.png"), "shrunk: they differ", text))
    return Markup(
        '<article class="dg-detail" aria-label="trigger {}"><div class="dg-figures">{}</div><div class="dg-about">'
        "<h4>{}</h4>{}{}{}</div></article>"
    ).format(
        number,
        joined(figures),
        _headline(picture, models, names),
        _verdict(picture, names),
        bars(find.answers, picture, models, names),
        _facts(find),
    )


def _figure(address: str, title: str, text: str) -> Markup:
    return Markup(
        '<figure><img src="{}" alt="{}" onerror="this.parentElement.classList.add(\'dg-gone\')">'
        "<figcaption><b>{}</b>{}</figcaption></figure>"
    ).format(address, title, title, text)


def _headline(picture: Picture, models: tuple[str, ...], names: tuple[str, ...]) -> str:
    said = [f"{role_name(model)} says {_name(names, label)}" for model, label in enumerate(picture.labels)]
    return ", ".join(said)


def _verdict(picture: Picture, names: tuple[str, ...]) -> Markup:
    parts = []
    jury = picture.jury
    if picture.rejected_by is not None:
        parts.append(Markup("{} by the filter {}").format(badge("rejected"), picture.rejected_by))
    if jury is not None:
        sure = "" if jury.recognised else " (not sure)"
        if jury.rests_on == "label":
            sure = " (which only confirms the known label)"
        if jury.instead_of is not None:
            sure = f" (but made from {_name(names, jury.instead_of)})"
        parts.append(Markup("The jury sees <b>{}</b>{}").format(_name(names, jury.named), sure))
    wrong = who_is_wrong(picture)
    if wrong:
        parts.append(Markup('<b class="dg-wrong">{}</b>').format(wrong))
    return Markup('<p class="dg-verdict">{}</p>').format(Markup(" · ").join(parts)) if parts else Markup("")


def bars(answers: Float32Array, picture: Picture, models: tuple[str, ...], names: tuple[str, ...]) -> Markup:
    """The highest probabilities of every model, class by class."""
    order = np.argsort(-answers.max(axis=0), kind="stable").tolist()
    must = {*picture.labels, *(() if picture.jury is None else (picture.jury.named,))}
    shown = [label for label in order if label in must or label in order[:_ROWS]]
    wrong = set(picture.wrong)
    head = joined(
        Markup('<th scope="col"><span class="dg-role dg-role-{}">{}</span> {}</th>').format(
            model % 8, role_name(model), name
        )
        for model, name in enumerate(models)
    )

    def cell(model: int, label: int) -> Markup:
        share = float(np.clip(np.nan_to_num(answers[model, label]), 0, 1))
        kind = " dg-says" if picture.labels[model] == label else ""
        kind += " dg-false" if kind and model in wrong else ""
        # as in the report: of many small values "0.0%" is easier to read than "<0.1%"
        return Markup(
            '<td class="dg-bar{}"><span class="dg-bar-track"><span class="dg-bar-fill dg-role-{}" style="width:{}%">'
            "</span></span><span>{}</span></td>"
        ).format(kind, model % 8, round(100 * share, 1), "0.0%" if share < 0.0005 else percent(share))

    body = joined(
        Markup('<tr><th scope="row">{}</th>{}</tr>').format(
            _name(names, label), joined(cell(model, label) for model in range(len(models)))
        )
        for label in shown
    )
    return Markup(
        '<div class="dg-scroll"><table class="dg-bars"><caption>probability of each class</caption>'
        "<thead><tr><td></td>{}</tr></thead><tbody>{}</tbody></table></div>"
    ).format(head, body)


def _facts(find: api.Find) -> Markup:
    picture = find.picture
    facts = [("how it was made", picture.origin)] if picture.origin else []
    facts.append(("found", f"query {find.query:,}, generation {find.generation:,}"))
    if find.cell >= 0:
        facts.append(("cell of the real images", str(find.cell)))
    if picture.scores:
        facts.append(("filter scores", ", ".join(f"{name} {score:.3g}" for name, score in picture.scores.items())))
    rows = joined(Markup("<dt>{}</dt><dd>{}</dd>").format(*each) for each in facts)
    return Markup('<dl class="dg-facts">{}</dl>').format(rows)


def _name(names: tuple[str, ...], label: int) -> str:
    return names[label] if 0 <= label < len(names) else str(label)
