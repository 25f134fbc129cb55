; The call of a dispatcher, and what changes its chain of entries; for the module that entry_support.ll begins. Words and bytes of a
; dispatcher's state and of an entry's record are numbered in dispatch_chain.py, offsets into objects in `Layout` (cpython.py).

@no_match = private constant i8 0
@PyExc_ReferenceError = external global ptr
declare void @PyErr_SetNone(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Call one entry, holding it. `no_match` if it does not match. Entries are never immortal.
define internal ptr @try(ptr %record, ptr %args, i64 %nargs, ptr %kwnames) alwaysinline {
  %function = load ptr, ptr %record
  %constants = call ptr @read(ptr %record, i64 8)
  %holder = call ptr @read(ptr %record, i64 16)
  %before = load ${count_type}, ptr %holder
  %more = add ${count_type} %before, 1
  store ${count_type} %more, ptr %holder
  %answer = call ptr %function(ptr %constants, ptr %args, i64 %nargs, ptr %kwnames)
  %missed = icmp eq ptr %answer, %constants
  %result = select i1 %missed, ptr @no_match, ptr %answer
  %after = load ${count_type}, ptr %holder
  %last = icmp eq ${count_type} %after, 1
  br i1 %last, label %release, label %keep
release:
  call void @Py_DecRef(ptr %holder)
  ret ptr %result
keep:
  %less = sub ${count_type} %after, 1
  store ${count_type} %less, ptr %holder
  ret ptr %result
}

; The call of a CompiledFunction. Where the collector has cleared its state already, a dead reference is the error.
define ptr @tj_vectorcall(ptr %function, ptr %args, i64 %nargsf, ptr %kwnames) {
  %nargs = and i64 %nargsf, 9223372036854775807
  %state = call ptr @read(ptr %function, i64 ${function_state})
  %cleared = icmp eq ptr %state, null
  br i1 %cleared, label %error, label %go
error:
  %none = load ptr, ptr @PyExc_ReferenceError
  call void @PyErr_SetNone(ptr %none)
  ret ptr null
go:
  %answer = tail call ptr @tj_dispatch(ptr %state, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %answer
}

define ptr @tj_dispatch(ptr %self, ptr %args, i64 %nargs, ptr %kwnames) {
  %state = call ptr @read(ptr %self, i64 ${array_data})
  %count = load i64, ptr %state
  %few = icmp ule i64 %count, ${short}
  br i1 %few, label %short, label %long
short:
  %any = icmp ne i64 %count, 0
  br i1 %any, label %first, label %miss
first:
  %record = call ptr @read(ptr %state, i64 ${chain_bytes})
  %answer = call ptr @try(ptr %record, ptr %args, i64 %nargs, ptr %kwnames)
  %missed = icmp eq ptr %answer, @no_match
  br i1 %missed, label %rest, label %hit
hit:
  ret ptr %answer
rest:
  %second = tail call ptr @chain(ptr %state, i64 1, ptr null, ptr null, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %second
long:
  %third = tail call ptr @hinted(ptr %state, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %third
miss:
  %fourth = tail call ptr @miss(ptr %state, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %fourth
}

define internal ptr @miss(ptr %state, ptr %args, i64 %nargs, ptr %kwnames) {
  %callable = call ptr @read(ptr %state, i64 ${miss_bytes})
  %answer = tail call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %answer
}

; Try the chain from `start` on, but `tried`. Everything is read anew after a call: it may have changed the chain.
; Without `hint` a hit moves to the front; with it, it is remembered there.
define internal ptr @chain(ptr %state, i64 %start, ptr %tried, ptr %hint, ptr %args, i64 %nargs, ptr %kwnames) {
entry:
  br label %loop
loop:
  %index = phi i64 [%start, %entry], [%next, %skip]
  %count = load i64, ptr %state
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %none
none:
  %missed = tail call ptr @miss(ptr %state, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %missed
some:
  %chain = call ptr @word(ptr %state, i64 ${chain_word})
  %place = call ptr @word(ptr %chain, i64 %index)
  %record = load ptr, ptr %place
  %again = icmp eq ptr %record, %tried
  br i1 %again, label %skip, label %try
try:
  %answer = call ptr @try(ptr %record, ptr %args, i64 %nargs, ptr %kwnames)
  %failed = icmp eq ptr %answer, @no_match
  br i1 %failed, label %skip, label %hit
skip:
  %next = add i64 %index, 1
  br label %loop
hit:
  %count_now = load i64, ptr %state
  %record_now = load ptr, ptr %place
  %inside = icmp ult i64 %index, %count_now
  %same = icmp eq ptr %record, %record_now
  %there = and i1 %inside, %same
  br i1 %there, label %used, label %done
used:
  call void @stamp(ptr %state, ptr %record)
  %front = icmp eq ptr %hint, null
  br i1 %front, label %move, label %remember
remember:
  store ptr %record, ptr %hint
  ret ptr %answer
move:
  %to = phi i64 [%index, %used], [%from, %shift]
  %at_front = icmp eq i64 %to, 0
  br i1 %at_front, label %put, label %shift
shift:
  %from = sub i64 %to, 1
  %from_place = call ptr @word(ptr %chain, i64 %from)
  %to_place = call ptr @word(ptr %chain, i64 %to)
  %moved = load ptr, ptr %from_place
  store ptr %moved, ptr %to_place
  br label %move
put:
  store ptr %record, ptr %chain
  ret ptr %answer
done:
  ret ptr %answer
}

define internal void @stamp(ptr %state, ptr %record) alwaysinline {
  %clock = call ptr @word(ptr %state, i64 ${clock_word})
  %time = load i64, ptr %clock
  %now = add i64 %time, 1
  store i64 %now, ptr %clock
  %place = call ptr @word(ptr %record, i64 ${stamp_word})
  store i64 %now, ptr %place
  ret void
}

define internal ptr @hinted(ptr %state, ptr %args, i64 %nargs, ptr %kwnames) {
  %hash = call i64 @hash(ptr %args, i64 %nargs, ptr %kwnames)
  %index = add i64 %hash, ${hints_word}
  %hint = call ptr @word(ptr %state, i64 %index)
  %record = load ptr, ptr %hint
  %known = icmp ne ptr %record, null
  br i1 %known, label %try, label %all
try:
  %answer = call ptr @try(ptr %record, ptr %args, i64 %nargs, ptr %kwnames)
  %failed = icmp eq ptr %answer, @no_match
  br i1 %failed, label %all, label %hit
hit:
  %record_now = load ptr, ptr %hint
  %same = icmp eq ptr %record, %record_now
  br i1 %same, label %used, label %done
used:
  call void @stamp(ptr %state, ptr %record)
  ret ptr %answer
done:
  ret ptr %answer
all:
  %found = tail call ptr @chain(ptr %state, i64 0, ptr %record, ptr %hint, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %found
}

define internal i64 @mix(i64 %hash, i64 %value) alwaysinline {
  %both = xor i64 %hash, %value
  %mixed = mul i64 %both, -7046029254386353131
  %high = lshr i64 %mixed, 29
  %result = xor i64 %mixed, %high
  ret i64 %result
}

; Which hint to look at, from what is cheap to read of the first six arguments: types, dtypes, ranks, two extents, identity of strings.
define internal i64 @hash(ptr %args, i64 %nargs, ptr %kwnames) {
entry:
  %named = ptrtoint ptr %kwnames to i64
  %start = call i64 @mix(i64 %nargs, i64 %named)
  %most = icmp ult i64 %nargs, 6
  %end = select i1 %most, i64 %nargs, i64 6
  br label %loop
loop:
  %index = phi i64 [0, %entry], [%next, %with]
  %hash = phi i64 [%start, %entry], [%result, %with]
  %more = icmp ult i64 %index, %end
  br i1 %more, label %some, label %done
some:
  %place = getelementptr ptr, ptr %args, i64 %index
  %item = load ptr, ptr %place
  %type = call ptr @read(ptr %item, i64 ${object_type})
  %type_bits = ptrtoint ptr %type to i64
  %typed = call i64 @mix(i64 %hash, i64 %type_bits)
  %is_array = icmp eq ptr %type, @PyArray_Type
  br i1 %is_array, label %array, label %other
other:
  %is_text = icmp eq ptr %type, @PyUnicode_Type
  br i1 %is_text, label %text, label %with
text:
  %text_bits = ptrtoint ptr %item to i64
  %texted = call i64 @mix(i64 %typed, i64 %text_bits)
  br label %with
array:
  %rank_place = getelementptr i8, ptr %item, i64 ${array_ndim}
  %rank = load i32, ptr %rank_place
  %rank_wide = zext i32 %rank to i64
  %flags_place = getelementptr i8, ptr %item, i64 ${array_flags}
  %flags = load i32, ptr %flags_place
  %contiguous = and i32 %flags, 1
  %contiguous_wide = zext i32 %contiguous to i64
  %shifted = shl i64 %contiguous_wide, 32
  %form = or i64 %rank_wide, %shifted
  %dtype = call i64 @read_i64(ptr %item, i64 ${array_dtype})
  %formed = xor i64 %form, %dtype
  %arrayed = call i64 @mix(i64 %typed, i64 %formed)
  %scalar = icmp eq i32 %rank, 0
  br i1 %scalar, label %with, label %shape
shape:
  %dims = call ptr @read(ptr %item, i64 ${array_shape})
  %outer = load i64, ptr %dims
  %last = sub i64 %rank_wide, 1
  %inner_place = call ptr @word(ptr %dims, i64 %last)
  %inner = load i64, ptr %inner_place
  %shaped = call i64 @mix(i64 %arrayed, i64 %outer)
  %full = call i64 @mix(i64 %shaped, i64 %inner)
  br label %with
with:
  %result = phi i64 [%typed, %other], [%texted, %text], [%arrayed, %array], [%full, %shape]
  %next = add i64 %index, 1
  br label %loop
done:
  %bits = and i64 %hash, ${hint_mask}
  ret i64 %bits
}

define void @tj_append(ptr %state, ptr %record) {
entry:
  %chain = call ptr @word(ptr %state, i64 ${chain_word})
  %count = load i64, ptr %state
  br label %move
move:
  %to = phi i64 [%count, %entry], [%from, %shift]
  %at_front = icmp eq i64 %to, 0
  br i1 %at_front, label %put, label %shift
shift:
  %from = sub i64 %to, 1
  %from_place = call ptr @word(ptr %chain, i64 %from)
  %to_place = call ptr @word(ptr %chain, i64 %to)
  %moved = load ptr, ptr %from_place
  store ptr %moved, ptr %to_place
  br label %move
put:
  store ptr %record, ptr %chain
  %more = add i64 %count, 1
  store i64 %more, ptr %state
  call void @stamp(ptr %state, ptr %record)
  ret void
}

define void @tj_remove(ptr %state, ptr %record) {
entry:
  call void @forget(ptr %state)
  %chain = call ptr @word(ptr %state, i64 ${chain_word})
  %count = load i64, ptr %state
  br label %loop
loop:
  %index = phi i64 [0, %entry], [%next, %kept]
  %kept_count = phi i64 [0, %entry], [%kept_next, %kept]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %done
some:
  %place = call ptr @word(ptr %chain, i64 %index)
  %found = load ptr, ptr %place
  %to_place = call ptr @word(ptr %chain, i64 %kept_count)
  store ptr %found, ptr %to_place
  %stays = icmp ne ptr %found, %record
  %one = zext i1 %stays to i64
  br label %kept
kept:
  %kept_next = add i64 %kept_count, %one
  %next = add i64 %index, 1
  br label %loop
done:
  store i64 %kept_count, ptr %state
  ret void
}

define void @tj_clear(ptr %state) {
  call void @forget(ptr %state)
  store i64 0, ptr %state
  ret void
}

define internal void @forget(ptr %state) {
  %hints = call ptr @word(ptr %state, i64 ${hints_word})
  call void @llvm.memset.p0.i64(ptr %hints, i8 0, i64 ${hints_bytes}, i1 false)
  ret void
}
