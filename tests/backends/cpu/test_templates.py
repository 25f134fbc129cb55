"""The LLVM IR that is written by hand: it stands in files of its own, and every one is whole with the values that the
package fills in, is used, read late and shipped.
"""

import ast
import re
import subprocess
import sys
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest
from llvmlite import binding

import tracejit
from tracejit.backends.cpu.calls.dispatch_chain import chain_text
from tracejit.backends.cpu.calls.entry_support import support_text
from tracejit.backends.cpu.codegen.emit import FunctionEmitter, Module
from tracejit.backends.cpu.codegen.memory import guarded
from tracejit.backends.cpu.runtime import half, memory, os_functions, pool, templates
from tracejit.backends.cpu.runtime.templates import Template
from tracejit.backends.cpython import Layout
from tracejit.support.config import config
from tracejit.support.errors import InternalError

PACKAGE = Path(tracejit.__file__).parent
ROOT = PACKAGE.parent
FILES = sorted(PACKAGE.rglob("*.ll"))

SYSTEMS = [("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64"), ("win32", "amd64"), ("freebsd14", "x86_64")]
LAYOUTS = {
    "3.11": Layout(),
    "3.12": Layout(long_tag=True, wide_refcount=False),
    "3.14": Layout(long_tag=True, wide_refcount=False, tuple_items=32),
}


class Handed(BaseException):
    """What a module was about to load, and nothing is loaded."""


def handed(monkeypatch, module, load):
    def take(text, **_):
        raise Handed(text)

    monkeypatch.setattr(module, "load_cached", take)
    with pytest.raises(Handed) as caught:
        load()
    return caught.value.args[0]


def verify(text, *functions):
    """That LLVM takes the text, with definitions of these functions."""
    assert "$" not in text
    module = binding.parse_assembly(text, binding.create_context())
    module.verify()
    assert set(functions) <= {f.name for f in module.functions if not f.is_declaration}


@pytest.mark.parametrize("system", SYSTEMS, ids="-".join)
def test_the_pool_is_whole_on_every_system(monkeypatch, system):
    monkeypatch.setattr(pool, "native_text", lambda: os_functions.native_text(*system))
    text = handed(monkeypatch, pool, pool._Native)
    verify(
        text,
        "tj_parallel_for",
        "tj_parallel_for_interruptible",
        "tj_check_interrupt",
        "tj_poll",
        "resize",
        "reset",
        "pause_many",
    )


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("system", SYSTEMS, ids="-".join)
def test_memory_is_whole_on_every_system(monkeypatch, system, known):
    monkeypatch.setattr(memory, "native_text", lambda: os_functions.native_text(*system))
    monkeypatch.setattr(memory, "_layout_is_known", lambda head: known)
    text = handed(monkeypatch, memory, memory._Native)
    verify(text, "tj_alloc", "tj_free", "tj_new_array", "trim", "forget")
    assert f"br i1 {str(known).lower()}, label %next, label %plain" in text


def test_conversions_of_f16_are_whole(monkeypatch):
    verify(handed(monkeypatch, half, half.ensure_loaded), "__truncsfhf2", "__truncdfhf2", "__extendhfsf2")


@pytest.mark.parametrize("version", LAYOUTS)
def test_calls_are_whole_in_every_python(version):
    at = LAYOUTS[version]
    verify(support_text(at), "tj_watched", "tj_match_arrays", "tj_int_value", "tj_static_equal")
    verify(support_text(at) + chain_text(at), "tj_dispatch", "tj_vectorcall", "tj_append", "tj_remove", "tj_clear")


@pytest.mark.parametrize("poison", [True, False])
def test_guards_are_whole(monkeypatch, poison):
    monkeypatch.setattr(config, "poison", poison)
    e = FunctionEmitter(Module({}), "f")
    assert (guarded(e, "%p", "8") != "%p") == poison
    text = e.module.text()
    verify(text, *(["set_guards", "check_guards"] if poison else []))


