"""The house rules that no linter knows: sizes, layers, the wheel, and words that agree."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

#: Longest file by suffix: all lines of Python; of Lua the code, as its header is a contract and may
#: take what it needs. A file is one step or one idea.
LONGEST = {".py": 400, ".lua": 90}

#: Files that are longer, with their size, which may only shrink: steps that must be one script.
LONGER: dict[str, int] = {}


def sources(*suffixes: str) -> list[Path]:
    folders = ("tq_celery", "tests", "bench", "baseline", "deploy")
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in suffixes and path.is_file()
    )


def size(path: Path) -> int:
    lines = path.read_text("utf-8").splitlines()
    if path.suffix == ".lua":
        lines = [line for line in lines if line.strip() and not line.lstrip().startswith("--")]
    return len(lines)


def test_no_file_is_longer_than_one_idea() -> None:
    too_long = []
    for path in sources(*LONGEST):
        name = path.relative_to(ROOT).as_posix()
        if size(path) > LONGER.get(name, LONGEST[path.suffix]):
            too_long.append(f"{name}: {size(path)} lines")
    assert not too_long, "split by step of the flow: " + ", ".join(too_long)


def test_the_list_of_longer_files_only_shrinks() -> None:
    for name, known in LONGER.items():
        actual = size(ROOT / name)
        assert actual > LONGEST[Path(name).suffix], f"{name} is short now: take it off the list"
        assert actual <= known, f"{name} grew from {known} to {actual} lines"


def test_every_part_has_its_layer() -> None:
    """A new module has to be placed in the import contract before it can land."""
    contracts = PYPROJECT["tool"]["importlinter"]["contracts"]
    layers = next(c for c in contracts if c["type"] == "layers")["layers"]
    placed = set(re.findall(r"tq_celery\.(\w+)", " ".join(layers)))
    parts = {
        path.stem
        for path in (ROOT / "tq_celery").iterdir()
        if (path.suffix == ".py" or (path / "__init__.py").exists() or list(path.glob("*.py")))
        and path.stem not in ("__init__", "__main__", "__pycache__")
    }
    assert parts <= placed, f"without a layer: {sorted(parts - placed)}"


def test_every_package_can_be_imported_from_a_wheel() -> None:
    for path in (ROOT / "tq_celery").rglob("*.py"):
        assert (path.parent / "__init__.py").exists(), f"{path.parent} has no __init__.py"


def test_every_entry_point_leads_to_a_command() -> None:
    """Celery skips a broken plugin with a warning, so nobody else would notice."""
    project = PYPROJECT["project"]
    targets = {**project["scripts"], **project["entry-points"]["celery.commands"]}
    for target in targets.values():
        module, _, name = target.partition(":")
        assert isinstance(getattr(importlib.import_module(module), name), click.Group)


def test_the_wheel_holds_the_library_only(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"tq_celery"}
    packed = {name for name in names if name.startswith("tq_celery/")}
    kinds = (".py", ".lua", ".html", ".js", ".css")
    wanted = {p.relative_to(ROOT).as_posix() for p in sources(*kinds)}
    assert {name for name in wanted if name.startswith("tq_celery/")} <= packed
    assert "tq_celery/py.typed" in packed


def test_nothing_is_left_unfinished_and_no_machine_is_named() -> None:
    words = ["TO" + "DO", "FIX" + "ME", "X" + "XX", "/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/"]
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(word)}" for word in words))
    paths = [
        *sources(".py", ".lua", ".md"),
        *(ROOT / "docs").rglob("*.md"),
        *ROOT.glob("*.md"),
        ROOT / "Makefile",
        ROOT / "constraints.txt",
    ]
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found


# --- words that agree ----------------------------------------------------------------------------


def targets() -> dict[str, str]:
    text = (ROOT / "Makefile").read_text("utf-8")
    return dict(re.findall(r"^([a-z-]+):.*?## (.+)$", text, re.MULTILINE))


def test_every_make_target_documents_itself() -> None:
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.+)$", text, re.MULTILINE)
    assert phony
    assert set(phony[1].split()) == set(targets())
    listed = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True)
    for name, meaning in targets().items():
        assert re.search(rf"make {name} +{re.escape(meaning)}", listed.stdout)


def test_the_first_screen_has_two_commands_to_set_up() -> None:
    first_screen = (ROOT / "README.md").read_text("utf-8").splitlines()[:30]
    commands = [line.strip().split("#")[0].strip() for line in first_screen]
    assert [c for c in commands if c.startswith(("make ", "pip ", "docker "))] == [
        "make demo",
        "make test",
    ]


def test_documents_name_only_targets_that_exist() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        code = re.findall(r"`([^`]+)`|^ {4,}(\S.*)$", path.read_text("utf-8"), re.MULTILINE)
        for snippet in ("".join(pair) for pair in code):
            if name := re.match(r"make ([a-z][a-z-]*)", snippet):
                assert name[1] in targets(), f"{path.name} names make {name[1]}"


def test_the_changelog_has_a_place_for_what_comes_next() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## \[Unreleased\]$", text, re.MULTILINE)
    headings = set(re.findall(r"^### (.+)$", text, re.MULTILINE))
    assert headings <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


@pytest.mark.parametrize("extra", ["demo", "bench", "top", "flower", "otel", "dev"])
def test_the_extras_exist(extra: str) -> None:
    assert PYPROJECT["project"]["optional-dependencies"][extra]


def test_the_library_depends_on_little() -> None:
    names = {re.split(r"[\[<>=]", each)[0] for each in PYPROJECT["project"]["dependencies"]}
    assert names == {"celery", "kombu", "redis", "click", "prometheus-client"}


def test_the_floor_is_what_the_project_claims() -> None:
    """The versions of ``make test-floor`` are the lower bounds of pyproject.toml."""
    text = (ROOT / "constraints-floor.txt").read_text("utf-8")
    floors = {
        name.replace("_", "-"): pin
        for name, pin in re.findall(r"^(\w+)==(\S+)$", text, re.MULTILINE)
    }
    for each in PYPROJECT["project"]["dependencies"]:
        bound = re.match(r"([a-z-]+)(?:\[\w+\])?>=([\d.]+)", each)
        assert bound
        assert floors[bound[1]].startswith(bound[2]), f"{each}: the tests run on {floors[bound[1]]}"


def test_pins_have_no_addresses_and_cover_what_is_asked_for() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][\w.+!-]*", pin) for pin in pins)
    pinned = {re.sub(r"[-_.]+", "-", pin.partition("==")[0]).lower() for pin in pins}
    project = PYPROJECT["project"]
    asked = [*project["dependencies"]]
    for extra in ("demo", "bench", "flower", "otel", "dev"):
        asked += project["optional-dependencies"][extra]
    for each in asked:
        name = re.sub(r"[-_.]+", "-", re.split(r"[\[<>=]", each)[0]).lower()
        assert name in pinned, f"{name} has no pin"
