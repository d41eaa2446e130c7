"""The documents name what the code has: scripts, states, keys, fields, settings, commands.

Each of these was seen to fail: with a script taken off the page, a state without a row, a field of
another name, a link misspelt, a page left out of the index, an option that no command has.
"""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import click
import pytest

from tq_celery.cli import main
from tq_celery.flower.serve import check
from tq_celery.states import Outcome, State
from tq_celery.store import keys
from tq_celery.store.keys import Keys

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LUA = ROOT / "tq_celery" / "store" / "lua"
PAGES = sorted(
    path
    for folder in ("docs", "bench", "baseline", "tests")
    for path in (ROOT / folder).rglob("*.md")
) + sorted(ROOT.glob("*.md"))


def read(*parts: str) -> str:
    return DOCS.joinpath(*parts).read_text("utf-8")


def table(text: str) -> list[list[str]]:
    """Return the cells of every table row."""
    rows = (line for line in text.splitlines() if line.startswith("|"))
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


# --- the data path -------------------------------------------------------------------------------


def scripts_of_the_table() -> list[str]:
    rows = [row for row in table(read("explanation", "data-path.md")) if len(row) == 5]
    return [name for row in rows[2:] for name in re.findall(r"`(\w+)`", row[3])]


def test_every_script_is_in_the_table_of_the_data_path_once() -> None:
    assert sorted(scripts_of_the_table()) == sorted(path.stem for path in LUA.glob("*.lua"))


def test_every_file_of_the_data_path_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)`", read("explanation", "data-path.md"))
    missing = [name for name in named if not (ROOT / "tq_celery" / name).is_file()]
    assert named
    assert not missing


def test_the_page_on_leadership_names_every_fenced_script() -> None:
    fenced = {
        path.stem for path in LUA.glob("*.lua") if "error TQFENCED" in path.read_text("utf-8")
    }
    text = re.search(
        r"\*\*Fence\.\*\*.*?takes the epoch", read("explanation", "leadership.md"), re.DOTALL
    )
    assert text
    assert set(re.findall(r"`(\w+)`", text[0])) == fenced


# --- states and keys -----------------------------------------------------------------------------


def test_every_state_and_outcome_is_explained() -> None:
    text = read("explanation", "states.md")
    explained = [row[0].strip("`") for row in table(text)]
    for word in [*State, *Outcome]:
        assert explained.count(word.value) == 1, f"{word} has one row"
        assert re.search(rf"^    .*\b{word.value}\b", text, re.MULTILINE), (
            f"{word} is in the picture"
        )


def keys_of_the_table() -> list[str]:
    """Return the names in the docstring's table, its first column."""
    _, _, body, _ = re.split(r"^=+ .*$", keys.__doc__ or "", flags=re.MULTILINE)
    column = [line[:30].strip() for line in body.splitlines()]
    return [name.strip() for entry in column if entry for name in entry.split(",")]


def test_every_key_of_the_table_can_be_derived() -> None:
    made = Keys("shop")
    for name in keys_of_the_table():
        word, _, place = name.partition(":<")
        if place.startswith("n>"):
            assert made.of_tenant(word, "q", b"t") == f"tq:{{shop}}:{word}:1:q:t".encode()
        elif place in ("queue>", "group>"):
            assert made.of_queue(word, "q") == f"tq:{{shop}}:{word}:q"
        else:
            assert not place, name
            assert made.name(name) == f"tq:{{shop}}:{name}"


def test_every_key_that_a_script_uses_is_in_the_table() -> None:
    known = {name.partition(":<")[0] for name in keys_of_the_table()}
    used = set()
    for path in LUA.rglob("*.lua"):
        used |= set(re.findall(r"\b(?:key|queue_key|tenant_key)\('([\w:]+)'", path.read_text()))
    assert used
    assert used <= known


# --- references ----------------------------------------------------------------------------------


def test_the_reference_of_the_settings_is_current() -> None:
    generator = runpy.run_path(str(DOCS / "reference" / "generate_settings.py"))
    assert read("reference", "settings.md") == generator["text"](), (
        "run: python docs/reference/generate_settings.py"
    )


def test_the_reference_of_the_metrics_is_current() -> None:
    generator = runpy.run_path(str(DOCS / "reference" / "generate_metrics.py"))
    assert read("reference", "metrics.md") == generator["text"](), (
        "run: python docs/reference/generate_metrics.py"
    )


def written(source: str) -> list[str]:
    """Return the field names in the first ``fields`` list of a script."""
    found = re.search(
        r"local fields = \{(.*?)\n?  ?\}", (LUA / source).read_text("utf-8"), re.DOTALL
    )
    assert found
    return re.findall(r"'(\w+)',", found[1].replace("'dead',", ""))


@pytest.mark.parametrize(
    "section, source",
    [
        ("results", "includes/settle.lua"),
        ("dead", "includes/bury.lua"),
        ("unreadable", "includes/raw.lua"),
    ],
)
def test_the_streams_have_the_fields_that_their_reference_lists(section: str, source: str) -> None:
    text = read("reference", "results.md").partition(f"<!-- fields: {section} -->")[2]
    listed = [row[0].strip("`") for row in table(text.partition("\n## ")[0].partition("\n### ")[0])]
    fields = [name for name in listed[2:] if name != "raw_*"]
    assert sorted(fields) == sorted(written(source))


# --- links ---------------------------------------------------------------------------------------


def links(path: Path) -> list[str]:
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "", text)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def anchors(path: Path) -> set[str]:
    """Return the anchors that headings get where the pages are shown."""
    heads = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(path: Path) -> None:
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{link} leads nowhere"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{link}: no such heading"


def test_the_index_lists_every_page() -> None:
    listed = {(DOCS / link.partition("#")[0]).resolve() for link in links(DOCS / "README.md")}
    pages = {path for path in DOCS.rglob("*.md") if path != DOCS / "README.md"}
    assert pages <= listed, "without a line in docs/README.md"


def test_pictures_are_small() -> None:
    for path in (DOCS / "images").iterdir():
        assert path.stat().st_size < 150_000, f"{path.name} makes every clone heavier"


# --- commands ------------------------------------------------------------------------------------


def commands() -> list[tuple[str, str]]:
    """Return every ``tq`` command line in a block of the hand-written pages, with its page."""
    found = []
    for path in PAGES:
        for block in re.findall(
            r"^```(?:sh|ini)\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL
        ):
            for line in block.splitlines():
                match = re.match(r"(?:ExecStart=\S*/)?(?:celery -A \w+ )?tq (.+)", line)
                if match:
                    found.append((match[1], path.relative_to(ROOT).as_posix()))
    return found


@pytest.mark.parametrize("line, page", sorted(set(commands())))
def test_a_command_on_a_page_exists_with_its_options(line: str, page: str) -> None:
    words = shlex.split(line, comments=True)
    command: click.Command = main
    while isinstance(command, click.Group):
        context = click.Context(command)
        names = [word for word in words if command.get_command(context, word)]
        assert names, f"{page}: no command in: tq {line}"
        words.remove(names[0])
        command = command.get_command(context, names[0]) or command
    known = {name for each in (command, main) for param in each.params for name in param.opts}
    unknown = [word for word in words if word.startswith("-") and word not in known]
    if command.name == "flower":  # the others are Flower's own, which refuses what is not
        check(unknown)
        unknown = []
    assert not unknown, f"{page}: tq {line}"
