; The thread pool under `parallel` axes. How it works, and why it is safe, stands in the notes of pool.py; `@os_wait` and its like come from
; os_functions.py.

%job = type { ptr, ptr, i64, i64, i32 }                     ; fn, arg, first chunk, chunks, floating-point mode of the caller
@word = internal global i64 0, align 128                    ; epoch << 20 | next chunk
@completed = internal global i32 0, align 128               ; chunks that workers have executed in this job
@waiting = internal global i32 0, align 4                   ; the caller sleeps on @completed
@signal = internal global i32 0, align 128                  ; low bits of the epoch: what workers sleep on
@sleepers = internal global i32 0, align 128
@jobs = internal global [2 x %job] zeroinitializer, align 128
@busy = internal global i32 0, align 128                    ; the job slot's lock
@epoch = internal global i64 0, align 8                     ; owned by the lock
@workers = internal global i64 0, align 8
@wanted = internal global i64 0, align 8                    ; workers to start at first use
@alive = global [1024 x i32] zeroinitializer       ; per worker: its thread exists
@started = internal global i32 0, align 4
%lasted = type { ptr, i64 }                                 ; a chunk's function, nanoseconds of its last first chunk
@history = internal global [64 x %lasted] zeroinitializer   ; owned by the lock, as are the next two
@burst = internal global i64 0, align 8                     ; nanoseconds of the jobs that follow each other closely
@burst_end = internal global i64 0, align 8
@spin_limit = global i32 1000, align 4
@last_poll = internal global i64 0, align 8
@last_pause = internal global i64 0, align 8
@main_thread = internal global i64 0, align 8
@tj_pool_threads = global i64 1, align 128
declare i64 @PyThread_get_thread_ident()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare ptr @PyGILState_GetThisThreadState()
declare ptr @PyThreadState_GetUnchecked()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)

; Claims and executes chunks until none is left, or %most; returns how many. A caller that polls and is interrupted claims all the rest.
define internal i64 @run(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch, i64 %most, ptr %stop) alwaysinline {
entry:
  %w0 = load atomic i64, ptr @word acquire, align 8
  br label %claim
claim:
  %w = phi i64 [ %w0, %entry ], [ %seen, %try ], [ %w2, %next ]
  %done = phi i64 [ 0, %entry ], [ %done, %try ], [ %done1, %next ]
  %e = lshr i64 %w, ${chunk_bits}
  %same = icmp eq i64 %e, %epoch
  %i = and i64 %w, ${chunk_mask}
  %left = icmp ult i64 %i, %n
  %some = and i1 %same, %left
  %allowed = icmp ult i64 %done, %most
  %ok = and i1 %some, %allowed
  br i1 %ok, label %try, label %leave
try:
  %w1 = add i64 %w, 1
  %x = cmpxchg ptr @word, i64 %w, i64 %w1 acq_rel acquire
  %seen = extractvalue { i64, i1 } %x, 0
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %execute, label %claim
execute:
  %chunk = add i64 %base, %i
  call void %fn(ptr %arg, i64 %chunk)
  %done1 = add i64 %done, 1
  %watched = icmp ne ptr %stop, null
  %part = and i64 %done1, ${poll_mask}
  %due = icmp eq i64 %part, 0
  %poll = and i1 %watched, %due
  br i1 %poll, label %look, label %next
look:
  %told = call i32 @tj_poll(ptr %stop)
  %stopped = icmp ne i32 %told, 0
  br i1 %stopped, label %drop, label %next
next:
  %w2 = load atomic i64, ptr @word acquire, align 8
  br label %claim
drop:
  %dropped = call i64 @drop_rest(i64 %n)
  %all = add i64 %done1, %dropped
  ret i64 %all
leave:
  ret i64 %done
}

