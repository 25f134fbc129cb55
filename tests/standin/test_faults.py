"""What kernels do wrong is found, with the thread and the place."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.standin import simt
from tests.standin.exact import Array
from tests.standin.harness import launch
from tests.standin.module import load
from tests.standin.ptx import PTXError


def run(
    body: str, arguments: Sequence[Array] = (), *, grid: int = 1, block: int = 64, shared: int = 0, races: bool = False
) -> None:
    """A kernel with arrays p0, p1 (in %d0, %d1), the thread in %r0 and its offset in words in %r1 and %d2."""
    parameters = ", ".join(f".param .u64 p{i}" for i in range(len(arguments)))
    loads = "\n".join(f"ld.param.u64 %d{i}, [p{i}];" for i in range(len(arguments)))
    text = f"""
.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k({parameters}) {{
.reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<9>; .reg .f32 %f<9>;
.shared .align 16 .b8 buffer[256];
.local .align 16 .b8 own[32];
mov.u32 %r0, %tid.x;
shl.b32 %r1, %r0, 2;
cvt.u64.u32 %d2, %r1;
{loads}
{body}
$end:
ret;
}}"""
    launch(load(text), "k", arguments, grid=grid, block=block, shared=shared, global_races=races)


def failure(body: str, arguments: Sequence[Array] = (), **options: int) -> PTXError:
    with pytest.raises(PTXError) as caught:
        run(body, arguments, **options)
    return caught.value


def test_an_access_behind_an_array_names_thread_and_address() -> None:
    x = np.zeros(100, "f4")
    error = failure("add.u64 %d0, %d0, %d2; ld.global.f32 %f0, [%d0];", [x], block=128)
    assert error.code == 700
    assert error.thread == (100, 0, 0)
    assert error.address == x.ctypes.data + 400
    assert "global access of 4 bytes out of bounds" in str(error)


def test_the_thread_is_the_right_one_among_those_whose_guard_is_true() -> None:
    x = np.zeros(50, "f4")
    guarded = "setp.ge.u32 %p0, %r0, 45; add.u64 %d0, %d0, %d2; @%p0 ld.global.f32 %f0, [%d0];"
    assert failure(guarded, [x]).thread == (50, 0, 0)
    odd = "and.b32 %r2, %r0, 1; setp.eq.u32 %p0, %r2, 1; add.u64 %d0, %d0, %d2; @%p0 st.global.f32 [%d0], %f0;"
    assert failure(odd, [x]).thread == (51, 0, 0)
    branch = "setp.lt.u32 %p0, %r0, 45; add.u64 %d0, %d0, %d2; @%p0 bra $end; ld.global.f32 %f0, [%d0];"
    assert failure(branch, [x]).thread == (50, 0, 0)


def test_an_access_before_an_array_is_found() -> None:
    x = np.zeros(100, "f4")
    assert failure("st.global.f32 [%d0 + -4], %f0;", [x]).address == x.ctypes.data - 4


def test_an_access_half_outside_is_found() -> None:
    x = np.zeros(9, "u1")
    assert "8 bytes out of bounds" in str(failure("ld.global.b64 %d3, [%d0 + 8];", [x]))


def test_threads_whose_guard_is_false_access_nothing() -> None:
    x = np.arange(40, dtype="f4")
    run(
        """add.u64 %d0, %d0, %d2; setp.lt.u32 %p0, %r0, 40;
           @%p0 ld.global.f32 %f0, [%d0]; @%p0 st.global.f32 [%d0], 0f00000000;""",
        [x],
    )
    assert not x.any()


def test_misaligned_accesses_are_found() -> None:
    x = np.zeros(100, "f4")
    error = failure("ld.global.f32 %f0, [%d0 + 2];", [x])
    assert error.code == 716
    assert "misaligned global access of 4 bytes" in str(error)
    error = failure("ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d0 + 4];", [np.zeros(100, "f8")])
    assert error.code == 716
    assert failure("ld.shared.f32 %f0, [buffer + 6];").code == 716


def test_shared_and_local_memory_have_ends() -> None:
    error = failure("mov.u32 %r2, buffer; add.u32 %r2, %r2, %r1; add.u32 %r2, %r2, 4; st.shared.u32 [%r2], %r0;")
    assert error.thread == (63, 0, 0)
    assert "shared access of 4 bytes out of bounds: 256 bytes are there" in str(error)
    run("st.shared.u32 [dynamic + 60], 7;", shared=64)
    assert "out of bounds" in str(failure("st.shared.u32 [dynamic + 64], 7;", shared=64))
    assert "local access of 4 bytes out of bounds" in str(failure("st.local.u32 [own + 32], %r0;"))


def test_generic_addresses_lead_where_they_say() -> None:
    out = np.zeros(64, "u4")
    run(
        """
        mov.u64 %d3, own; cvta.local.u64 %d3, %d3;
        mov.u64 %d4, buffer; cvta.shared.u64 %d4, %d4; add.u64 %d4, %d4, %d2;
        setp.lt.u32 %p0, %r0, 20; selp.b64 %d3, %d3, %d4, %p0;
        st.u32 [%d3], %r0; ld.u32 %r2, [%d3];
        isspacep.shared %p1, %d3; @%p1 add.u32 %r2, %r2, 1000;
        add.u64 %d0, %d0, %d2; st.u32 [%d0], %r2;
        """,
        [out],
    )
    assert (out == np.arange(64) + np.where(np.arange(64) < 20, 0, 1000)).all()
    assert failure("mov.u64 %d3, 16; st.u32 [%d3], %r0;", [out]).address == 16


def test_parameters_are_not_written_and_have_ends() -> None:
    with pytest.raises(PTXError, match="the parameter p0 has 8 bytes"):
        run("ld.param.u64 %d3, [p0 + 8];", [np.zeros(1)])


@pytest.mark.parametrize(
    "body",
    [
        "setp.lt.u32 %p0, %r0, 32; @%p0 bar.sync 0;",
        "setp.lt.u32 %p0, %r0, 10; @%p0 bra $end; bar.sync 0;",
        "setp.lt.u32 %p0, %r0, 32; @%p0 bra $other; bar.sync 0; bra $end; $other: bar.sync 0;",
    ],
    ids=["guarded", "behind an exit", "at two places"],
)
def test_divergent_barriers_are_found(body: str) -> None:
    error = failure(body)
    assert error.code == 719
    assert "divergent barrier" in str(error)


def test_a_barrier_in_a_loop_of_the_whole_block_is_passed() -> None:
    out = np.zeros(192, "u4")
    run(
        """
        mov.u32 %r2, 0; mov.u32 %r4, %ctaid.x;
        $loop: bar.sync 0; add.u32 %r2, %r2, 1;
        setp.le.u32 %p0, %r2, %r4; @%p0 bra $loop;
        mad.lo.u32 %r5, %r4, 64, %r0; mul.wide.u32 %d3, %r5, 4; add.u64 %d0, %d0, %d3; st.global.u32 [%d0], %r2;
        """,
        [out],
        grid=3,
    )
    assert (out == np.repeat([1, 2, 3], 64)).all()


_OWN = "mov.u32 %r2, buffer; add.u32 %r2, %r2, %r1; "  # the address of the thread's own word


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("st.shared.u32 [buffer], %r0;", True),
        ("st.shared.u32 [buffer], 5;", False),
        (_OWN + "st.shared.u32 [%r2], %r0; ld.shared.u32 %r3, [buffer];", True),
        (_OWN + "st.shared.u32 [%r2], %r0; bar.sync 0; ld.shared.u32 %r3, [buffer];", False),
        (_OWN + "ld.shared.u32 %r3, [buffer]; st.shared.u32 [%r2], %r0;", True),
        (_OWN + "ld.shared.u32 %r3, [%r2]; st.shared.u32 [%r2], %r0;", False),
        ("red.shared.add.u32 [buffer], 1;", False),
        ("red.shared.add.u32 [buffer], 1; ld.shared.u32 %r3, [buffer];", True),
        ("red.shared.add.u32 [buffer], 1; bar.sync 0; ld.shared.u32 %r3, [buffer];", False),
    ],
)
def test_races_on_shared_memory_are_found(body: str, found: bool) -> None:
    if found:
        error = failure(body)
        assert error.code == 719
        assert "race on shared memory" in str(error)
    else:
        run(body)


_PLACE = """mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r3, 64, %r0; mul.wide.u32 %d3, %r4, 4; add.u64 %d4, %d0, %d3;"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (_PLACE + "ld.global.u32 %r5, [%d4]; st.global.u32 [%d4], 1;", False),
        (_PLACE + "ld.global.u32 %r5, [%d4 + 4]; st.global.u32 [%d4], %r5;", True),
        (_PLACE + "ld.global.u32 %r5, [%d4 + 4]; bar.sync 0; st.global.u32 [%d4], %r5;", True),
        (_PLACE + "ld.global.u32 %r5, [%d0 + 700]; st.global.u32 [%d4], %r5;", True),
        (_PLACE + "ld.global.u32 %r5, [%d0 + 800]; st.global.u32 [%d4], %r5;", False),
        ("st.global.u32 [%d0], 1;", False),
        ("st.global.u32 [%d0], %r0;", True),
        ("st.global.u64 [%d0], 1; st.global.u32 [%d0], 1;", False),
        ("red.global.add.u32 [%d0], 1;", False),
        ("red.global.add.u32 [%d0], 1; ld.global.u32 %r5, [%d0];", True),
        ("red.global.add.u32 [%d0], 1; ld.relaxed.gpu.global.u32 %r5, [%d0];", False),
    ],
)
def test_races_on_global_memory_are_found_on_request(body: str, found: bool) -> None:
    x = np.zeros(220, "u4")
    run(body, [x], grid=3)
    if found:
        error = failure(body, [x], grid=3, races=True)
        assert "race on global memory" in str(error)
        assert x.ctypes.data <= (error.address or 0) < x.ctypes.data + x.nbytes
    else:
        run(body, [x], grid=3, races=True)


