"""The CUDA backend: PTX by LLVM, launches through the driver API."""
