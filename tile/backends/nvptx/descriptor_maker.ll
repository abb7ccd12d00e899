; A function of CPython's calling convention METH_FASTCALL that makes a descriptor of a tensor, for a block
; shape and a padding. It is None unless there is an entry for such a tensor, block and padding; see
; `descriptor_maker.py`.

%table = type {
  ptr, ptr, ptr, ptr, ptr, ; of Python, in the order of `_API`
  ptr, ptr, ptr, ptr, ptr, ; the descriptors' type, the two types of tensors, None, False
  i64, i64, i64, i64, i64, i64, ; the offsets of base, shape, strides, block_shape, padding, round_f32_to_tf32
  i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ; the offset of a tensor's handle, and its readers: dtype,
  ; device_type, device_index, layout, dim, sizes, strides, data_ptr
  ptr ; %memory
}
%memory = type { i64, i64 } ; the number of entries, and that of the latest one; entries follow
; type, address of the virtual methods, dtype, device type, layout, rank, sizes, strides, shape, strides, block shape,
; padding
%entry = type { ptr, i64, i32, i32, i32, i32, [5 x i64], [5 x i64], ptr, ptr, ptr, ptr }

define ptr @launch(ptr %self, ptr %arguments, i64 %given) nounwind "no-jump-tables"="true" {
entry:
  %items.self = getelementptr i8, ptr %self, i64 TUPLE_ITEMS
  %bytes = load ptr, ptr %items.self
  %at.table = getelementptr i8, ptr %bytes, i64 BYTES_DATA
  %table = load %table, ptr %at.table
  %allocate = extractvalue %table %table, 0
  %compare = extractvalue %table %table, 1
  %clear = extractvalue %table %table, 2
  %incref = extractvalue %table %table, 3
  %type = extractvalue %table %table, 5
  %tensor.type = extractvalue %table %table, 6
  %parameter.type = extractvalue %table %table, 7
  %none = extractvalue %table %table, 8
  %false = extractvalue %table %table, 9
  %offset.of.base = extractvalue %table %table, 10
  %offset.of.shape = extractvalue %table %table, 11
  %offset.of.strides = extractvalue %table %table, 12
  %offset.of.block = extractvalue %table %table, 13
  %offset.of.padding = extractvalue %table %table, 14
  %offset.of.rounding = extractvalue %table %table, 15
  %handle.offset = extractvalue %table %table, 16
  %read.dtype = extractvalue %table %table, 17
  %read.device.type = extractvalue %table %table, 18
  %read.layout = extractvalue %table %table, 20
  %read.dim = extractvalue %table %table, 21
  %read.sizes = extractvalue %table %table, 22
  %read.strides = extractvalue %table %table, 23
  %memory = extractvalue %table %table, 25
  %results = alloca i64, i64 6, align 16
  %at.device.type = getelementptr i64, ptr %results, i64 1
  %at.layout = getelementptr i64, ptr %results, i64 2
  %at.dim = getelementptr i64, ptr %results, i64 3
  %at.sizes = getelementptr i64, ptr %results, i64 4
  %at.strides = getelementptr i64, ptr %results, i64 5
  %is.given = icmp eq i64 %given, 3
  br i1 %is.given, label %kind, label %miss

kind:
  %tensor = load ptr, ptr %arguments
  %at.block = getelementptr ptr, ptr %arguments, i64 1
  %block = load ptr, ptr %at.block
  %at.padding = getelementptr ptr, ptr %arguments, i64 2
  %padding = load ptr, ptr %at.padding
  %at.type = getelementptr i8, ptr %tensor, i64 OBJECT_TYPE
  %its.type = load ptr, ptr %at.type
  %is.tensor = icmp eq ptr %its.type, %tensor.type
  %is.parameter = icmp eq ptr %its.type, %parameter.type
  %is.plain = or i1 %is.tensor, %is.parameter
  br i1 %is.plain, label %read, label %miss

read:
  %handle = getelementptr i8, ptr %tensor, i64 %handle.offset
  %at.methods = load ptr, ptr %handle
  %methods = load i64, ptr %at.methods
  %count = load i64, ptr %memory
  %at.latest = getelementptr %memory, ptr %memory, i64 0, i32 1
  %latest = load i64, ptr %at.latest
  %entries = getelementptr %memory, ptr %memory, i64 1
  %at.latest.entry = getelementptr %entry, ptr %entries, i64 %latest
  %at.implementation = getelementptr %entry, ptr %at.latest.entry, i64 0, i32 1
  %implementation = load i64, ptr %at.implementation
  %is.implementation = icmp eq i64 %methods, %implementation ; others may have no strides
  br i1 %is.implementation, label %facts, label %miss

facts:
  %status.0 = call i32 %read.dtype(ptr %handle, ptr %results)
  %status.1 = call i32 %read.device.type(ptr %handle, ptr %at.device.type)
  %status.2 = call i32 %read.layout(ptr %handle, ptr %at.layout)
  %status.3 = call i32 %read.dim(ptr %handle, ptr %at.dim)
  %status.4 = call i32 %read.sizes(ptr %handle, ptr %at.sizes)
  %status.5 = call i32 %read.strides(ptr %handle, ptr %at.strides)
  %status.01 = or i32 %status.0, %status.1
  %status.23 = or i32 %status.2, %status.3
  %status.45 = or i32 %status.4, %status.5
  %status.03 = or i32 %status.01, %status.23
  %status = or i32 %status.03, %status.45
  %is.read = icmp eq i32 %status, 0
  br i1 %is.read, label %search, label %miss

search:
  %dtype = load i32, ptr %results
  %device.type = load i32, ptr %at.device.type
  %layout = load i32, ptr %at.layout
  %dim = load i64, ptr %at.dim
  %sizes = load ptr, ptr %at.sizes
  %strides = load ptr, ptr %at.strides
  br label %entry.first

entry.first: ; calls often repeat in the order of the first ones
  %seen = phi i64 [ 0, %search ], [ %seen.next, %entry.next ]
  %before = phi i64 [ %latest, %search ], [ %e, %entry.next ]
  %after = add i64 %before, 1
  %is.last = icmp uge i64 %after, %count
  %e = select i1 %is.last, i64 0, i64 %after
  %more = icmp ult i64 %seen, %count
  br i1 %more, label %entry.read, label %miss

entry.next:
  %seen.next = add i64 %seen, 1
  br label %entry.first

entry.read:
  %at.entry = getelementptr %entry, ptr %entries, i64 %e
  %one = load %entry, ptr %at.entry
  %e.type = extractvalue %entry %one, 0
  %e.implementation = extractvalue %entry %one, 1
  %e.dtype = extractvalue %entry %one, 2
  %e.device.type = extractvalue %entry %one, 3
  %e.layout = extractvalue %entry %one, 4
  %e.rank = extractvalue %entry %one, 5
  %same.type = icmp eq ptr %its.type, %e.type
  %same.implementation = icmp eq i64 %methods, %e.implementation
  %other.dtype = xor i32 %dtype, %e.dtype
  %other.device.type = xor i32 %device.type, %e.device.type
  %other.layout = xor i32 %layout, %e.layout
  %other.1 = or i32 %other.dtype, %other.device.type
  %other = or i32 %other.1, %other.layout
  %same.numbers = icmp eq i32 %other, 0
  %rank = zext i32 %e.rank to i64
  %same.rank = icmp eq i64 %dim, %rank
  %same.1 = and i1 %same.type, %same.implementation
  %same.2 = and i1 %same.numbers, %same.rank
  %same = and i1 %same.1, %same.2
  br i1 %same, label %axis, label %entry.next

axis:
  %a = phi i64 [ 0, %entry.read ], [ %a.next, %axis.compare ]
  %axis.more = icmp ult i64 %a, %rank
  br i1 %axis.more, label %axis.compare, label %block.compare

axis.compare:
  %at.size = getelementptr i64, ptr %sizes, i64 %a
  %at.e.size = getelementptr %entry, ptr %at.entry, i64 0, i32 6, i64 %a
  %at.stride = getelementptr i64, ptr %strides, i64 %a
  %at.e.stride = getelementptr %entry, ptr %at.entry, i64 0, i32 7, i64 %a
  %size = load i64, ptr %at.size
  %e.size = load i64, ptr %at.e.size
  %stride = load i64, ptr %at.stride
  %e.stride = load i64, ptr %at.e.stride
  %same.size = icmp eq i64 %size, %e.size
  %same.stride = icmp eq i64 %stride, %e.stride
  %same.axis = and i1 %same.size, %same.stride
  %a.next = add i64 %a, 1
  br i1 %same.axis, label %axis, label %entry.next

block.compare: ; Py_EQ; it may be in vain, and then run again
  %e.shape = extractvalue %entry %one, 8
  %e.strides = extractvalue %entry %one, 9
  %e.block = extractvalue %entry %one, 10
  %e.padding = extractvalue %entry %one, 11
  %is.padding = icmp eq ptr %padding, %e.padding
  br i1 %is.padding, label %block.equal, label %entry.next

block.equal:
  %block.status = call i32 %compare(ptr %block, ptr %e.block, i32 2)
  switch i32 %block.status, label %miss [
    i32 0, label %entry.next
    i32 1, label %make
  ]

make:
  %made = call ptr %allocate(ptr %type, i64 0)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %miss, label %fill

fill:
  store i64 %e, ptr %at.latest
  call void %incref(ptr %tensor)
  call void %incref(ptr %e.shape)
  call void %incref(ptr %e.strides)
  call void %incref(ptr %block)
  call void %incref(ptr %padding)
  call void %incref(ptr %false)
  %at.its.base = getelementptr i8, ptr %made, i64 %offset.of.base
  %at.its.shape = getelementptr i8, ptr %made, i64 %offset.of.shape
  %at.its.strides = getelementptr i8, ptr %made, i64 %offset.of.strides
  %at.its.block = getelementptr i8, ptr %made, i64 %offset.of.block
  %at.its.padding = getelementptr i8, ptr %made, i64 %offset.of.padding
  %at.its.rounding = getelementptr i8, ptr %made, i64 %offset.of.rounding
  store ptr %tensor, ptr %at.its.base
  store ptr %e.shape, ptr %at.its.shape
  store ptr %e.strides, ptr %at.its.strides
  store ptr %block, ptr %at.its.block
  store ptr %padding, ptr %at.its.padding
  store ptr %false, ptr %at.its.rounding
  ret ptr %made

miss:
  call void %clear()
  call void %incref(ptr %none)
  ret ptr %none
}
