; Recycled memory, NumPy's handler for it, and the function that makes result arrays. The notes are in memory.py; `@os_wait` and its like
; come from os_functions.py.

%header = type { ptr, i64, ptr, ptr, ptr, ptr, i64, i64 }    ; malloc's block, capacity, class links, age links (younger, older), time
@lock = internal global i32 0, align 128                     ; 0 free, 1 held, 2 held and somebody sleeps
@held = global i64 0, align 8                                ; bytes in free blocks
@limit = global i64 0, align 8
@lists = internal global [${classes} x ptr] zeroinitializer
@youngest = internal global ptr null
@oldest = internal global ptr null
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umin.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)

define internal void @acquire() {
entry:
  %x = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %x, 1
  br i1 %won, label %out, label %spin
spin:
  %k = phi i32 [ 0, %entry ], [ %k1, %spin2 ]
  call void @os_pause()
  %y = cmpxchg ptr @lock, i32 0, i32 1 acquire monotonic
  %won2 = extractvalue { i32, i1 } %y, 1
  br i1 %won2, label %out, label %spin2
spin2:
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, 50
  br i1 %more, label %spin, label %sleep
sleep:
  %before = atomicrmw xchg ptr @lock, i32 2 acquire
  %free = icmp eq i32 %before, 0
  br i1 %free, label %out, label %wait
wait:
  call void @os_wait(ptr @lock, i32 2, i32 0)
  br label %sleep
out:
  ret void
}

define internal void @release() {
  %before = atomicrmw xchg ptr @lock, i32 0 release
  %asleep = icmp eq i32 %before, 2
  br i1 %asleep, label %wake, label %out
wake:
  call void @os_wake(ptr @lock, i32 1)
  br label %out
out:
  ret void
}

; Capacity classes: with k the highest bit of bytes - 1, capacities are multiples of 2^(k-3).
define internal { i64, i64 } @classify(i64 %bytes) {          ; class, capacity
  %c = sub i64 %bytes, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %c, i1 false)
  %shift = sub i64 60, %zeros
  %part = lshr i64 %c, %shift
  %part1 = add i64 %part, 1
  %capacity = shl i64 %part1, %shift
  %octave = mul i64 %shift, 8
  %number = add i64 %octave, %part
  %class = sub i64 %number, ${first_class}
  %a = insertvalue { i64, i64 } poison, i64 %class, 0
  %b = insertvalue { i64, i64 } %a, i64 %capacity, 1
  ret { i64, i64 } %b
}

; Takes a free block out of both lists. The lock is held.
define internal void @unlink(ptr %h) {
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  %nextp = getelementptr %header, ptr %h, i64 0, i32 2
  %previousp = getelementptr %header, ptr %h, i64 0, i32 3
  %youngerp = getelementptr %header, ptr %h, i64 0, i32 4
  %olderp = getelementptr %header, ptr %h, i64 0, i32 5
  %capacity = load i64, ptr %capacityp
  %next = load ptr, ptr %nextp
  %previous = load ptr, ptr %previousp
  %younger = load ptr, ptr %youngerp
  %older = load ptr, ptr %olderp
  %held = load i64, ptr @held
  %held1 = sub i64 %held, %capacity
  store atomic i64 %held1, ptr @held monotonic, align 8
  %both = call { i64, i64 } @classify(i64 %capacity)
  %class = extractvalue { i64, i64 } %both, 0
  %list = getelementptr ptr, ptr @lists, i64 %class
  %first = icmp eq ptr %previous, null
  %before = getelementptr %header, ptr %previous, i64 0, i32 2
  %from = select i1 %first, ptr %list, ptr %before
  store ptr %next, ptr %from
  %last = icmp eq ptr %next, null
  br i1 %last, label %ages, label %mend
mend:
  %after = getelementptr %header, ptr %next, i64 0, i32 3
  store ptr %previous, ptr %after
  br label %ages
ages:
  %is_youngest = icmp eq ptr %younger, null
  %younger_link = getelementptr %header, ptr %younger, i64 0, i32 5
  %a = select i1 %is_youngest, ptr @youngest, ptr %younger_link
  store ptr %older, ptr %a
  %is_oldest = icmp eq ptr %older, null
  %older_link = getelementptr %header, ptr %older, i64 0, i32 4
  %b = select i1 %is_oldest, ptr @oldest, ptr %older_link
  store ptr %younger, ptr %b
  ret void
}

