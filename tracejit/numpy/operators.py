"""What NumPy's names provide for the layers below: Python's operators, and what the tracer asks of arrays."""

import numpy as np

from tracejit.ir.extents import NUMBERS
from tracejit.numpy import ufuncs as u
from tracejit.numpy.assigning import assign, setitem
from tracejit.numpy.axes import number_of_extents
from tracejit.numpy.complex_parts import set_part
from tracejit.numpy.elementwise import floats
from tracejit.numpy.filling import set_flat
from tracejit.numpy.index_checks import first_failure
from tracejit.numpy.indexing import getitem, read_view
from tracejit.numpy.joining import stack
from tracejit.numpy.linear import matmul
from tracejit.numpy.number_checks import check_growth, check_none, check_number
from tracejit.numpy.powers import power_operator
from tracejit.numpy.promotion import aval, mask_of, to_dtype
from tracejit.numpy.rounding import round_decimals
from tracejit.numpy.strides import layout_of, like
from tracejit.primitives.complex_numbers import make_complex
from tracejit.primitives.creation import extent_value
from tracejit.tracer.catching import may_be_caught, refuse_if_caught
from tracejit.tracer.failures import MIXED
from tracejit.tracer.operators import ARITHMETIC, OPERATORS, NumPy, provide

ARITHMETIC.update({
    "add": u.add, "sub": u.subtract, "mul": u.multiply, "matmul": matmul, "truediv": u.divide,
    "floordiv": u.floor_divide, "mod": u.remainder, "divmod": u.divmod, "pow": power_operator, "and": u.bitwise_and,
    "or": u.bitwise_or, "xor": u.bitwise_xor, "lshift": u.left_shift, "rshift": u.right_shift, "eq": u.equal,
    "ne": u.not_equal, "lt": u.less, "le": u.less_equal, "gt": u.greater, "ge": u.greater_equal, "neg": u.negative,
    "pos": u.positive, "abs": u.absolute, "invert": u.invert,
})  # fmt: skip
NUMBERS.of = number_of_extents
provide(
    OPERATORS,
    NumPy(
        getitem=getitem,
        setitem=setitem,
        assign=assign,
        set_flat=set_flat,
        set_part=set_part,
        read_view=read_view,
        view_of=lambda array, index: index.of(array),
        layout=layout_of,
        layout_of_copy=lambda x: like(x, aval(x).shape, aval(x).dtype),
        mask_of=mask_of,
        stack=stack,
        extent=lambda n: extent_value(n, np.int64),
        number_of_extents=number_of_extents,
        to_dtype=to_dtype,
        floats=floats,
        round_decimals=round_decimals,
        make_complex=make_complex,
        check_number=check_number,
        check_growth=check_growth,
        check_none=check_none,
        may_be_caught=may_be_caught,
        refuse_if_caught=refuse_if_caught,
        check_mixed=lambda wrong: check_none(wrong, MIXED),
        first_failure=first_failure,
    ),
)