define internal i64 @drop_rest(i64 %n) alwaysinline {
  %w0 = load atomic i64, ptr @word acquire, align 8
  br label %again
again:
  %w = phi i64 [ %w0, %0 ], [ %seen, %again ]
  %i = and i64 %w, ${chunk_mask}
  %rest = sub i64 %n, %i
  %w1 = add i64 %w, %rest
  %x = cmpxchg ptr @word, i64 %w, i64 %w1 acq_rel acquire
  %seen = extractvalue { i64, i1 } %x, 0
  %won = extractvalue { i64, i1 } %x, 1
  br i1 %won, label %out, label %again
out:
  ret i64 %rest
}

define internal ptr @worker(ptr %number) {
entry:
  %index = ptrtoint ptr %number to i64
  %mine = getelementptr i32, ptr @alive, i64 %index
  br label %work
work:
  %woken = phi i1 [ false, %entry ], [ false, %spin ], [ true, %awake ], [ false, %stay ]
  %limit = load atomic i64, ptr @workers seq_cst, align 8
  %surplus = icmp uge i64 %index, %limit
  br i1 %surplus, label %resign, label %read
read:
  %seen = load atomic i32, ptr @signal acquire, align 4
  %w = load atomic i64, ptr @word acquire, align 8
  %e = lshr i64 %w, ${chunk_bits}
  %i = and i64 %w, ${chunk_mask}
  %parity = and i64 %e, 1
  %job = getelementptr [2 x %job], ptr @jobs, i64 0, i64 %parity
  %argp = getelementptr %job, ptr %job, i64 0, i32 1
  %basep = getelementptr %job, ptr %job, i64 0, i32 2
  %np = getelementptr %job, ptr %job, i64 0, i32 3
  %modep = getelementptr %job, ptr %job, i64 0, i32 4
  %fn = load atomic ptr, ptr %job monotonic, align 8
  %arg = load atomic ptr, ptr %argp monotonic, align 8
  %base = load atomic i64, ptr %basep monotonic, align 8
  %n = load atomic i64, ptr %np monotonic, align 8
  %mode = load atomic i32, ptr %modep monotonic, align 4
  %left = icmp ult i64 %i, %n
  br i1 %left, label %help, label %idle
help:
  call void @os_set_float_mode(i32 %mode)
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %n
  %pass_on = and i1 %woken, %more
  br i1 %pass_on, label %chain, label %claim
chain:
  call void @wake_some(i32 2)
  br label %claim
claim:
  %count = call i64 @run(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %e, i64 -1, ptr null)
  %some = icmp ne i64 %count, 0
  br i1 %some, label %report, label %idle
report:
  %count32 = trunc i64 %count to i32
  %before = atomicrmw add ptr @completed, i32 %count32 seq_cst
  %asleep = load atomic i32, ptr @waiting seq_cst, align 4
  %ask = icmp ne i32 %asleep, 0
  br i1 %ask, label %wake, label %idle
wake:
  call void @os_wake(ptr @completed, i32 1)
  br label %idle
idle:
  %spins = load i32, ptr @spin_limit
  br label %spin
spin:
  %k = phi i32 [ 0, %idle ], [ %k1, %pause ]
  %now = load atomic i32, ptr @signal acquire, align 4
  %news = icmp ne i32 %now, %seen
  br i1 %news, label %work, label %pause
pause:
  call void @os_pause()
  %k1 = add i32 %k, 1
  %again = icmp ult i32 %k1, %spins
  br i1 %again, label %spin, label %park
park:
  %b = atomicrmw add ptr @sleepers, i32 1 seq_cst
  br label %sleep
sleep:
  call void @os_wait(ptr @signal, i32 %seen, i32 0)
  %now2 = load atomic i32, ptr @signal acquire, align 4
  %news2 = icmp ne i32 %now2, %seen
  br i1 %news2, label %awake, label %sleep
awake:
  %c = atomicrmw sub ptr @sleepers, i32 1 seq_cst
  br label %work
resign:                                                     ; unless the pool has just grown again: then one thread takes the place
  store atomic i32 0, ptr %mine seq_cst, align 4
  %limit2 = load atomic i64, ptr @workers seq_cst, align 8
  %surplus2 = icmp uge i64 %index, %limit2
  br i1 %surplus2, label %quit, label %stay
stay:
  %x = cmpxchg ptr %mine, i32 0, i32 1 seq_cst seq_cst
  %won = extractvalue { i32, i1 } %x, 1
  br i1 %won, label %work, label %quit
quit:
  ret ptr null
}

