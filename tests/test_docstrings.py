"""Examples in docstrings are true, and every public function and class has one."""

import ast
import doctest
import importlib
import inspect
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracejit as tj

MODULES = [
    "tracejit",
    *(m.name for m in pkgutil.walk_packages(tj.__path__, "tracejit.") if not m.name.endswith("__main__")),
]
PACKAGE = Path(tj.__file__).parent
USERS = {"tracejit": tj, "tracejit.tree_util": tj.tree_util}
CONTROL_FLOW = ("cond", "fori_loop", "map", "scan", "switch", "while_loop")


def callables(module: Any) -> list[str]:
    found = (
        name
        for name in module.__all__
        if inspect.isroutine(getattr(module, name)) or inspect.isclass(getattr(module, name))
    )
    return sorted(found)


def undocumented(tree: ast.Module) -> list[str]:
    """Public functions and classes of a module without a docstring, whether or not they are in `__all__`."""
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not any(isinstance(d, ast.Name) and d.id == "overload" for d in node.decorator_list)
        and not ast.get_docstring(node)
    ]


def test_public_functions_and_classes_of_all_modules_are_documented():
    found = {path: undocumented(ast.parse(path.read_text())) for path in PACKAGE.rglob("*.py")}
    assert not [f"{path}: {name}" for path, names in found.items() for name in names]


def test_the_search_for_missing_docstrings_sees_them():
    source = 'def f(): 1\n@overload\ndef g(): ...\ndef g():\n    "g"\ndef _h(): 1\nclass C: pass\nclass D:\n    "d"'
    assert undocumented(ast.parse(source)) == ["f", "C"]


def examples_of(thing: Any) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name: str):
    module = importlib.import_module(name)
    failures: list[str] = []
    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder().find(module, extraglobs={"np": np, "tj": tj}):
        runner.run(test, out=failures.append)
    assert runner.failures == 0, "".join(failures)


@pytest.mark.parametrize(("module", "name"), [(m, n) for m in USERS for n in callables(USERS[m])])
def test_public_names_say_what_they_do_and_show_it(module: str, name: str):
    thing = getattr(USERS[module], name)
    first = (inspect.getdoc(thing) or "").partition("\n")[0]
    assert len(first.split()) >= 3, f"the first line of {module}.{name} says what it does"
    examples = examples_of(thing)
    assert examples, f"{module}.{name} has an example"
    assert any(e.want for e in examples), f"the example of {module}.{name} shows a result"


@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_control_flow_has_examples(name: str):
    assert any(e.want for e in examples_of(getattr(tj.lax, name)))


@pytest.mark.parametrize("name", ["lower", "compilations", "clear_cache", "explain"])
def test_what_a_compiled_function_offers_is_documented(name: str):
    assert inspect.getdoc(inspect.getattr_static(type(tj.jit(lambda x: x)), name))


def test_the_users_api_is_covered():
    """The names that this file looks at are those a user calls: `callables` does not lose any."""
    assert {"jit", "grad", "vmap", "jvp", "vjp", "tune", "Array", "range"} <= set(callables(tj))
    assert set(tj.__all__) - set(callables(tj)) == {
        "config", "debug", "errors", "experimental", "flatten_util", "float0", "image", "lax", "nn", "numpy",
        "ops", "random", "scipy", "tree", "tree_util",
}  # fmt: skip


def test_a_wrong_example_would_be_found():
    def wrong() -> None:
        """One plus one.

        >>> 1 + 1
        3
        """

    runner = doctest.DocTestRunner(verbose=False)
    for test in doctest.DocTestFinder().find(wrong, "wrong", globs={}):
        runner.run(test, out=lambda text: None)
    assert runner.failures == 1
