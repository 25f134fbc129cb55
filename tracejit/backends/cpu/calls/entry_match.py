"""Matching a call in compiled entries: the IR that finds the arguments and checks them against an `EntrySpec`.

Nothing is owned while a call is being matched: whatever fails branches to `nomatch`, which returns.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tracejit.backends import entry as e
from tracejit.backends.cpython import Layout
from tracejit.support.nodes import define, field

__all__ = ["ArrayValue", "Matcher"]

_DECLARATIONS = {
    "PyArray_Scalar": "ptr (ptr, ptr, ptr)",
    "PyBool_FromLong": "ptr (i64)",
    "PyDict_New": "ptr ()",
    "PyDict_SetItem": "i32 (ptr, ptr, ptr)",
    "PyErr_Occurred": "ptr ()",
    "PyEval_RestoreThread": "void (ptr)",
    "PyEval_SaveThread": "ptr ()",
    "PyComplex_FromDoubles": "ptr (double, double)",
    "PyFloat_FromDouble": "ptr (double)",
    "PyList_New": "ptr (i64)",
    "PyLong_FromLong": "ptr (i64)",
    "PyObject_Vectorcall": "ptr (ptr, ptr, i64, ptr)",
    "PyTuple_New": "ptr (i64)",
    "PyType_GenericAlloc": "ptr (ptr, i64)",
    "Py_IncRef": "void (ptr)",
    "tj_dict_values": "i1 (ptr, ptr, i64, ptr)",
    "tj_disjoint": "i1 (ptr, i64, i64)",
    "tj_entry_status": "ptr (ptr, i32, ptr, i64, ptr)",
    "tj_int_value": "i1 (ptr, ptr)",
    "tj_keyword_values": "i1 (ptr, ptr, ptr, i64, ptr)",
    "tj_keywords_in_order": "i1 (ptr, ptr, i64)",
    "tj_match_arrays": "i1 (ptr, ptr, i64, ptr)",
    "tj_new_array": "ptr (ptr, i32, ptr)",
    "tj_release": "void (ptr, i64)",
    "tj_static_equal": "i1 (ptr, ptr)",
    "tj_watched": "i1 (ptr)",
    "llvm.sadd.with.overflow.i64": "{i64, i1} (i64, i64)",
    "llvm.smax.i64": "i64 (i64, i64)",
    "llvm.smin.i64": "i64 (i64, i64)",
    "llvm.smul.with.overflow.i64": "{i64, i1} (i64, i64)",
    "llvm.ssub.with.overflow.i64": "{i64, i1} (i64, i64)",
}
_MANY_PAIRS = 64  # arrays that must not overlap: from so many pairs on they are compared in a loop
_RELATIONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}


@define(eq=False)
class ArrayValue:
    """What is known about a matched array: the object, its data, its extents,
    and (once asked for) the range of its bytes.
    """

    guard: e.ArrayGuard
    item: str
    data: str
    dims: list[str]
    bytes: tuple[str, str] | None = None


@define(eq=False)
class _Writer:
    """Instructions of one function as text. Constants are read from the table that is its first argument."""

    spec: e.EntrySpec
    at: Layout
    place: dict[tuple[Any, ...], int] = field(factory=dict[tuple[Any, ...], int])  # of each role in the table
    body: list[str] = field(factory=list[str])
    allocas: list[str] = field(factory=list[str])
    used: set[str] = field(factory=set[str])  # functions to declare
    count: int = 0

    def declarations(self) -> list[str]:
        """A `declare` line for each function called so far."""
        return [f"declare {_signature(symbol)}" for symbol in sorted(self.used)]

    def _line(self, text: str) -> None:
        self.body.append(f"  {text}")

    def _new(self, text: str) -> str:
        self.count += 1
        self.body.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def _fresh(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def _block(self, label: str) -> None:
        self.body.append(f"{label}:")

    def _alloca(self, kind: str) -> str:
        name = self._fresh("%a")
        self.allocas.append(f"{name} = alloca {kind}")
        return name

    def _need(self, condition: str, otherwise: str = "nomatch") -> None:
        label = self._fresh("b")
        self._line(f"br i1 {condition}, label %{label}, label %{otherwise}")
        self._block(label)

    def _unless(self, fast: str, slow: str) -> None:
        """Go on if `fast` is true, else if the call `slow` is."""
        other, done = self._fresh("s"), self._fresh("b")
        self._line(f"br i1 {fast}, label %{done}, label %{other}")
        self._block(other)
        answer = self._new(slow)
        self._line(f"br i1 {answer}, label %{done}, label %nomatch")
        self._block(done)

    def _address(self, base: str, offset: int) -> str:
        return base if offset == 0 else self._new(f"getelementptr i8, ptr {base}, i64 {offset}")

    def _read(self, kind: str, base: str, offset: int) -> str:
        return self._new(f"load {kind}, ptr {self._address(base, offset)}")

    def _constant(self, *role: Any) -> str:
        return self._read("ptr", "%constants", 8 * self.place[role])

    def _call(self, symbol: str, *arguments: str) -> str:
        self.used.add(symbol)
        kinds = _DECLARATIONS[symbol]
        result, parameters = kinds.split(" (") if not kinds.startswith("{") else ("{i64, i1}", "i64, i64)")
        passed = ", ".join(
            f"{kind} {argument}"
            for kind, argument in zip(parameters[:-1].split(", "), arguments, strict=bool(arguments))
        )
        return f"call {result} @{symbol}({passed})"

    def _is_type(self, item: str, name: str | int) -> str:
        return self._new(f"icmp eq ptr {self._read('ptr', item, self.at.object_type)}, {self._constant('type', name)}")


@define(eq=False)
class Matcher(_Writer):
    """Writes the checks, and remembers where the values of matched arguments are."""

    dims: dict[str, str] = field(factory=dict[str, str])
    computed: dict[e.Extent, str] = field(factory=dict[e.Extent, str])
    objects: list[str] = field(factory=list[str])  # the object at each leaf
    arrays: dict[int, ArrayValue] = field(factory=dict[int, ArrayValue])  # by leaf
    scalars: dict[tuple[int, int], str] = field(factory=dict[tuple[int, int], str])  # by (leaf, part)
    returned: set[int] | None = None
    held: list[str] = field(factory=list[str])  # objects that a list or dict could drop during the call

    def match(self) -> None:
        """Check everything that can fail to match: arguments, overlaps, conditions, and every extent the call needs."""
        self._arity()
        values = self._arguments()
        self._statics(values)
        if self.spec.watch is not None:
            self._need(self._new(self._call("tj_watched", self._constant("watch"))))
        self._match(values)
        self._arrays(values)
        self._overlaps()
        for condition in self.spec.conditions:
            left, right = self.extent(condition.left), self.extent(condition.right)
            self._need(self._new(f"icmp {_RELATIONS[condition.relation]} i64 {left}, {right}"))
        for extent in (extent for output in self.spec.outputs for extent in output.shape):
            self._need(self._new(f"icmp sge i64 {self.extent(extent)}, 0"))
        for slot in self.spec.slots:
            if isinstance(slot, e.DimSlot):
                self.extent(slot.extent)
        if not isinstance(self.spec.release_gil, bool):
            self.extent(self.spec.release_gil)

    # Finding the arguments.

    def _arity(self) -> None:
        self._need(self._new(f"icmp eq i64 %nargs, {len(self.spec.signature.args)}"))
        if self.spec.signature.kwargs:
            self._need(self._new("icmp ne ptr %kwnames, null"))
            return
        some, done = self._fresh("s"), self._fresh("b")
        self._line(f"br i1 {self._new('icmp eq ptr %kwnames, null')}, label %{done}, label %{some}")
        self._block(some)
        empty = self._new(f"icmp eq i64 {self._read('i64', '%kwnames', self.at.sequence_size)}, 0")
        self._line(f"br i1 {empty}, label %{done}, label %nomatch")
        self._block(done)

    def _arguments(self) -> list[str]:
        positional, named = len(self.spec.signature.args), len(self.spec.signature.kwargs)
        found = [self._read("ptr", "%args", 8 * place) for place in range(positional)]
        if not named:
            return found
        values = self._alloca(f"[{named} x ptr]")
        passed = self._address("%args", 8 * positional)
        keys = self._address("%constants", 8 * self.place["keyword", 0])
        if self.spec.signature.ordered:
            self._need(self._new(self._call("tj_keywords_in_order", "%kwnames", keys, str(named))))
        self._need(self._new(self._call("tj_keyword_values", "%kwnames", passed, keys, str(named), values)))
        return found + [self._read("ptr", values, 8 * place) for place in range(named)]

    def _roots(self) -> tuple[e.Guard, ...]:
        return (*self.spec.signature.args, *(guard for _, guard in self.spec.signature.kwargs))

    def _items(self, guard: e.Guard, place: int, item: str) -> list[str]:
        """The values in container `item`, checked to be of the guard's exact type and size."""
        match guard:
            case e.TupleGuard(items) | e.ListGuard(items):
                return self._sequence_items(guard, item, range(len(items)))
            case e.DictGuard(keys, items):
                self._need(self._is_type(item, "dict"))
                values = self._alloca(f"[{max(len(keys), 1)} x ptr]")
                first = self._address("%constants", 8 * self.place["key", place, 0]) if keys else "%constants"
                self._need(self._new(self._call("tj_dict_values", item, first, str(len(keys)), values)))
                return [self._read("ptr", values, 8 * index) for index in range(len(keys))]
            case e.ObjectGuard(_, slots, _):
                self._need(self._is_type(item, place))
                found = [self._slot_value(item, self._constant("offset", place, index)) for index in range(len(slots))]
                for value in found:
                    self._need(self._new(f"icmp ne ptr {value}, null"))
                return found
            case _:
                return []

    def _item(self, guard: e.Guard, place: int, item: str, index: int) -> str:
        """One of the values in container `item`, checked as by `_items`."""
        match guard:
            case e.TupleGuard() | e.ListGuard():
                return self._sequence_items(guard, item, range(index, index + 1))[0]
            case _:
                return self._items(guard, place, item)[index]

    def _sequence_items(self, guard: e.TupleGuard | e.ListGuard, item: str, wanted: range) -> list[str]:
        is_tuple = isinstance(guard, e.TupleGuard)
        self._need(self._is_type(item, "tuple" if is_tuple else "list"))
        size = self._read("i64", item, self.at.sequence_size)
        self._need(self._new(f"icmp eq i64 {size}, {len(guard.items)}"))
        if is_tuple:
            return [self._read("ptr", item, self.at.tuple_items + 8 * index) for index in wanted]
        start = self._read("ptr", item, self.at.list_items)
        return [self._read("ptr", start, 8 * index) for index in wanted]

    def _slot_value(self, item: str, offset: str) -> str:
        return self._new(f"load ptr, ptr {self._slot_place(item, offset)}")

    def _slot_place(self, item: str, offset: str) -> str:
        """The address `offset` bytes into an object, `offset` as it is read from the constants."""
        return self._new(f"getelementptr i8, ptr {item}, i64 {self._new(f'ptrtoint ptr {offset} to i64')}")

    def _statics(self, values: list[str]) -> None:
        """Compare static arguments. `==` may run Python code that changes containers,
        so each is looked up anew from the arguments, and the others are looked up after the last comparison.
        """
        for path in _static_paths(self._roots()):
            guard, item, place = path[0][1], values[path[0][0]], path[0][2]
            for index, child, child_place in path[1:]:
                item = self._item(guard, place, item, index)
                guard, place = child, child_place
            value = self._constant("static", place)
            same = self._new(f"icmp eq ptr {item}, {value}")
            if isinstance(guard, e.StaticGuard) and guard.identical:
                self._need(same)
            else:
                self._unless(same, self._call("tj_static_equal", value, item))

    # Checking the leaves.

    def _match(self, values: list[str]) -> None:
        pending = [(guard, item, False) for guard, item in zip(self._roots(), values, strict=True)][::-1]
        place = 0
        while pending:
            guard, item, mutable = pending.pop()
            if isinstance(guard, e.TupleGuard | e.ListGuard | e.DictGuard | e.ObjectGuard):
                mutable = mutable or not isinstance(guard, e.TupleGuard)
                found = self._items(guard, place, item)
                pending += [(child, value, mutable) for child, value in zip(guard.items, found, strict=True)][::-1]
            else:
                self._leaf(guard, place, item, mutable)
            place += 1

    def _leaf(self, guard: e.Leaf, place: int, item: str, mutable: bool) -> None:
        number = len(self.objects)
        self.objects.append(item)
        match guard:
            case e.ArrayGuard():
                pass  # done by _arrays
            case e.NumpyScalarGuard():
                self._need(self._is_type(item, place))
                self.scalars[number, 0] = self._address(item, self.at.numpy_scalar)
            case e.ScalarGuard(kind):
                self._scalar(kind, number, item)
            case e.StaticGuard():
                pass  # done by _statics
        if mutable and (isinstance(guard, e.ArrayGuard | e.NumpyScalarGuard) or self._is_returned(number)):
            self.held.append(item)

    def _is_returned(self, leaf: int) -> bool:
        if self.returned is None:
            self.returned = {node.leaf for node in e.result_nodes(self.spec.result) if isinstance(node, e.OutArg)}
        return leaf in self.returned

    def _arrays(self, values: list[str]) -> None:
        """Check all arrays in one call: a loop over records among the constants,
        so that an entry's code does not grow with every array.
        """
        guards = [
            (number, leaf)
            for number, leaf in enumerate(e.leaves(self.spec.signature))
            if isinstance(leaf, e.ArrayGuard)
        ]
        if not guards:
            return
        names = e.bound_names(self.spec.signature)
        dims = self._alloca(f"[{max(len(names), 1)} x i64]")
        for index in range(len(names)):
            self._line(f"store i64 -1, ptr {self._address(dims, 8 * index)}")
        items = self._contiguous([self.objects[number] for number, _ in guards], values)
        records = self._address("%constants", 8 * self.place["array", guards[0][0]])
        self._need(self._new(self._call("tj_match_arrays", items, records, str(len(guards)), dims)))
        self.dims = {name: self._read("i64", dims, 8 * index) for index, name in enumerate(names)}
        for number, guard in guards:
            item = self.objects[number]
            extents = [self.dims[extent] if isinstance(extent, str) else str(extent) for extent in guard.shape]
            self.arrays[number] = ArrayValue(guard, item, self._read("ptr", item, self.at.array_data), extents)

    def _contiguous(self, items: list[str], values: list[str]) -> str:
        """The address of these pointers in a row: among the arguments as they came, or copied."""
        positional = values[: len(self.spec.signature.args)]
        start = positional.index(items[0]) if items[0] in positional else len(positional)
        if positional[start : start + len(items)] == items:
            return self._address("%args", 8 * start)
        copied = self._alloca(f"[{len(items)} x ptr]")
        for index, item in enumerate(items):
            self._line(f"store ptr {item}, ptr {self._address(copied, 8 * index)}")
        return copied

    def _scalar(self, kind: str, number: int, item: str) -> None:
        match kind:
            case "float" | "complex":
                self._need(self._is_type(item, kind))
                offset = self.at.float_value if kind == "float" else self.at.complex_value
                for part in range(1 if kind == "float" else 2):
                    self.scalars[number, part] = self._read("i64", item, offset + 8 * part)
            case "int":
                self._need(self._is_type(item, "int"))
                value = self._alloca("i64")
                self._need(self._new(self._call("tj_int_value", item, value)))
                self.scalars[number, 0] = self._new(f"load i64, ptr {value}")
            case _:
                yes = self._new(f"icmp eq ptr {item}, {self._constant('True')}")
                no = self._new(f"icmp eq ptr {item}, {self._constant('False')}")
                self._need(self._new(f"or i1 {yes}, {no}"))
                self.scalars[number, 0] = self._new(f"zext i1 {yes} to i64")

    # Arrays that are written must not share memory with others.

    def _overlaps(self) -> None:
        arrays = list(self.arrays.values())
        for array in arrays:
            if array.guard.writeable and array.guard.layout == "strided":
                self._not_self_overlapping(array)
        written = [array for array in arrays if array.guard.writeable]
        others = [array for array in arrays if not array.guard.writeable]
        if len(written) * len(arrays) > _MANY_PAIRS:
            self._need(
                self._new(
                    self._call("tj_disjoint", *self._ranges([*written, *others]), str(len(written)), str(len(arrays)))
                )
            )
            return
        for index, array in enumerate(arrays):
            for other in arrays[index + 1 :]:
                if array.guard.writeable or other.guard.writeable:
                    self._disjoint(array, other)

    def _ranges(self, arrays: list[ArrayValue]) -> tuple[str]:
        """The address of a table of the ranges of these arrays."""
        table = self._alloca(f"[{2 * len(arrays)} x i64]")
        for index, array in enumerate(arrays):
            for end, address in enumerate(self._range(array)):
                self._line(f"store i64 {address}, ptr {self._address(table, 16 * index + 8 * end)}")
        return (table,)

    def _disjoint(self, one: ArrayValue, two: ArrayValue) -> None:
        (low, high), (start, end) = self._range(one), self._range(two)
        before = self._new(f"icmp ule i64 {high}, {start}")
        after = self._new(f"icmp ule i64 {end}, {low}")
        empty = self._new(f"icmp eq i64 {low}, {high}")
        void = self._new(f"icmp eq i64 {start}, {end}")
        apart = self._new(f"or i1 {before}, {after}")
        none = self._new(f"or i1 {empty}, {void}")
        self._need(self._new(f"or i1 {apart}, {none}"))

    def _range(self, array: ArrayValue) -> tuple[str, str]:
        """The first byte of an array and the one after its last;
        equal if it has no elements. NumPy keeps sizes within 63 bits.
        """
        if array.bytes is None:
            start = self._new(f"ptrtoint ptr {array.data} to i64")
            array.bytes = (
                self._contiguous_range(array, start) if array.guard.layout == "C" else self._strided_range(array, start)
            )
        return array.bytes

    def _contiguous_range(self, array: ArrayValue, start: str) -> tuple[str, str]:
        size = str(array.guard.dtype.itemsize)
        for dim in array.dims:
            size = self._new(f"mul i64 {size}, {dim}")
        return start, self._new(f"add i64 {start}, {size}")

    def _strided_range(self, array: ArrayValue, start: str) -> tuple[str, str]:
        low, high, size = start, start, "1"
        for axis, dim in enumerate(array.dims):
            span = self._new(f"mul i64 {self.stride(array, axis)}, {self._new(f'sub i64 {dim}, 1')}")
            low = self._new(f"add i64 {low}, {self._new(self._call('llvm.smin.i64', span, '0'))}")
            high = self._new(f"add i64 {high}, {self._new(self._call('llvm.smax.i64', span, '0'))}")
            size = self._new(f"mul i64 {size}, {dim}")
        end = self._new(f"add i64 {high}, {array.guard.dtype.itemsize}")
        empty = self._new(f"icmp eq i64 {size}, 0")
        return low, self._new(f"select i1 {empty}, i64 {low}, i64 {end}")

    def stride(self, array: ArrayValue, axis: int) -> str:
        """An array's stride along `axis`, in bytes."""
        return self._read("i64", self._read("ptr", array.item, self.at.array_strides), 8 * axis)

    def _not_self_overlapping(self, array: ArrayValue) -> None:
        """Each axis must step over everything that the axes with smaller steps span:
        sufficient, and true of every ordinary view.
        """
        steps: list[str] = []
        spans: list[str] = []
        for axis, dim in enumerate(array.dims):
            stride = self.stride(array, axis)
            steps.append(self._new(self._call("llvm.smax.i64", stride, self._new(f"sub i64 0, {stride}"))))
            spans.append(self._new(f"mul i64 {steps[-1]}, {self._new(f'sub i64 {dim}, 1')}"))
        for axis, dim in enumerate(array.dims):
            inside = str(array.guard.dtype.itemsize)
            for other in (other for other in range(len(steps)) if other != axis):
                smaller = self._new(f"icmp sle i64 {steps[other]}, {steps[axis]}")
                span = self._new(f"select i1 {smaller}, i64 {spans[other]}, i64 0")
                inside = self._new(f"add i64 {inside}, {span}")
            clear = self._new(f"icmp sge i64 {steps[axis]}, {inside}")
            single = self._new(f"icmp sle i64 {dim}, 1")
            self._need(self._new(f"or i1 {clear}, {single}"))

    # Extents.

    def extent(self, extent: e.Extent) -> str:
        """The value of an extent; computed, with its checks, when first asked for."""
        match extent:
            case int():
                return str(extent)
            case str():
                return self.dims[extent]
            case (operation, left, right):
                if extent not in self.computed:
                    self.computed[extent] = self._operation(operation, self.extent(left), self.extent(right))
                return self.computed[extent]

    def _operation(self, operation: str, left: str, right: str) -> str:
        match operation:
            case "add" | "sub" | "mul":
                pair = self._new(self._call(f"llvm.s{operation}.with.overflow.i64", left, right))
                fits = self._new(f"xor i1 {self._new(f'extractvalue {{i64, i1}} {pair}, 1')}, true")
                self._need(fits)
                return self._new(f"extractvalue {{i64, i1}} {pair}, 0")
            case "max" | "min":
                return self._new(self._call(f"llvm.s{operation}.i64", left, right))
            case _:
                return self._division(operation, left, right)

    def _division(self, operation: str, left: str, right: str) -> str:
        """Python's // and %: rounded to minus infinity, the remainder has the divisor's sign. No match for a divisor of
        0 or -1 (traps).
        """
        zero = self._new(f"icmp eq i64 {right}, 0")
        minus = self._new(f"icmp eq i64 {right}, -1")
        self._need(self._new(f"xor i1 {self._new(f'or i1 {zero}, {minus}')}, true"))
        quotient = self._new(f"sdiv i64 {left}, {right}")
        rest = self._new(f"srem i64 {left}, {right}")
        signs = self._new(f"icmp slt i64 {self._new(f'xor i64 {rest}, {right}')}, 0")
        adjust = self._new(f"and i1 {self._new(f'icmp ne i64 {rest}, 0')}, {signs}")
        if operation == "floordiv":
            return self._new(f"sub i64 {quotient}, {self._new(f'zext i1 {adjust} to i64')}")
        return self._new(f"add i64 {rest}, {self._new(f'select i1 {adjust}, i64 {right}, i64 0')}")


def _signature(symbol: str) -> str:
    kinds = _DECLARATIONS[symbol]
    split = kinds.rindex(" (")
    return f"{kinds[:split]} @{symbol}{kinds[split + 1 :]}"


def _static_paths(roots: tuple[e.Guard, ...]) -> Iterator[list[tuple[int, e.Guard, int]]]:
    """For each static leaf the way to it: (index in its parent, guard, number of the node)."""
    place = 0
    pending: list[list[tuple[int, e.Guard, int]]] = [[(index, guard, 0)] for index, guard in enumerate(roots)][::-1]
    while pending:
        path = pending.pop()
        index, guard, _ = path[-1]
        path[-1] = (index, guard, place)
        place += 1
        if isinstance(guard, e.StaticGuard):
            yield path
        pending += [[*path, (index, child, 0)] for index, child in enumerate(e.children(guard))][::-1]
