; What stands before and after memory where `config.poison` is on: set when a function is entered, looked at when it is left.
; %p is null where there was no memory; %n are the bytes between. The pattern repeats one byte, 0xc3.

define internal void @set_guards(ptr %p, i64 %n) {
  %none = icmp eq ptr %p, null
  br i1 %none, label %out, label %set
set:
  %start = getelementptr i8, ptr %p, i64 ${guard}
  %end = getelementptr i8, ptr %start, i64 %n
  store <8 x i64> splat (i64 -4340410370284600381), ptr %p, align 1
  store <8 x i64> splat (i64 -4340410370284600381), ptr %end, align 1
  br label %out
out:
  ret void
}

define internal void @check_guards(ptr %p, i64 %n) {
  %none = icmp eq ptr %p, null
  br i1 %none, label %out, label %check
check:
  %start = getelementptr i8, ptr %p, i64 ${guard}
  %end = getelementptr i8, ptr %start, i64 %n
  %before = load <8 x i64>, ptr %p, align 1
  %after = load <8 x i64>, ptr %end, align 1
  %x = icmp eq <8 x i64> %before, splat (i64 -4340410370284600381)
  %y = icmp eq <8 x i64> %after, splat (i64 -4340410370284600381)
  %both = and <8 x i1> %x, %y
  %bits = bitcast <8 x i1> %both to i8
  %whole = icmp eq i8 %bits, -1
  br i1 %whole, label %out, label %broken
broken:
  call void @llvm.trap()
  unreachable
out:
  ret void
}
