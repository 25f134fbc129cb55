"""Kernels and programs to LLVM IR."""
