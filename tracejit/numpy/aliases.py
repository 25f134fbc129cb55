"""Second names of functions: those of the Array API standard, and NumPy's own."""

from tracejit.numpy.powers import power as pow
from tracejit.numpy.ufuncs import (
    arccos as acos,
    arcsin as asin,
    arctan as atan,
    arctan2 as atan2,
    deg2rad as radians,
    invert as bitwise_not,
    rad2deg as degrees,
)

__all__ = ["acos", "asin", "atan", "atan2", "bitwise_not", "degrees", "pow", "radians"]