; Puts a block at the head of both lists. The lock is held.
define internal void @link(ptr %h, i64 %capacity, i64 %now) {
  %both = call { i64, i64 } @classify(i64 %capacity)
  %class = extractvalue { i64, i64 } %both, 0
  %list = getelementptr ptr, ptr @lists, i64 %class
  %next = load ptr, ptr %list
  %older = load ptr, ptr @youngest
  %nextp = getelementptr %header, ptr %h, i64 0, i32 2
  %previousp = getelementptr %header, ptr %h, i64 0, i32 3
  %youngerp = getelementptr %header, ptr %h, i64 0, i32 4
  %olderp = getelementptr %header, ptr %h, i64 0, i32 5
  %timep = getelementptr %header, ptr %h, i64 0, i32 6
  store ptr %next, ptr %nextp
  store ptr null, ptr %previousp
  store ptr null, ptr %youngerp
  store ptr %older, ptr %olderp
  store i64 %now, ptr %timep
  store ptr %h, ptr %list
  store ptr %h, ptr @youngest
  %held = load i64, ptr @held
  %held1 = add i64 %held, %capacity
  store atomic i64 %held1, ptr @held monotonic, align 8
  %last = icmp eq ptr %next, null
  br i1 %last, label %ages, label %mend
mend:
  %after = getelementptr %header, ptr %next, i64 0, i32 3
  store ptr %h, ptr %after
  br label %ages
ages:
  %only = icmp eq ptr %older, null
  %older_link = getelementptr %header, ptr %older, i64 0, i32 4
  %b = select i1 %only, ptr @oldest, ptr %older_link
  store ptr %h, ptr %b
  ret void
}

; Unlinks the oldest blocks while more than %keep bytes are held or they were released before %stale; returns them chained. The lock is
; held.
define internal ptr @evict(i64 %keep, i64 %stale) {
entry:
  br label %next
next:
  %chain = phi ptr [ null, %entry ], [ %h, %take ]
  %h = load ptr, ptr @oldest
  %none = icmp eq ptr %h, null
  br i1 %none, label %out, label %look
look:
  %held = load i64, ptr @held
  %over = icmp ugt i64 %held, %keep
  %timep = getelementptr %header, ptr %h, i64 0, i32 6
  %time = load i64, ptr %timep
  %old = icmp slt i64 %time, %stale
  %go = or i1 %over, %old
  br i1 %go, label %take, label %out
take:
  call void @unlink(ptr %h)
  %linkp = getelementptr %header, ptr %h, i64 0, i32 2
  store ptr %chain, ptr %linkp
  br label %next
out:
  ret ptr %chain
}

define internal void @give_back(ptr %chain) {
entry:
  br label %next
next:
  %h = phi ptr [ %chain, %entry ], [ %rest, %one ]
  %end = icmp eq ptr %h, null
  br i1 %end, label %out, label %one
one:
  %linkp = getelementptr %header, ptr %h, i64 0, i32 2
  %rest = load ptr, ptr %linkp
  %raw = load ptr, ptr %h
  call void @free(ptr %raw)
  br label %next
out:
  ret void
}

define void @trim(i64 %keep) {
  call void @acquire()
  %chain = call ptr @evict(i64 %keep, i64 -9223372036854775808)
  call void @release()
  call void @give_back(ptr %chain)
  ret void
}

