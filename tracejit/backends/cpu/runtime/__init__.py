"""LLVM in this process, memory, the thread pool."""
