"""What backends share that send kernels to a device through its driver."""
