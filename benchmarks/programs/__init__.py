"""Programs as their authors write them: textbook loops over NumPy arrays, each compared with plain Python by the tests
and, at its size, with Numba by `python -m benchmarks.programs`.
"""

from benchmarks.programs import graphs, pictures, recurrences, solvers, steppers, tables
from benchmarks.programs.program import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "graphs", "pictures", "recurrences", "solvers", "steppers", "tables"]
