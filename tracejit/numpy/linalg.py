"""`np.linalg` by name: what `tracejit.numpy.linalg` offers."""

from tracejit.numpy.decompositions import (
    cholesky,
    det,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    inv,
    lstsq,
    matrix_rank,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svdvals,
    tensorinv,
    tensorsolve,
)
from tracejit.numpy.linear import matmul, tensordot, vecdot
from tracejit.numpy.norms import (
    cond,
    cross,
    diagonal,
    matrix_norm,
    matrix_power,
    multi_dot,
    norm,
    outer,
    trace,
    vector_norm,
)
from tracejit.numpy.shaping import matrix_transpose

__all__ = [
    "cholesky", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matmul",
    "matrix_norm", "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr",
    "slogdet", "solve", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace", "vecdot", "vector_norm",
]  # fmt: skip
