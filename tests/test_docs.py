"""The pages written by hand: links resolve, headline figures are those of `docs/results`."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RESULTS = DOCS / "results"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "examples").glob("*.md")])

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]\[]*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def prose(page: Path) -> str:
    """Return a page without its code: neither blocks nor spans have links."""
    return re.sub(r"`[^`\n]*`", "code", FENCE.sub("", page.read_text("utf-8")))


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a page."""
    text = FENCE.sub("", page.read_text("utf-8"))
    result: set[str] = set()
    for heading in HEADING.findall(text):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        name = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        count = sum(
            other == name or re.fullmatch(rf"{re.escape(name)}-\d+", other) is not None
            for other in result
        )
        result.add(f"{name}-{count}" if count else name)
    return result


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page that lead to no file, or to no heading of one."""
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_resolve(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# A `b`, c\n\n## A\n\n## A\n")
    links = ("other.md#a-b-c", "other.md#a-1", "other.md", "https://x.y/z", "#here")
    wrong = ("other.md#a-2", "gone.md", "#there")
    text = "# Here\n\n`[x](code.md)`\n\n```\n[x](block.md)\n```\n"
    page.write_text(text + "".join(f"[x]({link})\n" for link in links + wrong))
    assert broken_links(page) == list(wrong)


def test_every_page_is_reached_from_the_readme() -> None:
    """A page that nothing links to is found by nobody; a link to a folder reaches its pages."""
    reached, queue = set[Path](), [ROOT / "README.md"]
    while queue:
        page = queue.pop()
        if page in reached:
            continue
        reached.add(page)
        for link in LINK.findall(prose(page)):
            target = (page.parent / link.partition("#")[0]).resolve()
            queue += target.glob("*.md") if target.is_dir() else [target] * (target.suffix == ".md")
    assert set(PAGES) <= reached


def rows(page: Path, header: str) -> list[list[str]]:
    """Return the rows of the tables of a page whose first column is `header`."""
    result: list[list[str]] = []
    inside = False
    for line in page.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line[:1] == "|" else []
        if cells and inside and not cells[0].startswith("--"):
            result.append(cells)
        inside = bool(cells) and (inside or cells[0] == header)
    return result


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "performance.md"])
def test_headline_figures_are_those_of_the_results(page: Path) -> None:
    gpu = {row[0]: row[1:] for row in rows(RESULTS / "gpu.md", "case")}
    interpreter = rows(RESULTS / "interpreter.md", "case")
    headlines = rows(page, "case")
    assert len(headlines) > 5
    for case, *cells in headlines:
        if case in gpu:
            unit, *figures = gpu[case]
            rates = [f"{float(figure):.0f}" for figure in figures[:3]]
            assert cells == [unit, *rates, *figures[3:5]][: len(cells)], case
        else:
            assert [case, *cells] in [row[: len(cells) + 1] for row in interpreter]


def update() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_results", RESULTS / "update.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMANDS = [
    pytest.param(command, id=command)
    for page in sorted(RESULTS.glob("*.md"))
    for command in update().commands(page.read_text("utf-8"))
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_results_exist(command: str) -> None:
    """The script is there and has the options; most take hours or a GPU to run."""
    program, *arguments = shlex.split(command)
    assert program == "python"
    if arguments[0] == "-m":
        arguments[:2] = [arguments[1].replace(".", "/") + ".py"]
    script = (ROOT / arguments[0]).read_text("utf-8")
    for argument in arguments[1:]:
        assert not argument.startswith("--") or f'add_argument("{argument}"' in script


def test_results_are_updated_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    module = update()
    output = "a machine\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\nby hand\n\n| c |\n| --- |\n"
    monkeypatch.setattr(module, "run", lambda command: output)
    block = "<!-- begin: python x.py -->\n_{}_\n\n{}\n<!-- end -->\n"
    old = block.format("1999-01-01: abacus", "| a | b |\n| --- | --- |\n| 0 | 0 |")
    page = f"# Title\n\n{old}\nProse.\n\n{old}"
    tables = "| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| c |\n| --- |"
    machine = f"H200, {os.cpu_count()} cores, Python {platform.python_version()}"
    new = block.format(f"{module.datetime.date.today()}: {machine}", tables)
    assert module.commands(page) == ["python x.py"] * 2
    assert module.updated(page, [], "H200") == f"# Title\n\n{new}\nProse.\n\n{new}"
    assert module.updated(page, [1], "H200") == f"# Title\n\n{old}\nProse.\n\n{new}"
    there = block.format(f"{module.datetime.date.today()}: H200", "| a |\n| --- |")
    elsewhere = module.updated(page, [0], "H200", "a machine\n\n| a |\n| --- |\n")
    assert elsewhere == f"# Title\n\n{there}\nProse.\n\n{old}"


def test_headlines_follow_the_results() -> None:
    results = (
        "| add | GB/s | 4.4 | 5.6 | 6.0 | 0.79 | 0.73 | 0.7 to 0.8 |\n| copy | GB/s |  |  | 7 |\n"
    )
    page = "Prose.\n\n| add | GB/s | 1 | 2 | 3 |\n| add | GB/s | 1 | 2 | 3 | 0.5 | 0.3 |\n{}"
    other = "| add | 1 |\n| copy | GB/s | 1 | 2 | 3 |\n| interpreter | s | 1 | 2 | 3 |\n"
    new = "Prose.\n\n| add | GB/s | 4 | 6 | 6 |\n| add | GB/s | 4 | 6 | 6 | 0.79 | 0.73 |\n"
    assert update().with_headlines(page.format(other), results) == new + other


@pytest.mark.parametrize(("page", "most"), [("architecture", 150), ("performance", 100)])
def test_overviews_stay_short(page: str, most: int) -> None:
    """Details go to `docs/notes`, figures to `docs/results`."""
    assert len((DOCS / f"{page}.md").read_text("utf-8").splitlines()) <= most


SOURCES = ("tile", "tests", "benchmarks", "docs", "examples", ".ci")
NAMED = re.compile(r"`([\w./{},-]+(?:\.py|/))`")
DESIGN = [
    ROOT / "CONTRIBUTING.md",
    DOCS / "architecture.md",
    *RESULTS.glob("*.md"),
    *(DOCS / "notes").glob("*.md"),
]


def expanded(name: str) -> list[str]:
    """Return the paths that a name with braces means, as in a shell."""
    match = re.search(r"\{([^{}]*)\}", name)
    if match is None:
        return [name]
    ends = (name[: match.start()], name[match.end() :])
    return [path for part in match[1].split(",") for path in expanded(part.join(ends))]


@pytest.mark.parametrize("page", DESIGN, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_files_exist(page: Path) -> None:
    """A file is named by its path or the end of it, such as `simt/target.py`."""
    folders = [ROOT / folder for folder in SOURCES]
    paths = [*folders, *(path for folder in folders for path in folder.rglob("*"))]
    ends = {f"/{path.relative_to(ROOT).as_posix()}{'/' * path.is_dir()}" for path in paths}
    names = [path for name in NAMED.findall(page.read_text("utf-8")) for path in expanded(name)]
    assert [name for name in names if not any(end.endswith(f"/{name}") for end in ends)] == []