define internal void @wake_some(i32 %most) alwaysinline {
  %asleep = load atomic i32, ptr @sleepers monotonic, align 4
  %any = icmp ne i32 %asleep, 0
  br i1 %any, label %wake, label %out
wake:
  call void @os_wake(ptr @signal, i32 %most)
  br label %out
out:
  ret void
}

define void @tj_parallel_for(ptr %fn, ptr %arg, i64 %chunks) {
  %r = call i32 @parallel(ptr %fn, ptr %arg, i64 %chunks, ptr null)
  ret void
}

define i32 @tj_parallel_for_interruptible(ptr %fn, ptr %arg, i64 %chunks, ptr %stop) {
  %r = call i32 @parallel(ptr %fn, ptr %arg, i64 %chunks, ptr %stop)
  ret i32 %r
}

define internal i32 @parallel(ptr %fn, ptr %arg, i64 %chunks, ptr %stop) {
entry:
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %begin, label %few
few:
  %one = icmp eq i64 %chunks, 1
  br i1 %one, label %single, label %finished
single:
  call void %fn(ptr %arg, i64 0)
  br label %finished
begin:
  %x = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %x, 1
  br i1 %free, label %locked, label %serial
locked:
  %started = load i32, ptr @started
  %cold = icmp eq i32 %started, 0
  br i1 %cold, label %start, label %segment
start:
  call void @start_locked()
  br label %segment
serial:
  %i = phi i64 [ 0, %begin ], [ %i1, %undisturbed ]
  call void %fn(ptr %arg, i64 %i)
  %poll = icmp ne ptr %stop, null
  br i1 %poll, label %look, label %undisturbed
look:
  %told = call i32 @tj_poll(ptr %stop)
  %enough = icmp ne i32 %told, 0
  br i1 %enough, label %halted, label %undisturbed
undisturbed:
  %i1 = add i64 %i, 1
  %again = icmp ult i64 %i1, %chunks
  br i1 %again, label %serial, label %finished
segment:
  %base = phi i64 [ 0, %locked ], [ 0, %start ], [ %end, %joined ]
  %rest = sub i64 %chunks, %base
  %n = call i64 @llvm.umin.i64(i64 %rest, i64 ${segment})
  %incomplete = call i32 @segment(ptr %fn, ptr %arg, i64 %base, i64 %n, ptr %stop)
  %stopped = icmp ne i32 %incomplete, 0
  br i1 %stopped, label %interrupted, label %joined
joined:
  %end = add i64 %base, %n
  %more = icmp ult i64 %end, %chunks
  br i1 %more, label %segment, label %unlock
unlock:
  store atomic i32 0, ptr @busy release, align 4
  br label %finished
interrupted:
  store atomic i32 0, ptr @busy release, align 4
  ret i32 1
halted:
  ret i32 1
finished:
  ret i32 0
}

define internal void @publish(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch) alwaysinline {
  %parity = and i64 %epoch, 1
  %job = getelementptr [2 x %job], ptr @jobs, i64 0, i64 %parity
  %argp = getelementptr %job, ptr %job, i64 0, i32 1
  %basep = getelementptr %job, ptr %job, i64 0, i32 2
  %np = getelementptr %job, ptr %job, i64 0, i32 3
  %modep = getelementptr %job, ptr %job, i64 0, i32 4
  %mode = call i32 @os_float_mode()
  store atomic ptr %fn, ptr %job monotonic, align 8
  store atomic ptr %arg, ptr %argp monotonic, align 8
  store atomic i64 %base, ptr %basep monotonic, align 8
  store atomic i64 %n, ptr %np monotonic, align 8
  store atomic i32 %mode, ptr %modep monotonic, align 4
  store atomic i32 0, ptr @completed monotonic, align 4
  %w = shl i64 %epoch, ${chunk_bits}
  store atomic i64 %w, ptr @word release, align 8
  %s = trunc i64 %epoch to i32
  store atomic i32 %s, ptr @signal release, align 4
  fence seq_cst                                             ; before @sleepers is read, and before this buffer's neighbour is rewritten
  store i64 %epoch, ptr @epoch
  ret void
}

