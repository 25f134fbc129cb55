"""Every workload by name, in the order of the table."""

from benchmarks.workload import Workload
from benchmarks.workloads import calls, elementwise, indexing, learning, loops, pairs, products, rows, stencils

ALL: dict[str, Workload] = {
    workload.name: workload
    for module in (calls, elementwise, rows, stencils, loops, pairs, products, learning, indexing)
    for workload in module.WORKLOADS
}
