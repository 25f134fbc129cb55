"""The entry of a compiled program as LLVM IR: `ptr entry(ptr constants, ptr args, i64 nargs, ptr kwnames)`.

It returns a new reference, null with an exception set, or `constants` itself if the arguments do not match. Until they
are known to match no reference is taken and, but for `==` of static arguments, no Python code runs; so borrowed
pointers stay good. After that, `own` holds every reference the call must give back, and the one exit `fail` releases
them.

The text is final: straight code, no optimiser needed. Rare or looping work is called in `dispatch`'s support library.
`optnone` has LLVM generate code the quick way, in a third of the time: a call takes no longer, as it waits for memory
and not for instructions.
"""

from __future__ import annotations

import re

from tracejit.backends import entry as e
from tracejit.backends.cpu.calls.entry_constants import constants
from tracejit.backends.cpu.calls.entry_match import Matcher
from tracejit.backends.cpython import layout
from tracejit.support.nodes import define, field

__all__ = ["emit_entry", "join"]

_SYMBOL = re.compile(r"@([-\w.$]+)\s*\(")
_RELEASE = "release all"  # stands for a call until its argument is known


def emit_entry(spec: e.EntrySpec, name: str) -> str:
    """The IR text of function `name` that checks a call against `spec` and makes it, with the declarations it needs.

    It goes into the module that defines `spec.program`; `join` puts texts together. `dispatch.ensure_loaded` makes the
    symbols known.
    """
    emitter = _Emitter(spec, layout())
    emitter.emit()
    return emitter.text(name)


def join(*parts: str) -> str:
    """One module's text from several, each with its own declarations:
    LLVM refuses a symbol declared twice, or declared and defined.
    """
    lines = [line for part in parts for line in part.splitlines()]
    seen = {match[1] for line in lines if line.startswith("define ") and (match := _SYMBOL.search(line))}
    kept: list[str] = []
    for line in lines:
        match = _SYMBOL.search(line) if line.startswith("declare ") else None
        if match is None or match[1] not in seen:
            kept.append(line)
        if match:
            seen.add(match[1])
    return "\n".join([*kept, ""])


