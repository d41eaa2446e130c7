"""Templates: ours beside Flower's, and a link to our page in the bar of every page."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tornado.template import Loader, Template

__all__ = ["STATIC", "TEMPLATES", "VERSIONS", "Templates"]

TEMPLATES = Path(__file__).with_name("templates")
STATIC = Path(__file__).with_name("static")

#: File -> what stands in its address and changes with it: browsers keep files for long.
VERSIONS = {
    each.name: hashlib.sha256(each.read_bytes()).hexdigest()[:8] for each in STATIC.iterdir()
}

#: The link, for the end of the first list of Flower's bar.
LINK = """\
        <li class="nav-item">
          <a class="nav-link{% if active_tab == 'scheduler' %} active{% end %}"
            href="{{ reverse_url('scheduler') }}"
            {% if active_tab == 'scheduler' %}aria-current="page"{% end %}>Scheduler</a>
        </li>
      """


class Templates(Loader):
    """Loads Flower's templates, and those of ours that Flower does not have."""

    def _create_template(self, name: str) -> Template:
        """Called by Tornado with its lock held, once per template."""
        ours = TEMPLATES / name
        text = (ours if ours.is_file() else Path(self.root) / name).read_text("utf-8")
        if name == "navbar.html":
            text = text.replace("</ul>", LINK + "</ul>", 1)
        return Template(text, name=name, loader=self)