def test_barriers_order_the_threads_of_a_block_on_global_memory() -> None:
    body = _PLACE + "ld.global.u32 %r5, [%d4 + 4]; bar.sync 0; st.global.u32 [%d4], %r5;"
    run(body, [np.zeros(65, "u4")], races=True)
    assert "race on global memory" in str(failure(body.replace("bar.sync 0;", ""), [np.zeros(65, "u4")], races=True))


@pytest.mark.parametrize(("threads", "found"), [(32, False), (64, True)])
def test_a_barrier_of_a_warp_orders_its_threads_alone(threads: int, found: bool) -> None:
    body = """mov.u32 %r2, buffer; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r0; bar.warp.sync -1;
              ld.shared.u32 %r3, [buffer];"""
    if found:
        assert "race on shared memory" in str(failure(body, block=threads))
    else:
        run(body, block=threads)


def test_a_shuffle_waits_for_the_lanes_of_its_mask() -> None:
    error = failure("setp.lt.u32 %p0, %r0, 16; @%p0 shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1; @%p0 bra $end; bar.sync 0;")
    assert "divergent" in str(error)
    run("setp.lt.u32 %p0, %r0, 16; @%p0 shfl.sync.bfly.b32 %r2, %r0, 1, 31, 0xffff;", block=32)
    error = failure("shfl.sync.bfly.b32 %r2, %r0, 1, 31, 0xffff;", block=32)
    assert "not in the mask of lanes" in str(error)


