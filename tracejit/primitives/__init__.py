"""Layer 3: the primitives, one family a file, all rules of a primitive in its class.

`python -m tracejit.primitives` prints which primitive has which rule.
"""

# imported to be registered
from tracejit.primitives import (
    arithmetic as arithmetic,
    branch as branch,
    comparison as comparison,
    contraction as contraction,
    counted_loop as counted_loop,
    creation as creation,
    cumulative as cumulative,
    custom as custom,
    elementwise as elementwise,
    hypergeometric as hypergeometric,
    indexing as indexing,
    integrals as integrals,
    lu as lu,
    qr as qr,
    reduction as reduction,
    shape as shape,
    slicing as slicing,
    sorting as sorting,
    special as special,
    spectral as spectral,
    transcendental as transcendental,
    triangular as triangular,
    while_loop as while_loop,
)
from tracejit.tracer.operators import PRIMITIVES, Primitives, provide

provide(
    PRIMITIVES,
    Primitives(
        add=elementwise.add,
        sub=elementwise.sub,
        select=elementwise.select,
        full=creation.full,
        reduce_sum=reduction.reduce_sum,
        broadcast_in_dim=shape.broadcast_in_dim,
        transpose=shape.transpose,
        update_slice=slicing.update_slice,
        cumulative=cumulative.cumulative,
    ),
)
