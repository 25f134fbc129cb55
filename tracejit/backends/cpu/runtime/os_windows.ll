; All of it on Windows. WaitOnAddress compares the bytes at the address with those at a second address; time-out in milliseconds, -1 is none.

declare i32 @WaitOnAddress(ptr, ptr, i64, i32)
declare void @WakeByAddressSingle(ptr)
declare void @WakeByAddressAll(ptr)
declare i64 @GetTickCount64()
declare void @QueryInterruptTimePrecise(ptr)

define internal i64 @os_nanoseconds() {
  %cell = alloca i64
  call void @QueryInterruptTimePrecise(ptr %cell)
  %hundreds = load i64, ptr %cell
  %now = mul i64 %hundreds, 100
  ret i64 %now
}

declare ptr @CreateThread(ptr, i64, ptr, ptr, i32, ptr)
declare i32 @CloseHandle(ptr)

define internal i32 @os_spawn(ptr %fn, ptr %arg) alwaysinline {
  %handle = call ptr @CreateThread(ptr null, i64 8388608, ptr %fn, ptr %arg, i32 65536, ptr null)
  %none = icmp eq ptr %handle, null
  br i1 %none, label %failed, label %running
running:
  call i32 @CloseHandle(ptr %handle)
  ret i32 0
failed:
  ret i32 1
}

define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {
  %value = alloca i32
  store i32 %expected, ptr %value
  %limited = icmp sgt i32 %milliseconds, 0
  %timeout = select i1 %limited, i32 %milliseconds, i32 -1
  %r = call i32 @WaitOnAddress(ptr %word, ptr %value, i64 4, i32 %timeout)
  ret void
}

define internal void @os_wake(ptr %word, i32 %count) alwaysinline {
  %many = icmp sgt i32 %count, 1
  br i1 %many, label %all, label %one
one:
  call void @WakeByAddressSingle(ptr %word)
  ret void
all:
  call void @WakeByAddressAll(ptr %word)
  ret void
}

define internal i64 @os_milliseconds() alwaysinline {
  %now = call i64 @GetTickCount64()
  ret i64 %now
}

define internal void @os_prefer_huge_pages(ptr %data, i64 %bytes) alwaysinline {
  ret void
}