@define(eq=False)
class _Emitter(Matcher):
    owned: int = 0
    data: list[str] = field(factory=list[str])  # addresses of the outputs
    live: set[int] = field(factory=set[int])  # places in `own` that hold a reference at this point of the straight code

    def emit(self) -> None:
        self.place = {role: index for index, role in enumerate(constants(self.spec))}
        self.match()
        # From here on references are held and `nomatch` is out of reach.
        self._hold()
        outputs = [
            self._allocate(index, [self.extent(extent) for extent in output.shape])
            for index, output in enumerate(self.spec.outputs)
        ]
        self._run(outputs)
        self._finish(outputs)

    def text(self, name: str) -> str:
        own = (
            [f"%own = alloca [{self.owned} x ptr]", f"store [{self.owned} x ptr] zeroinitializer, ptr %own"]
            if self.owned
            else []
        )
        lines = [
            *self.declarations(),
            "",
            f"define ptr @{name}(ptr %constants, ptr %args, i64 %nargs, ptr %kwnames) noinline optnone {{",
            "entry:",
        ]
        lines += [f"  {line}" for line in (*self.allocas, *own)] + self.body
        return "\n".join([*lines, "nomatch:", "  ret ptr %constants", "}", ""])

    # The call.

    def _own(self, reference: str) -> int:
        """Have `fail` and the end of the call release `reference`."""
        index = self.owned
        self.owned += 1
        self._keep(index, reference)
        return index

    def _keep(self, index: int, reference: str) -> None:
        self.live.add(index)
        self._line(f"store ptr {reference}, ptr {self._address('%own', 8 * index)}")

    def _disown(self, index: int) -> None:
        self.live.remove(index)
        self._line(f"store ptr null, ptr {self._address('%own', 8 * index)}")

    def _incref(self, item: str) -> None:
        if self.at.wide_refcount:
            count = self._new(f"load i64, ptr {item}")
            self._line(f"store i64 {self._new(f'add i64 {count}, 1')}, ptr {item}")
            return
        count = self._new(f"load i32, ptr {item}")
        immortal = self._new(f"icmp uge i32 {count}, {self.at.immortal_refcount}")
        more = self._new(f"add i32 {count}, 1")
        self._line(f"store i32 {self._new(f'select i1 {immortal}, i32 {count}, i32 {more}')}, ptr {item}")

    def _hold(self) -> None:
        for item in self.held:
            self._incref(item)
            self._own(item)

    def _allocate(self, index: int, shape: list[str]) -> tuple[str, str, int]:
        """(object or null, address of its data, its place in `own`)
        of output `index`. Rank 0 is computed on the stack.
        """
        spec = self.spec.outputs[index]
        if not shape:
            buffer = self._alloca(f"[{max(spec.dtype.itemsize, 1)} x i8], align 64")
            place = self.owned
            self.owned += 1
            return "null", buffer, place
        dims = self._alloca(f"[{len(shape)} x i64]")
        for axis, extent in enumerate(shape):
            self._line(f"store i64 {extent}, ptr {self._address(dims, 8 * axis)}")
        made = self._new(self._call("tj_new_array", self._constant("out", index), str(len(shape)), dims))
        self._need(self._new(f"icmp ne ptr {made}, null"), otherwise="fail")
        return made, self._read("ptr", made, self.at.array_data), self._own(made)

    def _run(self, outputs: list[tuple[str, str, int]]) -> None:
        slots = self._alloca(f"[{max(len(self.spec.slots), 1)} x i64]")
        for index, slot in enumerate(self.spec.slots):
            kind, value = self._slot(index, slot, outputs)
            self._line(f"store {kind} {value}, ptr {self._address(slots, 8 * index)}")
        call = f"call i32 @{self.spec.program}(ptr {slots})"
        match self.spec.release_gil:
            case False:
                status = self._new(call)
            case True:
                state = self._new(self._call("PyEval_SaveThread"))
                status = self._new(call)
                self._line(self._call("PyEval_RestoreThread", state))
            case extent:
                worth = self.extent(extent)
                status = self._released_if(self._new(f"icmp sge i64 {worth}, {e.GIL_WORK}"), call)
        self._status(status)

    def _released_if(self, condition: str, call: str) -> str:
        without, held, done = self._fresh("g"), self._fresh("h"), self._fresh("b")
        self._line(f"br i1 {condition}, label %{without}, label %{held}")
        self._block(without)
        state = self._new(self._call("PyEval_SaveThread"))
        one = self._new(call)
        self._line(self._call("PyEval_RestoreThread", state))
        self._line(f"br label %{done}")
        self._block(held)
        two = self._new(call)
        self._line(f"br label %{done}")
        self._block(done)
        return self._new(f"phi i32 [{one}, %{without}], [{two}, %{held}]")

    def _slot(self, index: int, slot: e.Slot, outputs: list[tuple[str, str, int]]) -> tuple[str, str]:
        match slot:
            case e.DataSlot(leaf):
                return "ptr", self.arrays[leaf].data if leaf in self.arrays else self.scalars[leaf, 0]
            case e.StrideSlot(leaf, axis):
                return "i64", self.stride(self.arrays[leaf], axis)
            case e.DimSlot(extent):
                return "i64", self.extent(extent)
            case e.ScalarSlot(leaf, part):
                return "i64", self.scalars[leaf, part]
            case e.OutSlot(out):
                return "ptr", outputs[out][1]
            case e.ConstSlot():
                return "ptr", self._constant("word", index)

    def _status(self, status: str) -> None:
        bad, raised, other, fine = (self._fresh(stem) for stem in ("s", "s", "s", "b"))
        self._line(f"br i1 {self._new(f'icmp eq i32 {status}, 0')}, label %{fine}, label %{bad}")
        self._block(bad)
        # -1 says that an exception is set; believed only if one is, else the interpreter would report a null without
        # exception.
        self._line(f"br i1 {self._new(f'icmp eq i32 {status}, -1')}, label %{raised}, label %{other}")
        self._block(raised)
        pending = self._new(self._call("PyErr_Occurred"))
        self._line(f"br i1 {self._new(f'icmp ne ptr {pending}, null')}, label %fail, label %{other}")
        self._block(other)
        self._release()
        handler = self._constant("status")
        answer = self._new(self._call("tj_entry_status", handler, status, "%args", "%nargs", "%kwnames"))
        self._line(f"ret ptr {answer}")
        self._block(fine)

    def _release(self) -> None:
        if self.live:
            self._line(_RELEASE)  # written by _finish, when the number of references is final

    # The result.

    def _finish(self, outputs: list[tuple[str, str, int]]) -> None:
        self.data = [data for _, data, _ in outputs]
        wanted = {
            node.index for node in e.result_nodes(self.spec.result) if isinstance(node, e.OutLeaf) and not node.number
        }
        objects = [
            self._scalar_output(n, made, data, place) if n in wanted else (made, place)
            for n, (made, data, place) in enumerate(outputs)
        ]
        result = self._result(objects)
        self._release()
        self._line(f"ret ptr {result}")
        self._block("fail")
        if self.owned:
            self._line(_RELEASE)
        self._line("ret ptr null")
        release = self._call("tj_release", "%own", str(self.owned)) if self.owned else ""
        self.body = [line.replace(_RELEASE, release) for line in self.body]

    def _scalar_output(self, index: int, made: str, data: str, place: int) -> tuple[str, int]:
        if made != "null":
            return made, place
        made = self._new(self._call("PyArray_Scalar", data, self._constant("out", index), "null"))
        self._need(self._new(f"icmp ne ptr {made}, null"), otherwise="fail")
        self._keep(place, made)
        return made, place

    def _result(self, objects: list[tuple[str, int]]) -> str:
        """Build the result bottom up; every part is owned by `own` until its container holds it."""
        nodes = e.result_nodes(self.spec.result)
        free = {index for index in range(len(objects))}  # outputs whose one reference was not handed on yet
        built: list[tuple[str, int]] = []
        for place in reversed(range(len(nodes))):
            node = nodes[place]
            parts = [built.pop() for _ in e.children(node)]
            built.append(self._node(node, place, parts, objects, free))
        result, place = built.pop()
        self._disown(place)
        return result

    def _node(
        self, node: e.Result, place: int, parts: list[tuple[str, int]], objects: list[tuple[str, int]], free: set[int]
    ) -> tuple[str, int]:
        match node:
            case e.OutLeaf(index, True):
                return self._number(index)
            case e.OutLeaf(index) if index in free:
                free.remove(index)
                return objects[index]
            case e.OutLeaf(index):
                return self._another(objects[index][0])
            case e.OutArg(leaf):
                return self._another(self.objects[leaf])
            case e.OutConst():
                return self._another(self._constant("result", place))
            case e.OutTuple() | e.OutList():
                return self._sequence(node, parts)
            case e.OutDict():
                return self._mapping(place, parts)
            case e.OutCall():
                return self._python_call(place, parts)
            case e.OutObject():
                return self._object(place, parts)

    def _number(self, index: int) -> tuple[str, int]:
        """Output `index`, of rank 0, as a Python number."""
        data = self.data[index]
        match self.spec.outputs[index].dtype.kind:
            case "f":
                return self._made(self._call("PyFloat_FromDouble", self._new(f"load double, ptr {data}")))
            case "i":
                return self._made(self._call("PyLong_FromLong", self._new(f"load i64, ptr {data}")))
            case "c":
                imaginary = self._new(f"getelementptr i8, ptr {data}, i64 8")
                parts = [self._new(f"load double, ptr {place}") for place in (data, imaginary)]
                return self._made(self._call("PyComplex_FromDoubles", *parts))
            case _:
                wide = self._new(f"zext i8 {self._new(f'load i8, ptr {data}')} to i64")
                return self._made(self._call("PyBool_FromLong", wide))

    def _another(self, item: str) -> tuple[str, int]:
        self._incref(item)
        return item, self._own(item)

    def _made(self, call: str) -> tuple[str, int]:
        made = self._new(call)
        self._need(self._new(f"icmp ne ptr {made}, null"), otherwise="fail")
        return made, self._own(made)

    def _sequence(self, node: e.OutTuple | e.OutList, parts: list[tuple[str, int]]) -> tuple[str, int]:
        is_tuple = isinstance(node, e.OutTuple)
        made, place = self._made(self._call("PyTuple_New" if is_tuple else "PyList_New", str(len(parts))))
        start, offset = (
            (made, self.at.tuple_items) if is_tuple or not parts else (self._read("ptr", made, self.at.list_items), 0)
        )
        for index, (part, owner) in enumerate(parts):
            self._line(f"store ptr {part}, ptr {self._address(start, offset + 8 * index)}")
            self._disown(owner)
        return made, place

    def _mapping(self, place: int, parts: list[tuple[str, int]]) -> tuple[str, int]:
        made, owner = self._made(self._call("PyDict_New"))
        for index, (part, _) in enumerate(parts):
            key = self._constant("result", place, index)
            # takes a reference of its own; ours goes at the end
            failed = self._new(self._call("PyDict_SetItem", made, key, part))
            self._need(self._new(f"icmp eq i32 {failed}, 0"), otherwise="fail")
        return made, owner

    def _object(self, place: int, parts: list[tuple[str, int]]) -> tuple[str, int]:
        made, owner = self._made(self._call("PyType_GenericAlloc", self._constant("result", place), "0"))
        for index, (part, part_owner) in enumerate(parts):
            self._line(f"store ptr {part}, ptr {self._slot_place(made, self._constant('result', place, index))}")
            self._disown(part_owner)
        return made, owner

    def _python_call(self, place: int, parts: list[tuple[str, int]]) -> tuple[str, int]:
        passed = self._alloca(f"[{max(len(parts), 1)} x ptr]")
        for index, (part, _) in enumerate(parts):
            self._line(f"store ptr {part}, ptr {self._address(passed, 8 * index)}")
        function = self._constant("result", place)
        return self._made(self._call("PyObject_Vectorcall", function, passed, str(len(parts)), "null"))
