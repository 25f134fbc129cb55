"""Barriers that only some lanes of a group reach are refused by the verifier, and no others."""

import pytest

from tracejit.ir.check import check_kernel
from tracejit.ir.text import parse_kernel
from tracejit.support.errors import VerifyError

KERNEL = """
kernel f(x: f32[64] C, n: i64[2] C, out: f32[64] C out) {{
  for %g in 0..4 grid {{
    alloc s: f32[16] C shared
    {body}
  }}
}}
"""

UNIFORM = [
    "for %l in 0..16 block { %a = load x[%l]; store s[%l] = %a }; barrier"
    "; for %l in 0..8 block { store out[%l] = 1.0:f32 }",
    "for %l in 0..16 block { %a = load x[%l]; store s[%l] = %a; barrier; %b = load s[0]; store out[%l] = %b }",
    "%c = lt %g 2; if %c { barrier }",
    "%m = load n[%g]; for %i in 0..%m { barrier }",
    # what is carried varies, how often it runs does not
    "for %l in 0..16 block { %a = load x[%l]; %t = for %i in 0..9 carry(%c = %a) { barrier; %d = add %c %a; yield %d }"
    "; store out[%l] = %t }",
    "for %l in 0..16 block { for %i in 0..9 { %j = add %i 1; for %k in %i..%j { barrier } } }",
]
DIVERGENT = [
    "for %l in 0..16 block { %c = lt %l 3; if %c { barrier } }",
    "for %l in 0..16 block { for %i in 0..%l { barrier } }",
    "for %l in 0..16 block { %m = load n[%l]; for %i in 0..%m { barrier } }",
    "for %l in 0..16 block { store out[%l] = 1.0:f32 }; for %l in 0..8 block { barrier }",
    "for %l in 0..16 block { %j = for %i in 0..9 carry(%c = 0) { %d = add %c %l; yield %d }"
    "; for %k in 0..%j { barrier } }",
    "for %l in 0..16 block { %r = while carry(%c = 0) { %t = lt %c %l; test %t }"
    " do { barrier; %d = add %c 1; yield %d } }",
    # known to vary only when the loop has been gone through once
    "for %l in 0..16 block { %r = for %i in 0..9 carry(%c = 0) { for %k in 0..%c { barrier }"
    "; %d = add %c %l; yield %d } }",
    "for %l in 0..16 block { alloc own: i64[1] C local; store own[0] = %l; %m = load own[0]"
    "; for %i in 0..%m { barrier } }",
]


@pytest.mark.parametrize("body", UNIFORM)
def test_barriers_that_all_lanes_reach_are_taken(body: str):
    check_kernel(parse_kernel(KERNEL.format(body=body)))


@pytest.mark.parametrize("body", DIVERGENT)
def test_barriers_that_some_lanes_miss_are_refused(body: str):
    with pytest.raises(VerifyError, match="not all lanes of a group reach the barrier"):
        check_kernel(parse_kernel(KERNEL.format(body=body)))
