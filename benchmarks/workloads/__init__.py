"""Every workload by name, in the order of the table."""

from benchmarks.workload import Workload
from benchmarks.workloads import (
    calls,
    elementwise,
    indexing,
    learning,
    loops,
    pairs,
    products,
    random_numbers,
    rows,
    stencils,
)

ALL: dict[str, Workload] = {
    workload.name: workload
    for module in (calls, elementwise, rows, stencils, loops, pairs, products, learning, indexing, random_numbers)
    for workload in module.WORKLOADS
}
