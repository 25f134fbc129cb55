; The 64-bit ARM core.

declare void @llvm.aarch64.isb(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal void @os_pause() alwaysinline {
  call void @llvm.aarch64.isb(i32 15)
  ret void
}

define internal i32 @os_float_mode() alwaysinline {
  %flags = call i64 @llvm.aarch64.get.fpcr()
  %mode = trunc i64 %flags to i32
  ret i32 %mode
}

define internal void @os_set_float_mode(i32 %mode) alwaysinline {
  %flags = zext i32 %mode to i64
  call void @llvm.aarch64.set.fpcr(i64 %flags)
  ret void
}