; In a forked child: another thread may have been changing the lists, and the lock cannot be held over the fork, since threads that hold
; the GIL wait for it. So the child forgets the free blocks; it never touches them, so they cost it nothing.
define void @forget() {
  call void @llvm.memset.p0.i64(ptr @lists, i8 0, i64 ${lists_bytes}, i1 false)
  store ptr null, ptr @youngest
  store ptr null, ptr @oldest
  store atomic i64 0, ptr @held monotonic, align 8
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

; A block from the system: data aligned to %alignment, its header before it.
define internal ptr @fresh(i64 %capacity, i64 %alignment) {
  %slack = add i64 %alignment, 64
  %size = add i64 %capacity, %slack
  %raw = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %place
place:
  %address = ptrtoint ptr %raw to i64
  %far = add i64 %address, %slack
  %down = sub i64 0, %alignment
  %aligned = and i64 %far, %down
  %data = inttoptr i64 %aligned to ptr
  %h = getelementptr i8, ptr %data, i64 -64
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  store ptr %raw, ptr %h
  store i64 %capacity, ptr %capacityp
  ret ptr %data
fail:
  ret ptr null
}

define ptr @tj_alloc(i64 %bytes) {
entry:
  %small = icmp ult i64 %bytes, ${large}
  br i1 %small, label %direct, label %check
direct:
  %p = call ptr @fresh(i64 %bytes, i64 64)
  ret ptr %p
check:
  %absurd = icmp ugt i64 %bytes, ${most}
  br i1 %absurd, label %fail, label %search
search:
  %both = call { i64, i64 } @classify(i64 %bytes)
  %class = extractvalue { i64, i64 } %both, 0
  %capacity = extractvalue { i64, i64 } %both, 1
  %last = add i64 %class, 2
  call void @acquire()
  br label %try
try:
  %c = phi i64 [ %class, %search ], [ %c1, %empty ]
  %list = getelementptr ptr, ptr @lists, i64 %c
  %h = load ptr, ptr %list
  %none = icmp eq ptr %h, null
  br i1 %none, label %empty, label %found
empty:
  %c1 = add i64 %c, 1
  %more = icmp ule i64 %c1, %last
  br i1 %more, label %try, label %new
found:
  call void @unlink(ptr %h)
  call void @release()
  %data = getelementptr i8, ptr %h, i64 64
  ret ptr %data
new:
  call void @release()
  %pays = icmp uge i64 %capacity, ${huge}
  %alignment = select i1 %pays, i64 ${huge_page}, i64 ${page}
  %q = call ptr @fresh(i64 %capacity, i64 %alignment)
  %got = icmp ne ptr %q, null
  br i1 %got, label %out, label %again
again:
  call void @trim(i64 0)
  %r = call ptr @fresh(i64 %capacity, i64 %alignment)
  %got2 = icmp ne ptr %r, null
  br i1 %got2, label %out, label %fail
out:
  %result = phi ptr [ %q, %new ], [ %r, %again ]
  br i1 %pays, label %advise, label %leave
advise:
  call void @os_prefer_huge_pages(ptr %result, i64 %capacity)
  br label %leave
leave:
  ret ptr %result
fail:
  ret ptr null
}

define void @tj_free(ptr %block, i64 %bytes) {
entry:
  %nothing = icmp eq ptr %block, null
  br i1 %nothing, label %out, label %look
look:
  %h = getelementptr i8, ptr %block, i64 -64
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  %capacity = load i64, ptr %capacityp
  %small = icmp ult i64 %capacity, ${large}
  %limit = load atomic i64, ptr @limit monotonic, align 8
  %huge = icmp ugt i64 %capacity, %limit
  %direct = or i1 %small, %huge
  br i1 %direct, label %drop, label %keep
drop:
  %raw = load ptr, ptr %h
  call void @free(ptr %raw)
  ret void
keep:
  %now = call i64 @os_milliseconds()
  %stale = sub i64 %now, ${stale_milliseconds}
  call void @acquire()
  call void @link(ptr %h, i64 %capacity, i64 %now)
  %chain = call ptr @evict(i64 %limit, i64 %stale)
  call void @release()
  call void @give_back(ptr %chain)
  ret void
out:
  ret void
}

; The functions of the handler, as NumPy calls them. `resize` may shrink a block below the size that is recycled: the header still tells.
define internal ptr @handler_malloc(ptr %context, i64 %bytes) {
  %p = call ptr @tj_alloc(i64 %bytes)
  ret ptr %p
}

define internal ptr @handler_calloc(ptr %context, i64 %count, i64 %size) {
  %m = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %bytes = extractvalue { i64, i1 } %m, 0
  %over = extractvalue { i64, i1 } %m, 1
  br i1 %over, label %fail, label %go
go:
  %p = call ptr @tj_alloc(i64 %bytes)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %clear
clear:
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %bytes, i1 false)
  ret ptr %p
fail:
  ret ptr null
}

