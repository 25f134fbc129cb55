; The functions that compiled entries call: work that loops or is rare. Offsets into objects of Python's and
; NumPy's have the names they have in `Layout` (cpython.py).

@PyArray_Type = external global i8
@PyComplex_Type = external global i8
@PyFloat_Type = external global i8
@PyTuple_Type = external global i8
@PyUnicode_Type = external global i8
@_Py_TrueStruct = external global i8

declare i32 @tj_compare_memory(ptr, ptr, i64) ; C's memcmp
declare ptr @PyDict_New()
declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare void @PyErr_Clear()
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLong(i64)
declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyUnicode_Compare(ptr, ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

; The word `index` after `base`.
define internal ptr @word(ptr %base, i64 %index) alwaysinline {
  %place = getelementptr i64, ptr %base, i64 %index
  ret ptr %place
}

define internal ptr @read(ptr %base, i64 %offset) alwaysinline {
  %place = getelementptr i8, ptr %base, i64 %offset
  %found = load ptr, ptr %place
  ret ptr %found
}

define internal i64 @read_i64(ptr %base, i64 %offset) alwaysinline {
  %place = getelementptr i8, ptr %base, i64 %offset
  %found = load i64, ptr %place
  ret i64 %found
}

; Whether every watched word is as it was: the count, then for each its address, a mask, the value. Then blocks of words, which the words
; before have proved to be there: the count, for each its address, the number of words, a copy. Then a callable that tells the rest, or 0.
define i1 @tj_watched(ptr %table) {
entry:
  %none = icmp eq ptr %table, null
  br i1 %none, label %no, label %start
start:
  %count = load i64, ptr %table
  %first = call ptr @word(ptr %table, i64 1)
  br label %loop
loop:
  %index = phi i64 [0, %start], [%next, %same]
  %record = phi ptr [%first, %start], [%record_next, %same]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %blocks
some:
  %place = load ptr, ptr %record
  %found = load i64, ptr %place
  %mask = call i64 @read_i64(ptr %record, i64 8)
  %expected = call i64 @read_i64(ptr %record, i64 16)
  %masked = and i64 %found, %mask
  %equal = icmp eq i64 %masked, %expected
  br i1 %equal, label %same, label %no
same:
  %next = add i64 %index, 1
  %record_next = call ptr @word(ptr %record, i64 3)
  br label %loop
blocks:
  %block_count = load i64, ptr %record
  %first_block = call ptr @word(ptr %record, i64 1)
  br label %block_loop
block_loop:
  %block_index = phi i64 [0, %blocks], [%block_next, %block_same]
  %block = phi ptr [%first_block, %blocks], [%next_block, %block_same]
  %more_blocks = icmp ult i64 %block_index, %block_count
  br i1 %more_blocks, label %some_block, label %rest
some_block:
  %memory = load ptr, ptr %block
  %size = call i64 @read_i64(ptr %block, i64 8)
  %copy = call ptr @read(ptr %block, i64 16)
  %bytes = shl i64 %size, 3
  %order = call i32 @tj_compare_memory(ptr %memory, ptr %copy, i64 %bytes)
  %block_equal = icmp eq i32 %order, 0
  br i1 %block_equal, label %block_same, label %no
block_same:
  %block_next = add i64 %block_index, 1
  %next_block = call ptr @word(ptr %block, i64 3)
  br label %block_loop
rest:
  %callable = load ptr, ptr %block
  %told = icmp eq ptr %callable, null
  br i1 %told, label %yes, label %ask
ask:
  %answer = call ptr @PyObject_Vectorcall(ptr %callable, ptr null, i64 0, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %error, label %answered
error:
  call void @PyErr_Clear()
  ret i1 false
answered:
  %holds = icmp eq ptr %answer, @_Py_TrueStruct
  call void @Py_DecRef(ptr %answer)
  ret i1 %holds
yes:
  ret i1 true
no:
  ret i1 false
}

define void @tj_release(ptr %own, i64 %count) {
entry:
  br label %loop
loop:
  %index = phi i64 [0, %entry], [%next, %done]
  %place = getelementptr ptr, ptr %own, i64 %index
  %item = load ptr, ptr %place
  %held = icmp ne ptr %item, null
  br i1 %held, label %release, label %done
release:
  call void @Py_DecRef(ptr %item)
  br label %done
done:
  %next = add i64 %index, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}

; Whether `count` objects are arrays as the records say: dtype, (mask, value) of the flags, (rank, whether equal type numbers and native
; byte order mean one dtype), and for each axis an extent, or the complement of a name's index in `dims`, where -1 means not bound yet.
define i1 @tj_match_arrays(ptr %items, ptr %records, i64 %count, ptr %dims) {
entry:
  br label %loop
loop:
  %index = phi i64 [0, %entry], [%index_next, %next]
  %record = phi ptr [%records, %entry], [%record_next, %next]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %yes
some:
  %place = getelementptr ptr, ptr %items, i64 %index
  %item = load ptr, ptr %place
  %type = call ptr @read(ptr %item, i64 ${object_type})
  %is_array = icmp eq ptr %type, @PyArray_Type
  br i1 %is_array, label %array, label %no
array:
  %mask_place = getelementptr i8, ptr %record, i64 8
  %mask = load i32, ptr %mask_place
  %value_place = getelementptr i8, ptr %record, i64 12
  %value = load i32, ptr %value_place
  %rank_place = getelementptr i8, ptr %record, i64 16
  %rank = load i32, ptr %rank_place
  %flags_place = getelementptr i8, ptr %item, i64 ${array_flags}
  %flags = load i32, ptr %flags_place
  %masked = and i32 %flags, %mask
  %flags_fit = icmp eq i32 %masked, %value
  %own_rank_place = getelementptr i8, ptr %item, i64 ${array_ndim}
  %own_rank = load i32, ptr %own_rank_place
  %rank_fits = icmp eq i32 %rank, %own_rank
  %form_fits = and i1 %flags_fit, %rank_fits
  br i1 %form_fits, label %type_of, label %no
type_of:
  %wanted = load ptr, ptr %record
  %dtype = call ptr @read(ptr %item, i64 ${array_dtype})
  %same_object = icmp eq ptr %dtype, %wanted
  br i1 %same_object, label %shape, label %other_object
other_object:
  %builtin_place = getelementptr i8, ptr %record, i64 20
  %builtin = load i32, ptr %builtin_place
  %is_builtin = icmp ne i32 %builtin, 0
  %number_place = getelementptr i8, ptr %dtype, i64 ${dtype_num}
  %number = load i32, ptr %number_place
  %wanted_place = getelementptr i8, ptr %wanted, i64 ${dtype_num}
  %wanted_number = load i32, ptr %wanted_place
  %order_place = getelementptr i8, ptr %dtype, i64 ${dtype_byteorder}
  %order = load i8, ptr %order_place
  %same_number = icmp eq i32 %number, %wanted_number
  %native = icmp ne i8 %order, ${swapped_byteorder}
  %number_fits = and i1 %same_number, %native
  %dtype_fits = and i1 %number_fits, %is_builtin
  br i1 %dtype_fits, label %shape, label %no
shape:
  %extents = call ptr @read(ptr %item, i64 ${array_shape})
  %first = getelementptr i8, ptr %record, i64 24
  %rank_wide = zext i32 %rank to i64
  br label %axes
axes:
  %axis = phi i64 [0, %shape], [%axis_next, %fits]
  %further = icmp ult i64 %axis, %rank_wide
  br i1 %further, label %extent, label %next
extent:
  %want_place = call ptr @word(ptr %first, i64 %axis)
  %want = load i64, ptr %want_place
  %have_place = call ptr @word(ptr %extents, i64 %axis)
  %have = load i64, ptr %have_place
  %equal = icmp eq i64 %want, %have
  br i1 %equal, label %fits, label %unequal
unequal:
  %is_name = icmp slt i64 %want, 0
  br i1 %is_name, label %name, label %no
name:
  %name_index = xor i64 %want, -1
  %bound_place = call ptr @word(ptr %dims, i64 %name_index)
  %bound = load i64, ptr %bound_place
  %bound_equal = icmp eq i64 %bound, %have
  br i1 %bound_equal, label %fits, label %bind
bind:
  %unbound = icmp eq i64 %bound, -1
  %not_one = icmp ne i64 %have, 1
  %free = and i1 %unbound, %not_one
  store i64 %have, ptr %bound_place
  br i1 %free, label %fits, label %no
fits:
  %axis_next = add i64 %axis, 1
  br label %axes
next:
  %index_next = add i64 %index, 1
  %record_next = call ptr @word(ptr %first, i64 %rank_wide)
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether the first `written` of `count` ranges (first byte, the one after the last; equal if empty) overlap none after them.
define i1 @tj_disjoint(ptr %ranges, i64 %written, i64 %count) {
entry:
  br label %outer
outer:
  %index = phi i64 [0, %entry], [%index_next, %next]
  %more = icmp ult i64 %index, %written
  br i1 %more, label %some, label %yes
some:
  %index_next = add i64 %index, 1
  %word_index = mul i64 %index, 2
  %low_place = call ptr @word(ptr %ranges, i64 %word_index)
  %low = load i64, ptr %low_place
  %high = call i64 @read_i64(ptr %low_place, i64 8)
  %empty = icmp eq i64 %low, %high
  br i1 %empty, label %next, label %inner
inner:
  %other = phi i64 [%index_next, %some], [%other_next, %apart]
  %further = icmp ult i64 %other, %count
  br i1 %further, label %compare, label %next
compare:
  %other_word = mul i64 %other, 2
  %start_place = call ptr @word(ptr %ranges, i64 %other_word)
  %start = load i64, ptr %start_place
  %end = call i64 @read_i64(ptr %start_place, i64 8)
  %before = icmp ule i64 %high, %start
  %after = icmp ule i64 %end, %low
  %void = icmp eq i64 %start, %end
  %beside = or i1 %before, %after
  %fine = or i1 %beside, %void
  br i1 %fine, label %apart, label %no
apart:
  %other_next = add i64 %other, 1
  br label %inner
next:
  br label %outer
yes:
  ret i1 true
no:
  ret i1 false
}

; The value of an exact int, if it is one that is passed as an argument (`ranges.ARGUMENTS`). How %compact, at most one digit, and %sign
; are read from the size depends on Python's version.
define i1 @tj_int_value(ptr %item, ptr %value) {
  %overflow = alloca i32
  %size = call i64 @read_i64(ptr %item, i64 ${long_size})
  %digit_place = getelementptr i8, ptr %item, i64 ${long_digit}
  %tag_compact = icmp ult i64 %size, 16
  %sign_bits = and i64 %size, 3
  %tag_sign = sub i64 1, %sign_bits
  %size_moved = add i64 %size, 1
  %size_compact = icmp ult i64 %size_moved, 3
  %compact = select i1 ${long_tag}, i1 %tag_compact, i1 %size_compact
  %sign = select i1 ${long_tag}, i64 %tag_sign, i64 %size
  br i1 %compact, label %one, label %many
one:
  %digit = load i32, ptr %digit_place
  %wide = zext i32 %digit to i64
  %product = mul i64 %wide, %sign
  store i64 %product, ptr %value
  ret i1 true
many:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %overflow)
  store i64 %number, ptr %value
  %over = load i32, ptr %overflow
  %whole = icmp eq i32 %over, 0
  %moved = add i64 %number, ${most_argument}
  %small = icmp ule i64 %moved, ${twice_most_argument}
  %fits = and i1 %whole, %small
  ret i1 %fits
}

; The values passed by keyword in the order of `keys`. Names that are the expected ones in the expected order are found at once.
define i1 @tj_keyword_values(ptr %kwnames, ptr %passed, ptr %keys, i64 %count, ptr %values) {
entry:
  %size = call i64 @read_i64(ptr %kwnames, i64 ${sequence_size})
  %right_size = icmp eq i64 %size, %count
  br i1 %right_size, label %loop, label %no
loop:
  %index = phi i64 [0, %entry], [%next, %found]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %yes
some:
  %key_place = getelementptr ptr, ptr %keys, i64 %index
  %key = load ptr, ptr %key_place
  %names = getelementptr i8, ptr %kwnames, i64 ${tuple_items}
  %name_place = getelementptr ptr, ptr %names, i64 %index
  %name = load ptr, ptr %name_place
  %usual = icmp eq ptr %name, %key
  br i1 %usual, label %found, label %search
search:
  %other = call i64 @find_keyword(ptr %kwnames, ptr %key)
  %there = icmp sge i64 %other, 0
  br i1 %there, label %found, label %no
found:
  %at = phi i64 [%index, %some], [%other, %search]
  %from = getelementptr ptr, ptr %passed, i64 %at
  %value = load ptr, ptr %from
  %to = getelementptr ptr, ptr %values, i64 %index
  store ptr %value, ptr %to
  %next = add i64 %index, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; Whether exactly these keywords are passed, in this order.
define i1 @tj_keywords_in_order(ptr %kwnames, ptr %keys, i64 %count) {
entry:
  %size = call i64 @read_i64(ptr %kwnames, i64 ${sequence_size})
  %right_size = icmp eq i64 %size, %count
  br i1 %right_size, label %loop, label %no
loop:
  %index = phi i64 [0, %entry], [%next, %same]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %yes
some:
  %key_place = getelementptr ptr, ptr %keys, i64 %index
  %key = load ptr, ptr %key_place
  %names = getelementptr i8, ptr %kwnames, i64 ${tuple_items}
  %name_place = getelementptr ptr, ptr %names, i64 %index
  %name = load ptr, ptr %name_place
  %usual = icmp eq ptr %name, %key
  br i1 %usual, label %same, label %other
other:
  %order = call i32 @PyUnicode_Compare(ptr %name, ptr %key)
  %equal = icmp eq i32 %order, 0
  br i1 %equal, label %same, label %no
same:
  %next = add i64 %index, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i64 @find_keyword(ptr %kwnames, ptr %key) {
entry:
  %count = call i64 @read_i64(ptr %kwnames, i64 ${sequence_size})
  %names = getelementptr i8, ptr %kwnames, i64 ${tuple_items}
  br label %identity
identity:
  %index = phi i64 [0, %entry], [%next, %other]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %equality
some:
  %place = getelementptr ptr, ptr %names, i64 %index
  %name = load ptr, ptr %place
  %same = icmp eq ptr %name, %key
  br i1 %same, label %found, label %other
other:
  %next = add i64 %index, 1
  br label %identity
found:
  ret i64 %index
equality:
  %index2 = phi i64 [0, %identity], [%next2, %other2]
  %more2 = icmp ult i64 %index2, %count
  br i1 %more2, label %some2, label %none
some2:
  %place2 = getelementptr ptr, ptr %names, i64 %index2
  %name2 = load ptr, ptr %place2
  %order = call i32 @PyUnicode_Compare(ptr %name2, ptr %key)
  %equal = icmp eq i32 %order, 0
  br i1 %equal, label %found2, label %other2
other2:
  %next2 = add i64 %index2, 1
  br label %equality
found2:
  ret i64 %index2
none:
  ret i64 -1
}

; The values of a dict with exactly these keys in this order. Only exact strings are compared, so that no Python code runs.
define i1 @tj_dict_values(ptr %dict, ptr %keys, i64 %count, ptr %values) {
entry:
  %position = alloca i64
  %key_place = alloca ptr
  %value_place = alloca ptr
  store i64 0, ptr %position
  br label %loop
loop:
  %index = phi i64 [0, %entry], [%next, %same]
  %more = call i32 @PyDict_Next(ptr %dict, ptr %position, ptr %key_place, ptr %value_place)
  %got = icmp ne i32 %more, 0
  %wanted = icmp ult i64 %index, %count
  %both = and i1 %got, %wanted
  br i1 %both, label %compare, label %end
end:
  %neither = icmp eq i1 %got, %wanted
  ret i1 %neither
compare:
  %key = load ptr, ptr %key_place
  %expected_place = getelementptr ptr, ptr %keys, i64 %index
  %expected = load ptr, ptr %expected_place
  %is_same = icmp eq ptr %key, %expected
  br i1 %is_same, label %same, label %other
same:
  %value = load ptr, ptr %value_place
  %into = getelementptr ptr, ptr %values, i64 %index
  store ptr %value, ptr %into
  %next = add i64 %index, 1
  br label %loop
other:
  %type = call ptr @read(ptr %key, i64 ${object_type})
  %is_text = icmp eq ptr %type, @PyUnicode_Type
  br i1 %is_text, label %text, label %no
text:
  %order = call i32 @PyUnicode_Compare(ptr %key, ptr %expected)
  %equal = icmp eq i32 %order, 0
  br i1 %equal, label %same, label %no
no:
  ret i1 false
}

; Whether two distinct objects are the same static argument. `item` is not owned by anybody here, and == may drop it.
define i1 @tj_static_equal(ptr %value, ptr %item) {
  %type = call ptr @read(ptr %value, i64 ${object_type})
  %item_type = call ptr @read(ptr %item, i64 ${object_type})
  %same_type = icmp eq ptr %type, %item_type
  br i1 %same_type, label %kinds, label %no
kinds:
  %is_float = icmp eq ptr %type, @PyFloat_Type
  br i1 %is_float, label %float, label %not_float
not_float:
  %is_complex = icmp eq ptr %type, @PyComplex_Type
  br i1 %is_complex, label %complex, label %not_complex
not_complex:
  %is_tuple = icmp eq ptr %type, @PyTuple_Type
  br i1 %is_tuple, label %tuple, label %any
float:
  %f1 = call i64 @read_i64(ptr %value, i64 ${float_value})
  %f2 = call i64 @read_i64(ptr %item, i64 ${float_value})
  %f = icmp eq i64 %f1, %f2
  ret i1 %f
complex:
  %re1 = call i64 @read_i64(ptr %value, i64 ${complex_value})
  %re2 = call i64 @read_i64(ptr %item, i64 ${complex_value})
  %im1 = call i64 @read_i64(ptr %value, i64 ${complex_imaginary})
  %im2 = call i64 @read_i64(ptr %item, i64 ${complex_imaginary})
  %re = icmp eq i64 %re1, %re2
  %im = icmp eq i64 %im1, %im2
  %both = and i1 %re, %im
  ret i1 %both
tuple:
  call void @Py_IncRef(ptr %item)
  %equal = call i1 @tuple_equal(ptr %value, ptr %item)
  call void @Py_DecRef(ptr %item)
  ret i1 %equal
any:
  call void @Py_IncRef(ptr %item)
  %answer = call i32 @PyObject_RichCompareBool(ptr %value, ptr %item, i32 2)
  call void @Py_DecRef(ptr %item)
  %failed = icmp slt i32 %answer, 0
  br i1 %failed, label %clear, label %answered
answered:
  %yes = icmp ne i32 %answer, 0
  ret i1 %yes
clear:
  call void @PyErr_Clear()
  ret i1 false
no:
  ret i1 false
}

define internal i1 @tuple_equal(ptr %one, ptr %two) {
entry:
  %count = call i64 @read_i64(ptr %one, i64 ${sequence_size})
  %count_two = call i64 @read_i64(ptr %two, i64 ${sequence_size})
  %same_size = icmp eq i64 %count, %count_two
  br i1 %same_size, label %loop, label %no
loop:
  %index = phi i64 [0, %entry], [%next, %equal]
  %more = icmp ult i64 %index, %count
  br i1 %more, label %some, label %yes
some:
  %skip = mul i64 %index, 8
  %offset = add i64 %skip, ${tuple_items}
  %left = call ptr @read(ptr %one, i64 %offset)
  %right = call ptr @read(ptr %two, i64 %offset)
  %same = icmp eq ptr %left, %right
  br i1 %same, label %equal, label %compare
compare:
  %answer = call i1 @tj_static_equal(ptr %left, ptr %right)
  br i1 %answer, label %equal, label %no
equal:
  %next = add i64 %index, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}

; handler(status, args, kwargs)
define ptr @tj_entry_status(ptr %handler, i32 %status, ptr %args, i64 %nargs, ptr %kwnames) {
entry:
  %passed = alloca [3 x ptr]
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  %tuple = call ptr @PyTuple_New(i64 %nargs)
  %dict = call ptr @PyDict_New()
  store ptr %number, ptr %passed
  %second = call ptr @word(ptr %passed, i64 1)
  store ptr %tuple, ptr %second
  %third = call ptr @word(ptr %passed, i64 2)
  store ptr %dict, ptr %third
  %no_number = icmp eq ptr %number, null
  %no_tuple = icmp eq ptr %tuple, null
  %no_dict = icmp eq ptr %dict, null
  %one_missing = or i1 %no_number, %no_tuple
  %missing = or i1 %one_missing, %no_dict
  br i1 %missing, label %fail, label %positional
positional:
  %index = phi i64 [0, %entry], [%next, %fill]
  %more = icmp ult i64 %index, %nargs
  br i1 %more, label %fill, label %named
fill:
  %from = getelementptr ptr, ptr %args, i64 %index
  %item = load ptr, ptr %from
  call void @Py_IncRef(ptr %item)
  %items = getelementptr i8, ptr %tuple, i64 ${tuple_items}
  %to = getelementptr ptr, ptr %items, i64 %index
  store ptr %item, ptr %to
  %next = add i64 %index, 1
  br label %positional
named:
  %nameless = icmp eq ptr %kwnames, null
  br i1 %nameless, label %call, label %count
count:
  %names = call i64 @read_i64(ptr %kwnames, i64 ${sequence_size})
  br label %keyword
keyword:
  %at = phi i64 [0, %count], [%at_next, %set]
  %further = icmp ult i64 %at, %names
  br i1 %further, label %set, label %call
set:
  %name_items = getelementptr i8, ptr %kwnames, i64 ${tuple_items}
  %name_place = getelementptr ptr, ptr %name_items, i64 %at
  %name = load ptr, ptr %name_place
  %behind = add i64 %nargs, %at
  %value_place = getelementptr ptr, ptr %args, i64 %behind
  %value = load ptr, ptr %value_place
  %at_next = add i64 %at, 1
  %failed = call i32 @PyDict_SetItem(ptr %dict, ptr %name, ptr %value)
  %set_fine = icmp eq i32 %failed, 0
  br i1 %set_fine, label %keyword, label %fail
call:
  %answer = call ptr @PyObject_Vectorcall(ptr %handler, ptr %passed, i64 3, ptr null)
  call void @tj_release(ptr %passed, i64 3)
  ret ptr %answer
fail:
  call void @tj_release(ptr %passed, i64 3)
  ret ptr null
}
