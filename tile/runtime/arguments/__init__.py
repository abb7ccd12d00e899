"""The values that users pass to launches, by kind.

adapt                arguments as one of the few kinds of values that the runtime handles
device_arrays        arrays in device memory, arrays of pointers, and element types
torch_tensors        torch tensors, without importing torch
opencl_buffers       pyopencl's arrays, buffers and shared virtual memory
jax_arrays           JAX's arrays, without importing JAX
pointer_objects      objects with only an address and a dtype
tensor_descriptor    host-side tensor descriptors
uninitialized        arrays that track which elements were written
storage_view         views of tensors that kernels may leave, within their storage
overlap              overlap of the memory of arguments
autograd             what autograd is told of writes to tensors
snapshot             snapshots, to restore contents after trial runs
"""