define internal ptr @handler_realloc(ptr %context, ptr %old, i64 %bytes) {
  %nothing = icmp eq ptr %old, null
  br i1 %nothing, label %plain, label %compare
plain:
  %p = call ptr @tj_alloc(i64 %bytes)
  ret ptr %p
compare:
  %h = getelementptr i8, ptr %old, i64 -64
  %capacityp = getelementptr %header, ptr %h, i64 0, i32 1
  %capacity = load i64, ptr %capacityp
  %fits = icmp ule i64 %bytes, %capacity
  %half = lshr i64 %capacity, 1
  %fills = icmp uge i64 %bytes, %half
  %stay = and i1 %fits, %fills
  br i1 %stay, label %same, label %move
same:
  ret ptr %old
move:
  %q = call ptr @tj_alloc(i64 %bytes)
  %none = icmp eq ptr %q, null
  br i1 %none, label %fail, label %copy
copy:
  %n = call i64 @llvm.umin.i64(i64 %bytes, i64 %capacity)
  call void @llvm.memcpy.p0.p0.i64(ptr %q, ptr %old, i64 %n, i1 false)
  call void @tj_free(ptr %old, i64 %capacity)
  ret ptr %q
fail:
  ret ptr null
}

define internal void @handler_free(ptr %context, ptr %block, i64 %bytes) {
  call void @tj_free(ptr %block, i64 %bytes)
  ret void
}

; NumPy's PyDataMem_Handler: name, version, context, functions.
@handler = global { [127 x i8], i8, ptr, ptr, ptr, ptr, ptr } {
  [127 x i8] c"tracejit${padding}", i8 1,
  ptr null, ptr @handler_malloc, ptr @handler_calloc, ptr @handler_realloc, ptr @handler_free }

; The array's fields lie at offsets that memory.py has checked; where they do not, nothing is recycled.
@capsule = global ptr null
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyErr_NoMemory()
@PyArray_Type = external global i8

define ptr @tj_new_array(ptr %descr, i32 %nd, ptr %dims) {
entry:
  call void @Py_IncRef(ptr %descr)
  %sizep = getelementptr i8, ptr %descr, i64 ${itemsize}
  %size = load i64, ptr %sizep
  br i1 ${recycle}, label %next, label %plain
next:
  %bytes = phi i64 [ %size, %entry ], [ %product, %multiply ]
  %k = phi i32 [ 0, %entry ], [ %k1, %multiply ]
  %more = icmp slt i32 %k, %nd
  br i1 %more, label %multiply, label %decide
multiply:
  %p = getelementptr i64, ptr %dims, i32 %k
  %extent = load i64, ptr %p
  %m = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %bytes, i64 %extent)
  %product = extractvalue { i64, i1 } %m, 0
  %over = extractvalue { i64, i1 } %m, 1
  %k1 = add i32 %k, 1
  br i1 %over, label %plain, label %next
decide:
  %large = icmp uge i64 %bytes, ${large}
  br i1 %large, label %recycled, label %plain
plain:                                                     ; also where the size overflows: NumPy knows what to say
  %a = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  ret ptr %a
recycled:
  %data = call ptr @tj_alloc(i64 %bytes)
  %none = icmp eq ptr %data, null
  br i1 %none, label %plain, label %wrap
wrap:
  %b = call ptr @PyArray_NewFromDescr(ptr @PyArray_Type, ptr %descr, i32 %nd, ptr %dims, ptr null, ptr %data, i32 1281, ptr null)
  %failed = icmp eq ptr %b, null
  br i1 %failed, label %undo, label %own
undo:
  call void @tj_free(ptr %data, i64 %bytes)
  ret ptr null
own:
  %capsule = load ptr, ptr @capsule
  call void @Py_IncRef(ptr %capsule)
  %handlerp = getelementptr i8, ptr %b, i64 ${mem_handler}
  store ptr %capsule, ptr %handlerp
  %flagsp = getelementptr i8, ptr %b, i64 ${flags}
  %f = load i32, ptr %flagsp
  %f1 = or i32 %f, ${owndata}
  store i32 %f1, ptr %flagsp
  ret ptr %b
}