; The caller's share of a job while workers sleep: wakes them if chunks of this function took long the last time, or the first one does now.
define internal i64 @run_waking_if_worth(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch, ptr %stop) {
entry:
  %others = sub i64 %n, 1
  %number = ptrtoint ptr %fn to i64
  %mixed = mul i64 %number, -7046029254386353131
  %index = lshr i64 %mixed, 58
  %fnp = getelementptr [64 x %lasted], ptr @history, i64 0, i64 %index
  %lastp = getelementptr %lasted, ptr %fnp, i64 0, i32 1
  %whose = load ptr, ptr %fnp
  %last = load i64, ptr %lastp
  %known = icmp eq ptr %whose, %fn
  %begin = call i64 @os_nanoseconds()
  %end0 = load i64, ptr @burst_end
  %gap = sub i64 %begin, %end0
  %on = icmp ult i64 %gap, ${burst_nanoseconds}
  %sum0 = load i64, ptr @burst
  %sum = select i1 %on, i64 %sum0, i64 0                    ; what the jobs just before this one took
  %guess = mul i64 %last, %n
  %total = add i64 %guess, %sum
  %quick = icmp ult i64 %total, ${wake_nanoseconds}
  %defer = and i1 %known, %quick
  br i1 %defer, label %first, label %wake
wake:
  call void @wake_two(i64 %others)
  %after = call i64 @os_nanoseconds()
  br label %first
first:
  %start = phi i64 [ %begin, %entry ], [ %after, %wake ]
  %one = call i64 @run(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch, i64 1, ptr %stop)
  %end1 = call i64 @os_nanoseconds()
  %took = sub i64 %end1, %start
  store ptr %fn, ptr %fnp
  store i64 %took, ptr %lastp
  %rest = mul i64 %took, %others
  %ahead = add i64 %rest, %sum
  %long = icmp uge i64 %ahead, ${wake_nanoseconds}
  %late = and i1 %defer, %long
  br i1 %late, label %wake_late, label %finish
wake_late:
  call void @wake_two(i64 %others)
  br label %finish
finish:
  %more = call i64 @run(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch, i64 -1, ptr %stop)
  %mine = add i64 %one, %more
  %end2 = call i64 @os_nanoseconds()
  %all = sub i64 %end2, %begin
  %sum1 = add i64 %sum, %all
  store i64 %sum1, ptr @burst
  store i64 %end2, ptr @burst_end
  ret i64 %mine
}

define internal void @wake_two(i64 %others) {
  %few = call i64 @llvm.umin.i64(i64 %others, i64 2)
  %count = trunc i64 %few to i32
  call void @wake_some(i32 %count)
  ret void
}