def templates_of(tree):
    """The names in calls of Template."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id="Template"), args=[ast.Constant(value=str(name))]):
                yield name


def test_every_file_has_one_module_beside_it_and_every_module_its_files():
    named = [(name, path) for path in PACKAGE.rglob("*.py") for name in templates_of(ast.parse(path.read_text()))]
    cpu = PACKAGE / "backends" / "cpu"
    assert sorted(cpu / f"{name}.ll" for name, _ in named) == FILES
    assert not [(name, path) for name, path in named if (cpu / name).parent != path.parent]


_INSTRUCTION = re.compile(
    r"^ *(define|declare|call|store|ret|br|unreachable|switch)\b|^ *%[\w.]+ = \w|^ *@[\w.]+ = .*(global|constant)\b",
    re.MULTILINE,
)


def listings(tree):
    """Lines of the string literals, other than docstrings, that hold more than one instruction of LLVM IR."""
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in documents:
                pass
            case ast.JoinedStr(values=parts):
                text = "".join(str(p.value) if isinstance(p, ast.Constant) else "0" for p in parts)
            case _:
                continue
        if len(_INSTRUCTION.findall(text)) > 1:
            yield node.lineno


def test_python_holds_no_listings():
    found = [f"{path}:{line}" for path in PACKAGE.rglob("*.py") for line in listings(ast.parse(path.read_text()))]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ('"""define void @f()"""\nx = """\ndefine void @f() {\n  ret void\n}\n"""', [2]),
        ('x = f"""\n  %a = add i64 {n}, 0\n  %b = add i64 %a, {n}"""', [1]),
        ('x = f"define {signature} {{"\ny = "  ret void"', []),
        ('def f():\n    """\n    declare void @f()\n    declare void @g()\n    """', []),
    ],
)
def test_the_search_for_listings_sees_them(source, lines):
    assert list(listings(ast.parse(source))) == lines


@pytest.fixture
def template(tmp_path, monkeypatch):
    monkeypatch.setattr(templates, "_FOLDER", tmp_path)
    (tmp_path / "some.ll").write_text("@a = global ${type} ${value}\n@b = global ${type} 0\n")
    return Template("some")


def test_holes_are_filled_wherever_they_are(template):
    assert template.text(type="i64", value=7) == "@a = global i64 7\n@b = global i64 0\n"


def test_a_record_may_hold_more_than_the_file_needs(template):
    assert template.text({"type": "i8", "other": 1}, value=7) == "@a = global i8 7\n@b = global i8 0\n"


def test_a_hole_without_a_value_is_an_error(template):
    with pytest.raises(InternalError, match=r"some\.ll has holes without a value: type, value"):
        template.text()
    with pytest.raises(InternalError, match=r"some\.ll has holes without a value: value\n"):
        template.text({"type": "i64"})


def test_a_value_without_a_hole_is_an_error(template):
    with pytest.raises(InternalError, match=r"some\.ll has no holes for these values: length, width"):
        template.text(type="i64", value=7, width=1, length=2)


def test_no_file_is_read_before_it_is_needed():
    script = """
        import importlib, sys
        read = []
        sys.addaudithook(lambda event, args: event == "open" and str(args[0]).endswith(".ll") and read.append(args[0]))
        import tracejit
        for name in ("runtime.half", "runtime.memory", "runtime.pool", "calls.dispatch"):
            importlib.import_module(f"tracejit.backends.cpu.{name}")
        assert not read, read
        importlib.import_module("tracejit.backends.cpu.runtime.templates").Template("runtime/half").text()
        assert len(read) == 1, read
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True, cwd=ROOT)


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_distributions_hold_every_file(tmp_path, kind):
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", tmp_path],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    (made,) = tmp_path.iterdir()
    if kind == "wheel":
        names = set(zipfile.ZipFile(made).namelist())
    else:
        with tarfile.open(made) as archive:
            names = {name.partition("/")[2] for name in archive.getnames()}
    assert FILES
    assert {path.relative_to(ROOT).as_posix() for path in FILES} <= names