def test_a_kernel_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simt, "STEP_LIMIT", 1000)
    error = failure("$loop: bra $loop;")
    assert error.code == 702
    assert "does not end" in str(error)


def test_branches_by_a_table_go_where_it_says() -> None:
    body = """
        $table: .branchtargets $a, $b, $c;
        and.b32 %r2, %r0, 3;
        setp.lt.u32 %p0, %r2, {bound};
        mov.u32 %r3, 40;
        @%p0 brx.idx %r2, $table;
        bra $c;
        $a: mov.u32 %r3, 10; bra $b;
        $b: add.u32 %r3, %r3, 1;
        $c: add.u64 %d0, %d0, %d2; st.global.u32 [%d0], %r3;
    """
    out = np.zeros(64, "u4")
    run(body.format(bound=3), [out])
    assert out.tolist() == [11, 41, 40, 40] * 16
    error = failure(body.format(bound=4), [out])
    assert "brx.idx beyond a table of 3 labels" in str(error)
    assert error.thread == (3, 0, 0)


def test_trap_is_an_illegal_instruction() -> None:
    error = failure("setp.eq.u32 %p0, %r0, 5; @%p0 trap;")
    assert error.code == 715
    assert error.thread == (5, 0, 0)


def test_a_register_that_nothing_wrote_holds_no_zero() -> None:
    out = np.zeros(1, "u4")
    run("st.global.u32 [%d0], %r7;", [out])
    assert out[0] == 0xA5A5A5A5


