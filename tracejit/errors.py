"""JAX's names of errors: which of ours they are.   All of ours are in `tracejit.support.errors`."""

from tracejit.support.errors import (
    BackendError as JaxRuntimeError,
    ConcretizationError as ConcretizationTypeError,
    IndexOutOfBounds as JAXIndexError,
    LeakedTracerError as UnexpectedTracerError,
    TracerError as JAXTypeError,
)

__all__ = [
    "ConcretizationTypeError", "JAXIndexError", "JAXTypeError", "JaxRuntimeError", "NonConcreteBooleanIndexError",
    "TracerArrayConversionError", "TracerBoolConversionError", "TracerIntegerConversionError", "UnexpectedTracerError",
]  # fmt: skip

# a value that Python asks of a traced array has one error here, whatever it is asked for
NonConcreteBooleanIndexError = ConcretizationTypeError
TracerArrayConversionError = ConcretizationTypeError
TracerBoolConversionError = ConcretizationTypeError
TracerIntegerConversionError = ConcretizationTypeError
