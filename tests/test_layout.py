"""The map of the system: numbered layers, imports that only go down, folders that exist, and a document that agrees."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "tracejit"

LAYERS = {
    "support": 0,
    "ir": 1,
    "tracer": 2,
    "primitives": 3,
    "backends": 4,
    "autotune": 5,
    "compiler": 6,
    "api": 7,
    **dict.fromkeys(["numpy", "lax", "random", "tree_util", "debug", "testing", "cli"], 8),
    **dict.fromkeys(["nn", "scipy", "tree", "flatten_util", "ops", "image", "errors", "debug", "experimental"], 9),
}
FILES = sorted(PACKAGE.rglob("*.py"))
FIXED_FOLDERS = [
    "tracejit/tracer",
    "tracejit/primitives",
    "tracejit/ir",
    "tracejit/backends",
    "tracejit/autotune",
    "tests",
    "examples",
]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in FILES}


def folder_of(module: str) -> str:
    """The layer folder of `tracejit.ir.passes.fuse` is `ir`; of `tracejit` itself, the empty string."""
    return (module.split(".") + [""])[1]


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(module, line) of everything `tree` imports, `import_module("tracejit...")` with a constant name included."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                whole = [f"{module}.{alias.name}" for alias in names]
                yield from ((name if name in MODULES else module, node.lineno) for name in whole)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module, node.lineno


def inner_imports(path: Path, tree: ast.AST) -> Iterator[tuple[str, int]]:
    return ((name, line) for name, line in imported(tree) if name.split(".")[0] == "tracejit")


def upward_imports(module: str, tree: ast.AST, path: Path) -> list[str]:
    own = folder_of(module)
    level = LAYERS[own]
    found: list[str] = []
    for name, line in inner_imports(path, tree):
        folder = folder_of(name)
        if folder != own and LAYERS.get(folder, 9) >= level:
            found.append(
                f"{path.relative_to(ROOT)}:{line} layer {level} ({own}) imports {name}, layer {LAYERS.get(folder, 9)}"
            )
    return found


def test_every_module_lies_in_a_numbered_layer():
    strays = [m for m in MODULES if m != "tracejit" and folder_of(m) not in LAYERS]
    assert not strays


def test_no_module_imports_upward_or_sideways():
    found: list[str] = []
    for path in FILES:
        module = module_name(path)
        if module != "tracejit":
            found += upward_imports(module, ast.parse(path.read_text()), path)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "from tracejit.api import jit",
        "def f():\n    import tracejit.compiler.lower",
        "import_module('tracejit.lax')",
        "import tracejit",
    ],
)
def test_the_layer_check_sees_an_upward_import(source: str):
    assert upward_imports("tracejit.ir.kernel", ast.parse(source), PACKAGE / "ir" / "kernel.py")


class _WithoutTypes(ast.NodeTransformer):
    """Leaves out what is imported under TYPE_CHECKING."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" else self.generic_visit(node)


FOR_SPEED = "  # for speed of import"
"""How the comment begins that excuses an import inside a function, and gives the only reason there is for one."""


def imports_of(path: Path, text: str) -> set[str]:
    """Imports of a module and of the functions in it; of the latter not those that are there for speed."""
    tree, lines = _WithoutTypes().visit(ast.parse(text)), text.splitlines()
    top = {node.lineno for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)}
    return {name for name, line in inner_imports(path, tree) if line in top or FOR_SPEED not in lines[line - 1]}


def import_graph() -> dict[str, set[str]]:
    return {module_name(path): (imports_of(path, path.read_text()) & MODULES) - {module_name(path)} for path in FILES}


def first_cycle(graph: dict[str, set[str]]) -> list[str]:
    """One import cycle as a list of names, or nothing."""
    done: set[str] = set()
    for root in graph:
        path: list[str] = []
        stack: list[tuple[str, bool]] = [(root, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                path.pop()
                done.add(name)
            elif name in path:
                return path[path.index(name) :] + [name]
            elif name not in done:
                path.append(name)
                stack.append((name, True))
                stack += [(target, False) for target in sorted(graph[name])]
    return []


def test_modules_do_not_import_each_other_in_a_circle():
    assert not first_cycle(import_graph())


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("from tracejit.ir import kernel", True),
        ("def f():\n    from tracejit.ir import kernel", True),
        ("def f():\n    from tracejit.ir import kernel  # noqa", True),
        ("def f():\n    from tracejit.ir import kernel  # which imports this module", True),
        ("def f():\n    from tracejit.ir import kernel  # for speed of import: rarely needed", False),
        ("from tracejit.ir import kernel  # for speed of import", True),
        ("if TYPE_CHECKING:\n    from tracejit.ir import kernel", False),
    ],
)
def test_only_speed_excuses_an_import_inside_a_function(line: str, counts: bool):
    assert imports_of(PACKAGE / "ir" / "jaxpr.py", line) == ({"tracejit.ir.kernel"} if counts else set())


def test_the_cycle_check_sees_a_cycle():
    assert first_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]
    assert not first_cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})


