"""The values that users pass to launches, by kind.

adapt                arguments as one of the few kinds of values that the runtime handles
device_arrays        arrays in device memory, arrays of pointers, and element types
torch_tensors        torch tensors, without importing torch
opencl_buffers       pyopencl's arrays, buffers and shared virtual memory
tensor_descriptor    host-side tensor descriptors
uninitialized        arrays that track which elements were written
snapshot             snapshots, to restore contents after trial runs
"""
