"""What lower layers ask of higher ones: declared in one place, provided in one place."""

import ast
from pathlib import Path
from typing import Any

import pytest

import tracejit.numpy
import tracejit.primitives
from tracejit.support.errors import InternalError
from tracejit.support.nodes import fields_of
from tracejit.tracer.operators import ARITHMETIC, OPERATORS, PRIMITIVES, provide
from tracejit.tracer.python_operators import BINARY, COMPARISONS, UNARY


@pytest.mark.parametrize("layer", [PRIMITIVES, OPERATORS], ids=lambda layer: type(layer).__name__)
def test_a_layer_provides_all_its_functions_and_that_once(layer: Any):
    assert all(callable(getattr(layer, field.name)) for field in fields_of(type(layer)))
    with pytest.raises(InternalError, match="provided twice"):
        provide(layer, layer)


def test_every_operator_of_python_has_a_function():
    assert set(ARITHMETIC) == {*BINARY, *COMPARISONS, *UNARY, "divmod"}


def test_primitives_ask_nothing_of_numpys_names():
    folder = Path(tracejit.primitives.__file__).parent
    asked = {
        (path.name, alias.name)
        for path in folder.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == "tracejit.tracer.operators"
        for alias in node.names
    }
    assert not {names for names in asked if names[1] in ("OPERATORS", "ARITHMETIC")}
