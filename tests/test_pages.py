"""The pages name what exists: every path, identifier and expression in backticks."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tracejit as tj
from tracejit.compiler import passes
from tracejit.ir.schedule import parse_schedule
from tracejit.support.config import config
from tracejit.support.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tracejit"
OTHERS = ["from_jax", "from_numba"]  # tables there begin with what others have
PAGES = [
    ROOT / "docs" / f"{name}.md"
    for name in ("architecture", "style", "guide", "limits", "scipy", "troubleshooting", "numerics", *OTHERS)
]
OF_OTHERS = {
    "limits": {"Polynomial", "__subclasses__", "cache_clear", "cache_info", "on_setattr", "predict", "spmd_axis_name"},
    "troubleshooting": {"basicConfig"},
}
"""Names of other packages, by the page that says what becomes of them."""
FOLDERS = [ROOT / name for name in ("tracejit", "tests", "benchmarks", "docs", "examples")]
FILES = [*FOLDERS, *(p for folder in FOLDERS for p in folder.rglob("*"))]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FIRST_CELL = re.compile(r"^\|[^|\n]*", re.MULTILINE)


def identifiers(tree: ast.AST) -> Iterator[str]:
    """What a module defines, reads or calls by name, words in its strings included."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name) | ast.arg(arg=name):
                yield name
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                yield name
            case ast.Constant(value=str(text)) if len(text) < 40:
                yield from re.findall(r"\w+", text)


def members(tree: ast.AST) -> dict[str, set[str]]:
    """What each class defines or sets of itself."""
    return {c.name: set(identifiers(c)) for c in ast.walk(tree) if isinstance(c, ast.ClassDef)}


PYTHON = {p: p.read_text() for p in FILES if p.suffix == ".py"}
SOURCE = "\n".join(text for p, text in PYTHON.items() if PACKAGE in p.parents)
TREES = {p: ast.parse(text) for p, text in PYTHON.items() if PACKAGE in p.parents}
NAMES = {p: {*identifiers(tree)} for p, tree in TREES.items()}
KNOWN = {p.stem for p in PYTHON} | {p.name for p in FILES if p.is_dir()} | {name for s in NAMES.values() for name in s}
TESTS = {name for text in PYTHON.values() for name in re.findall(r"^ *def (test_\w+)", text, re.MULTILINE)}
CLASSES: dict[str, set[str]] = {}
for tree in TREES.values():
    for cls, has in members(tree).items():
        CLASSES.setdefault(cls, set()).update(has)
MODULES = {p.stem: names for p, names in NAMES.items()}


def exists(name: str) -> bool:
    """Whether there is such a file or folder, in full or as the end of a path."""
    wanted = name.rstrip("/")
    return any(f"/{p.relative_to(ROOT)}".endswith(f"/{wanted}") and p.is_dir() == name.endswith("/") for p in FILES)


def unknown_names(tree: ast.AST, local: set[str]) -> Iterator[str]:
    """The names in an expression that neither the package, NumPy nor Python has."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in CLASSES or owner in MODULES:
                if name not in CLASSES.get(owner, ()) and name not in MODULES.get(owner, ()):
                    yield f"{owner}.{name}"
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                if name not in KNOWN | local and not hasattr(builtins, name) and not hasattr(np, name):
                    yield name
            case _:
                pass


def fault(span: str, local: set[str]) -> str:
    """What of a span in backticks does not exist; empty if all does."""
    if span.startswith("test_"):
        return "" if span in TESTS else "there is no such test"
    if variable := re.match(r"TRACEJIT_(\w+)", span):
        return "" if variable[1] in KNOWN else f"there is no switch {variable[1]}"
    if re.fullmatch(r"[\w./]+(/|\.(py|md|ll))", span):
        return "" if exists(span) else "there is no such file"
    if module := re.match(r"python -m ([\w.]+)", span):
        return "" if exists(f"{module[1].replace('.', '/')}.py") or exists(f"{module[1].replace('.', '/')}/") else "?"
    quoted = f"`{span}`" if span.isidentifier() else span
    if quoted in SOURCE and re.search(rf"(?<!\w){re.escape(quoted)}(?!\w)", SOURCE):
        return ""  # an example that the source gives too
    try:
        tree = ast.parse(span)
    except SyntaxError:
        return schedule_fault(span)
    return ", ".join(dict.fromkeys(unknown_names(tree, local)))


def schedule_fault(span: str) -> str:
    """What is wrong with a schedule; text that is none (of a shell, of an IR) is not looked into."""
    if ";" not in span:
        return ""
    try:
        parse_schedule(span)
    except UserError as error:
        return str(error)
    return ""


def spans(page: Path) -> tuple[list[tuple[int, str]], set[str]]:
    """(line, text) of what stands in backticks, and the names that the page's own programs and other packages have."""
    text = page.read_text()
    prose = FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
    if page.stem in OTHERS:
        prose = FIRST_CELL.sub("|", prose)
    found = [(prose.count("\n", 0, m.start()) + 1, m[1]) for m in re.finditer(r"`([^`\n]+)`", prose)]
    blocks = re.findall(r"^```py(?:thon)?\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return found, {name for block in blocks for name in identifiers(ast.parse(block))} | OF_OTHERS.get(page.stem, set())


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_what_a_page_names_exists(page: Path):
    found, local = spans(page)
    assert len(found) > 5
    wrong = [f"{page.name}:{line} `{span}`: {why}" for line, span in found if (why := fault(span, local))]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("span", "why"),
    [
        ("EMIT", "EMIT"),
        ("ir/passes/unfuse.py", "there is no such file"),
        ("backends/nowhere/", "there is no such file"),
        ("Changes.vanish", "Changes.vanish"),
        ("nest.unprintable", "nest.unprintable"),
        ("tj.jit(f, speed=3)", "speed"),
        ("test_that_nobody_wrote", "there is no such test"),
        ("TRACEJIT_MAGIC=1", "there is no switch MAGIC"),
        ("victor L0 4; unroll L1", "not a schedule directive: 'victor L0 4'"),
        ("WRITERS", ""),
        ("Changes.leave", ""),
        ("codegen/program.py", ""),
        ("vector L2 8 4; parallel L0 16", ""),
    ],
)
def test_the_check_sees_what_does_not_exist(span: str, why: str):
    assert why in fault(span, {"f"})
    assert bool(fault(span, {"f"})) == bool(why)


def test_the_files_and_kernels_of_the_example_are_those_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What the page says of `softmax` is what dumping its own example shows."""
    page = PAGES[0].read_text()
    (example,) = re.findall(r"^```python\n(import numpy.*?)^```", page, re.MULTILINE | re.DOTALL)
    monkeypatch.setattr(config, "dump", str(tmp_path))
    monkeypatch.setattr(passes, "_functions", passes.Counter())
    path = tmp_path / "example.py"
    path.write_text(example)
    exec(compile(example, str(path), "exec"), names := {"__name__": "example"})  # its function has its source
    shown = re.findall(r"`(softmax\.\d+/[^`]+)`", page)
    assert shown
    assert [name for name in shown if not (tmp_path / name).exists()] == []
    softmax = names["softmax"]
    assert isinstance(softmax, tj.api.jit.JitFunction)
    text = softmax.lower(names["x"]).text("scheduled")
    assert text.count("exp ") == 2  # computed in both loops
    assert "alloc" not in text