define internal i32 @segment(ptr %fn, ptr %arg, i64 %base, i64 %n, ptr %stop) alwaysinline {
entry:
  %last = load i64, ptr @epoch
  %next = add i64 %last, 1
  %epoch = and i64 %next, ${epoch_mask}
  call void @publish(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch)
  %others = trunc i64 %n to i32
  %asleep = load atomic i32, ptr @sleepers monotonic, align 4
  %idle = icmp ne i32 %asleep, 0
  br i1 %idle, label %weigh, label %go
go:
  %direct = call i64 @run(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch, i64 -1, ptr %stop)
  br label %executed
weigh:
  %weighed = call i64 @run_waking_if_worth(ptr %fn, ptr %arg, i64 %base, i64 %n, i64 %epoch, ptr %stop)
  br label %executed
executed:
  %mine = phi i64 [ %direct, %go ], [ %weighed, %weigh ]
  %mine32 = trunc i64 %mine to i32
  %theirs = sub i32 %others, %mine32
  %spins = load i32, ptr @spin_limit
  br label %join
join:
  %k = phi i32 [ 0, %executed ], [ %k1, %pause ]
  %c = load atomic i32, ptr @completed acquire, align 4
  %all = icmp eq i32 %c, %theirs
  br i1 %all, label %out, label %pause
pause:
  call void @os_pause()
  %k1 = add i32 %k, 1
  %again = icmp ult i32 %k1, %spins
  br i1 %again, label %join, label %park
park:
  store atomic i32 1, ptr @waiting seq_cst, align 4
  br label %look
look:
  %c2 = load atomic i32, ptr @completed seq_cst, align 4
  %all2 = icmp eq i32 %c2, %theirs
  br i1 %all2, label %awake, label %sleep
sleep:
  %poll = icmp ne ptr %stop, null
  %t = select i1 %poll, i32 ${poll_milliseconds}, i32 0
  call void @os_wait(ptr @completed, i32 %c2, i32 %t)
  br i1 %poll, label %ask, label %look
ask:                                                        ; whoever executes a chunk reads the word when it looks
  %told = call i32 @tj_poll(ptr %stop)
  br label %look
awake:
  store atomic i32 0, ptr @waiting monotonic, align 4
  br label %out
out:
  %watched = icmp ne ptr %stop, null
  br i1 %watched, label %report, label %fine
report:
  %result = load atomic i32, ptr %stop acquire, align 4
  ret i32 %result
fine:
  ret i32 0
}
declare i64 @llvm.umin.i64(i64, i64)

define i32 @tj_check_interrupt() {
  %now = call i64 @os_milliseconds()
  %last = load atomic i64, ptr @last_poll monotonic, align 8
  %passed = sub i64 %now, %last
  %early = icmp slt i64 %passed, ${poll_milliseconds}
  br i1 %early, label %no, label %who
who:
  %thread = call i64 @PyThread_get_thread_ident()
  %main = load i64, ptr @main_thread
  %a = trunc i64 %thread to i32                             ; the type has 32 bits on some systems
  %b = trunc i64 %main to i32
  %ours = icmp eq i32 %a, %b
  br i1 %ours, label %ask, label %other
ask:
  store atomic i64 %now, ptr @last_poll monotonic, align 8
  call void @let_others_run()
  %gil = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %gil)
  %yes = icmp ne i32 %raised, 0
  %r = zext i1 %yes to i32
  ret i32 %r
other:
  %last2 = load atomic i64, ptr @last_pause monotonic, align 8
  %passed2 = sub i64 %now, %last2
  %early2 = icmp slt i64 %passed2, ${poll_milliseconds}
  br i1 %early2, label %no, label %pause
pause:
  store atomic i64 %now, ptr @last_pause monotonic, align 8
  call void @let_others_run()
  br label %no
no:
  ret i32 0
}

; Gives the GIL to whoever waits for it, if this thread has it: short programs keep it, and one of them may turn out to be long.
define internal void @let_others_run() {
  %mine = call ptr @PyGILState_GetThisThreadState()
  %python = icmp ne ptr %mine, null
  br i1 %python, label %look, label %out
look:
  %running = call ptr @PyThreadState_GetUnchecked()
  %held = icmp eq ptr %running, %mine
  br i1 %held, label %give, label %out
give:
  %state = call ptr @PyEval_SaveThread()
  call void @PyEval_RestoreThread(ptr %state)
  br label %out
out:
  ret void
}

