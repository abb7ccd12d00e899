"""The basis of the language: values, types, and the functions that the frontend calls.

builtin            builtins: functions that a kernel calls and that emit IR
constexpr          `tl.constexpr`, the marker of compile-time values
compile_options    the options of the compilation
static_args        compile-time arguments of builtins
dtypes             the element types
tensor             `Tensor`, and the fields of descriptors
promotion          type promotion and broadcasting
"""
