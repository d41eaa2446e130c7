"""Pieces of HTML, every text in them escaped."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence

__all__ = ["Markup", "details", "figure", "items", "section", "table", "text"]


class Markup(str):
    """Text that is HTML already; everything else is escaped where it is put in."""

    __slots__ = ()


def text(value: object) -> Markup:
    """Return ``value`` as HTML."""
    return value if isinstance(value, Markup) else Markup(html.escape(str(value)))


def section(title: str, *parts: Markup) -> Markup:
    """Return a part of the page with a heading that can be linked to; "" when it is empty."""
    body = "\n".join(part for part in parts if part)
    if not body:
        return Markup("")
    anchor = title.lower().replace(" ", "-")
    return Markup(f'<section id="{anchor}"><h2>{text(title)}</h2>\n{body}\n</section>')


def table(headers: Sequence[object], rows: Iterable[Sequence[object]], kind: str = "") -> Markup:
    """Return a table that scrolls by itself where the page is narrow; "" without rows."""
    lines = ["".join(f"<td>{text(value)}</td>" for value in row) for row in rows]
    if not lines:
        return Markup("")
    head = "".join(f"<th>{text(value)}</th>" for value in headers)
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    return Markup(
        f'<div class="scroll"><table class="{kind}"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def items(values: Iterable[object], kind: str = "") -> Markup:
    """Return a list; "" when there is nothing in it."""
    lines = "".join(f"<li>{text(value)}</li>" for value in values)
    return Markup(f'<ul class="{kind}">{lines}</ul>' if lines else "")


def details(title: str, *parts: Markup) -> Markup:
    """Return what is shown on demand; "" when it is empty."""
    body = "".join(parts)
    if not body:
        return Markup("")
    return Markup(f"<details><summary>{text(title)}</summary>{body}</details>")


def figure(caption: str, svg: bytes) -> Markup:
    """Return a picture with its caption, its data in the page."""
    data = base64.b64encode(svg).decode()
    return Markup(
        f'<figure><img alt="{text(caption)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{text(caption)}</figcaption></figure>"
    )