define i32 @tj_poll(ptr %stop) {
  %before = load atomic i32, ptr %stop acquire, align 4
  %already = icmp ne i32 %before, 0                         ; an exception is set: no handler may run before it is reported
  br i1 %already, label %yes, label %ask
ask:
  %raised = call i32 @tj_check_interrupt()
  %interrupted = icmp ne i32 %raised, 0
  br i1 %interrupted, label %tell, label %no
tell:
  store atomic i32 1, ptr %stop release, align 4
  br label %yes
yes:
  ret i32 1
no:
  ret i32 0
}

; After a fork: the other threads are gone, and with them whatever they held.
define void @reset(i64 %main) {
  store atomic i32 0, ptr @sleepers monotonic, align 4
  store atomic i32 0, ptr @waiting monotonic, align 4
  store atomic i64 0, ptr @workers monotonic, align 8
  store i64 %main, ptr @main_thread
  call void @llvm.memset.p0.i64(ptr @alive, i8 0, i64 4096, i1 false)
  call void @llvm.memset.p0.i64(ptr @jobs, i8 0, i64 80, i1 false)       ; chunks that nobody has claimed are the parent's
  %word = load i64, ptr @word
  %from = lshr i64 %word, ${chunk_bits}
  %next = add i64 %from, 1
  %epoch = and i64 %next, ${epoch_mask}
  %empty = shl i64 %epoch, ${chunk_bits}
  store atomic i64 %empty, ptr @word monotonic, align 8
  store i64 %epoch, ptr @epoch
  store i32 0, ptr @started
  store atomic i32 0, ptr @busy release, align 4
  ret void
}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

; Starts the missing workers; the caller holds the lock. Where the system refuses a thread the pool stays smaller.
define internal void @start_locked() alwaysinline {
entry:
  store i32 1, ptr @started
  %wanted = load i64, ptr @wanted
  store atomic i64 %wanted, ptr @workers seq_cst, align 8
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %there ]
  %more = icmp ult i64 %k, %wanted
  br i1 %more, label %place, label %out
place:
  %slot = getelementptr i32, ptr @alive, i64 %k
  %x = cmpxchg ptr %slot, i32 0, i32 1 seq_cst seq_cst
  %empty = extractvalue { i32, i1 } %x, 1
  br i1 %empty, label %spawn, label %there
spawn:
  %number = inttoptr i64 %k to ptr
  %failed = call i32 @os_spawn(ptr @worker, ptr %number)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %refused, label %there
there:
  %k1 = add i64 %k, 1
  br label %next
refused:
  store atomic i32 0, ptr %slot seq_cst, align 4
  store atomic i64 %k, ptr @workers seq_cst, align 8
  br label %out
out:
  ret void
}

; Sets how many workers there should be; with %now, or if there are any, starts or dismisses them. 0 if a job is running: try again.
define i32 @resize(i64 %workers, i32 %now) {
  %x = cmpxchg ptr @busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue { i32, i1 } %x, 1
  br i1 %free, label %go, label %no
go:
  store i64 %workers, ptr @wanted
  %threads = add i64 %workers, 1
  store atomic i64 %threads, ptr @tj_pool_threads monotonic, align 8
  %started = load i32, ptr @started
  %either = or i32 %started, %now
  %act = icmp ne i32 %either, 0
  br i1 %act, label %start, label %unlock
start:
  call void @start_locked()
  %last = load i64, ptr @epoch
  %next = add i64 %last, 1
  %epoch = and i64 %next, ${epoch_mask}
  call void @publish(ptr null, ptr null, i64 0, i64 0, i64 %epoch)
  call void @os_wake(ptr @signal, i32 2147483647)
  br label %unlock
unlock:
  store atomic i32 0, ptr @busy release, align 4
  ret i32 1
no:
  ret i32 0
}

define void @pause_many(i32 %count) {
  br label %again
again:
  %k = phi i32 [ 0, %0 ], [ %k1, %again ]
  call void @os_pause()
  %k1 = add i32 %k, 1
  %more = icmp ult i32 %k1, %count
  br i1 %more, label %again, label %out
out:
  ret void
}
