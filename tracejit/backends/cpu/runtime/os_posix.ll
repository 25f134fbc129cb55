; What all systems but Windows share: clocks and threads.

declare i32 @clock_gettime(i32, ptr)

define internal i64 @os_milliseconds() alwaysinline {
  %now = call i64 @os_clock(i32 ${coarse_clock})
  %r = udiv i64 %now, 1000000
  ret i64 %r
}

define internal i64 @os_nanoseconds() alwaysinline {
  %now = call i64 @os_clock(i32 ${exact_clock})
  ret i64 %now
}

define internal i64 @os_clock(i32 %clock) alwaysinline {
  %time = alloca [2 x i64]
  %r = call i32 @clock_gettime(i32 %clock, ptr %time)
  %seconds = load i64, ptr %time
  %time1 = getelementptr i64, ptr %time, i64 1
  %nanoseconds = load i64, ptr %time1
  %a = mul i64 %seconds, 1000000000
  %b = add i64 %a, %nanoseconds
  ret i64 %b
}

; 2,048 bytes hold a sigset_t or pthread_attr_t of any system. Signals 4 to 8, 10 and 11 are the faults (ILL TRAP ABRT BUS FPE SEGV). musl and
; macOS give threads 128 and 512 KiB of stack unless asked; pages that are not touched cost nothing.
declare i32 @pthread_attr_init(ptr)
declare i32 @pthread_attr_destroy(ptr)
declare i32 @pthread_attr_setstacksize(ptr, i64)
declare i32 @pthread_attr_setdetachstate(ptr, i32)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_sigmask(i32, ptr, ptr)
declare i32 @sigfillset(ptr)
declare i32 @sigdelset(ptr, i32)

define internal i32 @os_spawn(ptr %fn, ptr %arg) alwaysinline {
  %attributes = alloca [256 x i64]
  %mask = alloca [256 x i64]
  %old = alloca [256 x i64]
  %id = alloca i64
  call i32 @pthread_attr_init(ptr %attributes)
  call i32 @pthread_attr_setstacksize(ptr %attributes, i64 8388608)
  call i32 @pthread_attr_setdetachstate(ptr %attributes, i32 ${detached})
  call i32 @sigfillset(ptr %mask)
  call i32 @sigdelset(ptr %mask, i32 4)
  call i32 @sigdelset(ptr %mask, i32 5)
  call i32 @sigdelset(ptr %mask, i32 6)
  call i32 @sigdelset(ptr %mask, i32 7)
  call i32 @sigdelset(ptr %mask, i32 8)
  call i32 @sigdelset(ptr %mask, i32 10)
  call i32 @sigdelset(ptr %mask, i32 11)
  call i32 @pthread_sigmask(i32 ${set_mask}, ptr %mask, ptr %old)
  %failed = call i32 @pthread_create(ptr %id, ptr %attributes, ptr %fn, ptr %arg)
  call i32 @pthread_sigmask(i32 ${set_mask}, ptr %old, ptr null)
  call i32 @pthread_attr_destroy(ptr %attributes)
  ret i32 %failed
}