def probes(tree: ast.AST, names: set[str]) -> Iterator[int]:
    """Lines that ask an object for one of these attributes by its name."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="hasattr" | "getattr"), args=[_, ast.Constant(value=name), *_]) if (
                name in names
            ):
                yield node.lineno


def test_whether_an_object_is_traced_is_asked_in_one_way():
    """`has_aval` and `Owned` say what is meant; `has_aval` itself is the one probe."""
    found = {path: [*probes(ast.parse(path.read_text()), {"aval", "interpreter", "_value", "_data"})] for path in FILES}
    assert [path.relative_to(PACKAGE).as_posix() for path, lines in found.items() if lines] == ["support/typing.py"]


def test_the_search_for_probes_sees_them():
    tree = ast.parse('hasattr(x, "aval")\ngetattr(x, "aval", None)\ngetattr(x, "shape")\nx.aval')
    assert [*probes(tree, {"aval"})] == [1, 2]


@pytest.mark.parametrize("folder", FIXED_FOLDERS)
def test_fixed_folders_hold_real_code(folder: str):
    definitions = 0
    for path in (ROOT / folder).rglob("*.py"):
        tree = ast.parse(path.read_text())
        definitions += sum(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.walk(tree))
    assert definitions >= 5, f"{folder} holds {definitions} functions and classes"


def test_the_project_file_names_the_package():
    assert 'name = "tracejit"' in (ROOT / "pyproject.toml").read_text()


# docs/architecture.md shows the layout in the first fenced block that starts with "tracejit/".  A folder begins a line:
# the layer number or two spaces, the name with a slash, then its files, with a few words of what is in them; they go on
# in lines that are indented deeper.  `tracejit/` is the package itself.
LAYOUT = re.compile(r"^```\w*\n(tracejit/.*?)^```", re.MULTILINE | re.DOTALL)
FOLDER = re.compile(r"^(?:\d |  )?(?P<folder>[\w/]+)/\s")


def documented_layout(text: str) -> dict[str, list[str]]:
    """Folder -> the names of files that stand with it."""
    block = LAYOUT.search(text)
    assert block, "docs/architecture.md has no fenced block that starts with tracejit/"
    found: dict[str, list[str]] = {}
    for line in block[1].splitlines():
        head = FOLDER.match(line)
        folder = head["folder"] if head else [*found][-1]
        found.setdefault(folder, []).extend(re.findall(r"\b\w+\.py\b", line))
    return {folder.removeprefix("tracejit"): names for folder, names in found.items()}


def differences(documented: dict[str, list[str]], folders: dict[str, list[str]]) -> list[str]:
    """What is in the document and not in the package, or the other way round, or twice in the document."""
    wrong: list[str] = []
    for folder in sorted({*documented, *folders}):
        named, there = documented.get(folder, []), folders.get(folder, [])
        wrong += [f"{folder}/{name} is in the document and does not exist" for name in {*named} - {*there}]
        wrong += [f"{folder}/{name} exists and is not in the document" for name in {*there} - {*named}]
        wrong += [f"{folder}/{name} is in the document twice" for name in {*named} if named.count(name) > 1]
    return sorted(wrong)


def test_the_documented_layout_names_every_module_and_no_other():
    folders: dict[str, list[str]] = {}
    for path in FILES:
        if path.name != "__init__.py":
            parent = path.parent.relative_to(PACKAGE).as_posix().removeprefix(".")
            folders.setdefault(parent, []).append(path.name)
    wrong = differences(documented_layout((ROOT / "docs" / "architecture.md").read_text()), folders)
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_documented_layers_are_those_of_the_folders():
    block = LAYOUT.search((ROOT / "docs" / "architecture.md").read_text())
    assert block
    shown = {folder: int(layer) for layer, folder in re.findall(r"^(\d) (\w+)/", block[1], re.MULTILINE)}
    assert shown == {folder: layer for folder, layer in LAYERS.items() if (PACKAGE / folder / "__init__.py").exists()}


def test_the_check_of_the_layout_sees_both_directions():
    text = "```text\ntracejit/  a.py\n0 support/ b.py (words)  c.py\n           d.py, d.py\n  support/in/ e.py\n```\n"
    documented = documented_layout(text)
    assert documented == {"": ["a.py"], "support": ["b.py", "c.py", "d.py", "d.py"], "support/in": ["e.py"]}
    found = differences(documented, {"": ["a.py"], "support": ["b.py", "d.py", "f.py"], "support/in": ["e.py"]})
    assert found == [
        "support/c.py is in the document and does not exist",
        "support/d.py is in the document twice",
        "support/f.py exists and is not in the document",
    ]


def test_no_file_is_named_for_nothing():
    assert not [path for path in PACKAGE.rglob("*") if path.stem in {"utils", "util", "helpers", "misc", "common"}]


def test_no_weak_collection_of_the_standard_library_loses_a_ctrl_c():
    """Theirs forget dead keys in a callback of the collector, where an exception is printed and lost."""
    found = [
        f"{path.relative_to(ROOT)}:{n}"
        for path in FILES
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(r"Weak(KeyDictionary|ValueDictionary|Set)\(\)", line)
    ]
    assert not found, f"use tracejit.support.weak: {found}"