def test_memory_that_nothing_wrote_holds_no_zero() -> None:
    out = np.zeros(2, "u4")
    run("ld.shared.u32 %r2, [buffer]; ld.local.u32 %r3, [own]; st.global.v2.u32 [%d0], {%r2, %r3};", [out])
    assert out.tolist() == [0xABABABAB, 0xCDCDCDCD]


def test_names_that_ptx_does_not_allow_are_refused() -> None:
    with pytest.raises(PTXError, match=r"k\.1 is not a name that PTX allows"):
        load(".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k.1() { ret; }")


def test_functions_have_local_memory_of_their_own() -> None:
    text = """
    .version 7.0
    .target sm_75
    .address_size 64
    .func (.param .b32 result) deep(.param .b32 depth) {
    .local .align 4 .b8 kept[8];
    .reg .b32 %r<5>; .reg .pred %p;
    ld.param.b32 %r0, [depth];
    ld.local.b32 %r2, [kept + 4];
    st.local.b32 [kept], %r0;
    setp.eq.u32 %p, %r0, 0;
    mov.u32 %r1, 0;
    @%p bra $done;
    sub.u32 %r3, %r0, 1;
    {
    .param .b32 given; .param .b32 taken;
    st.param.b32 [given], %r3;
    call.uni (taken), deep, (given);
    ld.param.b32 %r1, [taken];
    }
    $done:
    ld.local.b32 %r0, [kept];
    mad.lo.u32 %r1, %r1, 10, %r0;
    setp.ne.u32 %p, %r2, 0xcdcdcdcd;
    @%p trap;
    st.local.b32 [kept + 4], 7;
    st.param.b32 [result], %r1;
    ret;
    }
    .visible .entry k(.param .u64 out) {
    .local .align 4 .b8 own[4];
    .reg .b32 %r<5>; .reg .b64 %d<3>;
    mov.u32 %r0, %tid.x;
    st.local.b32 [own], %r0;
    and.b32 %r1, %r0, 3;
    {
    .param .b32 given; .param .b32 taken;
    st.param.b32 [given], %r1;
    call.uni (taken), deep, (given);
    ld.param.b32 %r2, [taken];
    }
    ld.local.b32 %r3, [own];
    mad.lo.u32 %r2, %r3, 10000, %r2;
    ld.param.u64 %d0, [out];
    mul.wide.u32 %d1, %r0, 4;
    add.u64 %d0, %d0, %d1;
    st.global.u32 [%d0], %r2;
    ret;
    }"""
    out = np.zeros(40, "u4")
    launch(load(text), "k", [out], block=40)
    nested = [0, 1, 12, 123]
    assert out.tolist() == [10000 * t + nested[t % 4] for t in range(40)]


def test_functions_that_are_not_defined_are_refused() -> None:
    text = """
    .version 7.0
    .target sm_75
    .address_size 64
    .extern .func (.param .b32 result) expf(.param .b32 x);
    .visible .entry k() {
    .param .b32 given; .param .b32 taken;
    call.uni (taken), expf, (given);
    ret;
    }"""
    with pytest.raises(PTXError, match="the function expf is called and not defined"):
        load(text)
