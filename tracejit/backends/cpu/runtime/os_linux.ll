; What Linux alone has: sleeping on a word of memory, and huge pages.
; Operations 128 and 129 of futex: wait and wake, private; the time-out is relative, { seconds, nanoseconds }, null is none.

declare i64 @syscall(i64, ...)

define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {
  %limited = icmp sgt i32 %milliseconds, 0
  %time = alloca [2 x i64]
  %total = zext i32 %milliseconds to i64
  %seconds = udiv i64 %total, 1000
  %rest = urem i64 %total, 1000
  %nanoseconds = mul i64 %rest, 1000000
  %time1 = getelementptr i64, ptr %time, i64 1
  store i64 %seconds, ptr %time
  store i64 %nanoseconds, ptr %time1
  %timeout = select i1 %limited, ptr %time, ptr null
  %r = call i64 (i64, ...) @syscall(i64 ${futex}, ptr %word, i64 128, i32 %expected, ptr %timeout)
  ret void
}

define internal void @os_wake(ptr %word, i32 %count) alwaysinline {
  %r = call i64 (i64, ...) @syscall(i64 ${futex}, ptr %word, i64 129, i32 %count)
  ret void
}

; 14 is MADV_HUGEPAGE. A first write to 64 MB took 37 ms with small pages and 9 with huge ones (2 cores, Zen 4, a virtual machine).
declare i32 @madvise(ptr, i64, i32)

define internal void @os_prefer_huge_pages(ptr %data, i64 %bytes) alwaysinline {
  %whole = and i64 %bytes, -2097152
  %r = call i32 @madvise(ptr %data, i64 %whole, i32 14)
  ret void
}
