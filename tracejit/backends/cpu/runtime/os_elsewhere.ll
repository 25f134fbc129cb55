; Systems without a way to sleep on a word: sleep 100 us while it has not changed. Nobody has to wake such a sleeper.

declare i32 @usleep(i32)

define internal void @os_wait(ptr %word, i32 %expected, i32 %milliseconds) alwaysinline {
  %now = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %now, %expected
  br i1 %same, label %sleep, label %leave
sleep:
  %r = call i32 @usleep(i32 100)
  br label %leave
leave:
  ret void
}

define internal void @os_wake(ptr %word, i32 %count) alwaysinline {
  ret void
}

define internal void @os_prefer_huge_pages(ptr %data, i64 %bytes) alwaysinline {
  ret void
}
