"""Layer 3: the primitives, one family a file, all rules of a primitive in its class.

`python -m tracejit.primitives` prints which primitive has which rule.
"""

# imported to be registered
from tracejit.primitives import (
    arithmetic as arithmetic,
    bits as bits,
    branch as branch,
    butterflies as butterflies,
    comparison as comparison,
    complex_numbers as complex_numbers,
    contraction as contraction,
    convolution as convolution,
    counted_loop as counted_loop,
    creation as creation,
    cumulative as cumulative,
    custom as custom,
    eigen as eigen,
    elementwise as elementwise,
    float_parts as float_parts,
    fourier as fourier,
    hessenberg as hessenberg,
    hypergeometric as hypergeometric,
    implicit as implicit,
    indexing as indexing,
    integers as integers,
    integrals as integrals,
    lu as lu,
    matrix_exponential as matrix_exponential,
    matrix_root as matrix_root,
    named_axes as named_axes,
    native as native,
    qr as qr,
    radix as radix,
    random as random,
    reduction as reduction,
    schur as schur,
    segments as segments,
    shape as shape,
    slicing as slicing,
    sorting as sorting,
    special as special,
    spectral as spectral,
    sylvester as sylvester,
    transcendental as transcendental,
    triangular as triangular,
    tridiagonal as tridiagonal,
    while_loop as while_loop,
    windows as windows,
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
        product_by_segments=segments.product_by_segments,
    ),
)
