; The x86-64 core: control of its floating point is a word of memory; the low six bits are the exceptions that have happened.

declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @os_pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}

define internal i32 @os_float_mode() alwaysinline {
  %cell = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %cell)
  %flags = load i32, ptr %cell
  %mode = and i32 %flags, -64
  ret i32 %mode
}

define internal void @os_set_float_mode(i32 %mode) alwaysinline {
  %cell = alloca i32
  store i32 %mode, ptr %cell
  call void @llvm.x86.sse.ldmxcsr(ptr %cell)
  ret void
}
