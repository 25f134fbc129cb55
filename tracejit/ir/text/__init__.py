"""The text of every IR: what is printed parses back to the same text."""

from tracejit.ir.printed import PRINTERS
from tracejit.ir.text.forms import print_form
from tracejit.ir.text.jaxpr import parse_jaxpr, print_jaxpr
from tracejit.ir.text.kernel import print_kernel, show_statement
from tracejit.ir.text.kernel_parser import parse_kernel
from tracejit.ir.text.program import print_program
from tracejit.ir.text.tokens import ParseError, parse_extent
from tracejit.ir.text.values import print_parameters, print_value

__all__ = [
    "ParseError", "parse_extent", "parse_jaxpr", "parse_kernel", "print_form", "print_jaxpr", "print_kernel",
    "print_parameters", "print_value", "show_statement",
]  # fmt: skip

PRINTERS.update(jaxpr=print_jaxpr, kernel=print_kernel, parameters=print_parameters, program=print_program)
