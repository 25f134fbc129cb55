; What macOS alone has: sleeping on a word of memory. Not a documented interface, but the one that the system's own C++ library stands on.
; 16777217 is UL_COMPARE_AND_WAIT (1) and ULF_NO_ERRNO (0x01000000), 16777473 ULF_WAKE_ALL (0x100) as well; the time-out counts microseconds,
; 0 is none.

declare i32 @__ulock_wait(i32, ptr, i64, i32)
declare i32 @__ulock_wake(i32, ptr, i64)

define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {
  %value = zext i32 %expected to i64
  %limited = icmp sgt i32 %milliseconds, 0
  %scaled = mul i32 %milliseconds, 1000
  %timeout = select i1 %limited, i32 %scaled, i32 0
  %r = call i32 @__ulock_wait(i32 16777217, ptr %word, i64 %value, i32 %timeout)
  ret void
}

define internal void @os_wake(ptr %word, i32 %count) alwaysinline {
  %many = icmp sgt i32 %count, 1
  %operation = select i1 %many, i32 16777473, i32 16777217
  %r = call i32 @__ulock_wake(i32 %operation, ptr %word, i64 0)
  ret void
}

define internal void @os_prefer_huge_pages(ptr %data, i64 %bytes) alwaysinline {
  ret void
}
