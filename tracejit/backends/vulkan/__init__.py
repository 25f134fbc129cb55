"""Kernels as SPIR-V, run by Vulkan."""
