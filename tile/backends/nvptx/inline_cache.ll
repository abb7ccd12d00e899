; A function of CPython's calling convention METH_FASTCALL | METH_KEYWORDS that repeats a launch if the
; guards of `inline_cache.py` hold for its arguments, a grid and those of the kernel, and calls another
; function with them otherwise.

%table = type {
  ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ; of Python, in the order of `_API`
  ptr, ptr, ptr, ptr, ptr, ; otherwise, note, repeat, the kernel, True
  ptr, ptr, ptr, ptr, ptr, ptr, ; tuple, int, 1, "dtype", Tensor.get_device, Tensor.data_ptr
  ptr, ptr, ; the type of functions, what a grid function gets
  ptr, ptr, ptr, ; "nbytes", Tensor.is_contiguous, the length of another tensor
  i64, i64, i64, i64, i64, ; states, readings, positional arguments after the grid, named ones, values
  i64, i64, i64, ; the greatest extents of a grid
  ptr, i64, i64, i64, ; "base", fields, pairs, bounds
  ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr ; PyLong_FromVoidPtr, the offset of a tensor's handle, and
  ; its readers: dtype, device_type, device_index, layout, dim, sizes, strides, data_ptr
} ; states, readings, names, names for the grid function, arguments, fields, bounds and pairs follow
%state = type { ptr, i64 } ; an object and its truth
%reading = type { ptr, ptr } ; a function, and its result
; kind, argument, value of the launch, type, object, least, most, excluded, residues, the offset of the base, and of a
; tensor that is read by its handle: the address of its virtual methods, dtype, device type, device, layout
%argument = type { i64, i64, i64, ptr, ptr, i64, i64, i64, i64, i64, i64, i32, i32, i32, i32 }
%field = type { i64, i64, ptr, ptr, ptr, i64 } ; argument, of its base, name, or method, value, offset
%bound = type { i64, i64, ptr } ; tensor, rank, sizes and strides
%pair = type { i64, i64 } ; tensors that must not overlap

define ptr @launch(ptr %self, ptr %arguments, i64 %positional, ptr %names) nounwind "no-jump-tables"="true" {
entry:
  %items.self = getelementptr i8, ptr %self, i64 TUPLE_ITEMS
  %bytes = load ptr, ptr %items.self
  %at.table = getelementptr i8, ptr %bytes, i64 BYTES_DATA
  %table = load %table, ptr %at.table
  %is.true = extractvalue %table %table, 0
  %call0 = extractvalue %table %table, 1
  %attribute = extractvalue %table %table, 2
  %call = extractvalue %table %table, 3
  %as.long = extractvalue %table %table, 4
  %compare = extractvalue %table %table, 5
  %clear = extractvalue %table %table, 6
  %incref = extractvalue %table %table, 7
  %decref = extractvalue %table %table, 8
  %copy = extractvalue %table %table, 9
  %set = extractvalue %table %table, 10
  %otherwise = extractvalue %table %table, 11
  %note = extractvalue %table %table, 12
  %repeat = extractvalue %table %table, 13
  %kernel = extractvalue %table %table, 14
  %true = extractvalue %table %table, 15
  %tuple.type = extractvalue %table %table, 16
  %int.type = extractvalue %table %table, 17
  %one = extractvalue %table %table, 18
  %dtype = extractvalue %table %table, 19
  %get.device = extractvalue %table %table, 20
  %data.ptr = extractvalue %table %table, 21
  %function.type = extractvalue %table %table, 22
  %constants = extractvalue %table %table, 23
  %nbytes = extractvalue %table %table, 24
  %is.contiguous = extractvalue %table %table, 25
  %length.of = extractvalue %table %table, 26
  %states = extractvalue %table %table, 27
  %readings = extractvalue %table %table, 28
  %count = extractvalue %table %table, 29
  %keywords = extractvalue %table %table, 30
  %passed = extractvalue %table %table, 31
  %base.name = extractvalue %table %table, 35
  %fields = extractvalue %table %table, 36
  %pairs = extractvalue %table %table, 37
  %bounds = extractvalue %table %table, 38
  %from.address = extractvalue %table %table, 39
  %handle.offset = extractvalue %table %table, 40
  %read.dtype = extractvalue %table %table, 41
  %read.device.type = extractvalue %table %table, 42
  %read.device.index = extractvalue %table %table, 43
  %read.layout = extractvalue %table %table, 44
  %read.dim = extractvalue %table %table, 45
  %read.sizes = extractvalue %table %table, 46
  %read.strides = extractvalue %table %table, 47
  %read.address = extractvalue %table %table, 48
  %at.states = getelementptr %table, ptr %at.table, i64 1
  %at.readings = getelementptr %state, ptr %at.states, i64 %states
  %at.names = getelementptr %reading, ptr %at.readings, i64 %readings
  %total = add i64 %count, %keywords
  %at.meta = getelementptr ptr, ptr %at.names, i64 %keywords
  %at.guards = getelementptr ptr, ptr %at.meta, i64 %total
  %at.fields = getelementptr %argument, ptr %at.guards, i64 %total
  %at.bounds = getelementptr %field, ptr %at.fields, i64 %fields
  %at.pairs = getelementptr %bound, ptr %at.bounds, i64 %bounds
  %twice = shl i64 %total, 1
  %capacity = add i64 %twice, 4
  %values = alloca ptr, i64 %capacity, align 16 ; of the launch: extents, then values
  %tensors = alloca ptr, i64 %capacity, align 16 ; of the call
  %addresses = alloca i64, i64 %capacity, align 16 ; of these
  %lengths = alloca i64, i64 %capacity, align 16 ; of these in bytes, 0 for those not read yet
  %owned = alloca ptr, i64 %capacity, align 16 ; to be released: addresses, bases, the grid
  %owned.count = alloca i64
  %results = alloca i64, i64 4, align 16 ; of readers
  store i64 0, ptr %owned.count
  %with.grid = add i64 %count, 1
  %is.count = icmp eq i64 %positional, %with.grid
  br i1 %is.count, label %grid.kind, label %miss

grid.kind:
  %grid.object = load ptr, ptr %arguments
  %at.grid.type = getelementptr i8, ptr %grid.object, i64 OBJECT_TYPE
  %grid.type = load ptr, ptr %at.grid.type
  %is.tuple = icmp eq ptr %grid.type, %tuple.type
  %is.function = icmp eq ptr %grid.type, %function.type
  %is.grid = or i1 %is.tuple, %is.function
  br i1 %is.grid, label %names.first, label %miss

names.first:
  %has.names = icmp ne ptr %names, null
  br i1 %has.names, label %names.size, label %names.compare

names.size:
  %at.size = getelementptr i8, ptr %names, i64 TUPLE_SIZE
  %size = load i64, ptr %at.size
  br label %names.compare

names.compare:
  %given = phi i64 [ 0, %names.first ], [ %size, %names.size ]
  %is.given = icmp eq i64 %given, %keywords
  br i1 %is.given, label %name, label %miss

name:
  %k = phi i64 [ 0, %names.compare ], [ %k.next, %name.next ]
  %k.more = icmp ult i64 %k, %keywords
  br i1 %k.more, label %name.compare, label %argument

name.compare:
  %names.items = getelementptr i8, ptr %names, i64 TUPLE_ITEMS
  %at.name = getelementptr ptr, ptr %names.items, i64 %k
  %given.name = load ptr, ptr %at.name
  %at.expected.name = getelementptr ptr, ptr %at.names, i64 %k
  %expected.name = load ptr, ptr %at.expected.name
  %same.name = icmp eq ptr %given.name, %expected.name
  br i1 %same.name, label %name.next, label %miss

name.next:
  %k.next = add i64 %k, 1
  br label %name

argument:
  %a = phi i64 [ 0, %name ], [ %a.next, %argument.next ]
  %t = phi i64 [ 0, %name ], [ %t.next, %argument.next ] ; tensors
  %a.more = icmp ult i64 %a, %total
  br i1 %a.more, label %argument.read, label %state

argument.read:
  %at.guard = getelementptr %argument, ptr %at.guards, i64 %a
  %guard = load %argument, ptr %at.guard
  %kind = extractvalue %argument %guard, 0
  %index = extractvalue %argument %guard, 1
  %position = extractvalue %argument %guard, 2
  %type = extractvalue %argument %guard, 3
  %wanted = extractvalue %argument %guard, 4
  %least = extractvalue %argument %guard, 5
  %most = extractvalue %argument %guard, 6
  %excluded = extractvalue %argument %guard, 7
  %residues = extractvalue %argument %guard, 8
  %at.object = getelementptr ptr, ptr %arguments, i64 %index
  %object = load ptr, ptr %at.object
  %at.type = getelementptr i8, ptr %object, i64 OBJECT_TYPE
  %object.type = load ptr, ptr %at.type
  %is.type = icmp eq ptr %object.type, %type
  br i1 %is.type, label %argument.kind, label %miss

argument.kind:
  %at.value = getelementptr ptr, ptr %values, i64 %position
  switch i64 %kind, label %constant [
    i64 1, label %tensor
    i64 2, label %number
    i64 3, label %pass
    i64 4, label %base
  ]

constant:
  %is.same = icmp eq ptr %object, %wanted
  br i1 %is.same, label %argument.next, label %constant.compare

constant.compare: ; Py_EQ
  %equal = call i32 %compare(ptr %object, ptr %wanted, i32 2)
  %is.equal = icmp eq i32 %equal, 1
  br i1 %is.equal, label %argument.next, label %miss

number:
  %n = call i64 %as.long(ptr %object) ; -1 may stand for an error, and is left to the other function
  %from.least = icmp sge i64 %n, %least
  %to.most = icmp sle i64 %n, %most
  %in.range = and i1 %from.least, %to.most
  %is.one = icmp eq i64 %n, %excluded
  %is.suspect = icmp eq i64 %n, -1
  %is.excluded = or i1 %is.one, %is.suspect
  %residue = and i64 %n, 15
  %shifted = lshr i64 %residues, %residue
  %bit = and i64 %shifted, 1
  %is.residue = icmp ne i64 %bit, 0
  %not.excluded = xor i1 %is.excluded, true
  %fits.range = and i1 %in.range, %not.excluded
  %fits = and i1 %fits.range, %is.residue
  br i1 %fits, label %pass, label %miss

pass:
  store ptr %object, ptr %at.value
  br label %argument.next

base: ; of a descriptor
  %base.offset = extractvalue %argument %guard, 9
  %has.offset = icmp ne i64 %base.offset, 0
  br i1 %has.offset, label %base.load, label %base.get

base.get:
  %got.base = call ptr %attribute(ptr %object, ptr %base.name)
  %get.failed = icmp eq ptr %got.base, null
  br i1 %get.failed, label %miss, label %base.keep

base.load:
  %at.loaded = getelementptr i8, ptr %object, i64 %base.offset
  %loaded.base = load ptr, ptr %at.loaded
  %load.failed = icmp eq ptr %loaded.base, null
  br i1 %load.failed, label %miss, label %base.hold

base.hold:
  call void %incref(ptr %loaded.base)
  br label %base.keep

base.keep:
  %its.base = phi ptr [ %got.base, %base.get ], [ %loaded.base, %base.hold ]
  %base.number = load i64, ptr %owned.count
  %at.owned.base = getelementptr ptr, ptr %owned, i64 %base.number
  store ptr %its.base, ptr %at.owned.base
  %base.count = add i64 %base.number, 1
  store i64 %base.count, ptr %owned.count
  %at.base.type = getelementptr i8, ptr %its.base, i64 OBJECT_TYPE
  %base.type = load i64, ptr %at.base.type
  %is.base.type = icmp eq i64 %base.type, %residues
  br i1 %is.base.type, label %tensor, label %miss

tensor:
  %x = phi ptr [ %object, %argument.kind ], [ %its.base, %base.keep ]
  %at.tensor = getelementptr ptr, ptr %tensors, i64 %t
  store ptr %x, ptr %at.tensor
  %implementation = extractvalue %argument %guard, 10
  %is.direct = icmp ne i64 %implementation, 0
  br i1 %is.direct, label %direct, label %tensor.read

direct: ; by its handle
  %handle = getelementptr i8, ptr %x, i64 %handle.offset
  %at.methods = load ptr, ptr %handle
  %methods = load i64, ptr %at.methods
  %same.methods = icmp eq i64 %methods, %implementation
  br i1 %same.methods, label %direct.read, label %miss

direct.read:
  %wanted.dtype = extractvalue %argument %guard, 11
  %wanted.device.type = extractvalue %argument %guard, 12
  %wanted.device.index = extractvalue %argument %guard, 13
  %wanted.layout = extractvalue %argument %guard, 14
  %at.result.1 = getelementptr i64, ptr %results, i64 1
  %at.result.2 = getelementptr i64, ptr %results, i64 2
  %at.result.3 = getelementptr i64, ptr %results, i64 3
  %dtype.status = call i32 %read.dtype(ptr %handle, ptr %results)
  %device.type.status = call i32 %read.device.type(ptr %handle, ptr %at.result.1)
  %device.index.status = call i32 %read.device.index(ptr %handle, ptr %at.result.2)
  %layout.status = call i32 %read.layout(ptr %handle, ptr %at.result.3)
  %read.dtype.result = load i32, ptr %results
  %read.type.result = load i32, ptr %at.result.1
  %read.index.result = load i32, ptr %at.result.2
  %read.layout.result = load i32, ptr %at.result.3
  %other.dtype = xor i32 %read.dtype.result, %wanted.dtype
  %other.type = xor i32 %read.type.result, %wanted.device.type
  %other.index = xor i32 %read.index.result, %wanted.device.index
  %other.layout = xor i32 %read.layout.result, %wanted.layout
  %status.1 = or i32 %dtype.status, %device.type.status
  %status.2 = or i32 %device.index.status, %layout.status
  %status.12 = or i32 %status.1, %status.2
  %other.1 = or i32 %other.dtype, %other.type
  %other.2 = or i32 %other.index, %other.layout
  %other.12 = or i32 %other.1, %other.2
  %other.or.failed = or i32 %status.12, %other.12
  %is.kind = icmp eq i32 %other.or.failed, 0
  br i1 %is.kind, label %direct.address, label %miss

direct.address:
  %address.status = call i32 %read.address(ptr %handle, ptr %results)
  %address.read = icmp eq i32 %address.status, 0
  br i1 %address.read, label %direct.number, label %miss

direct.number:
  %direct.pointer = load ptr, ptr %results
  %direct.object = call ptr %from.address(ptr %direct.pointer)
  %direct.failed = icmp eq ptr %direct.object, null
  br i1 %direct.failed, label %miss, label %tensor.keep

tensor.read:
  %its.dtype = call ptr %attribute(ptr %x, ptr %dtype)
  %dtype.failed = icmp eq ptr %its.dtype, null
  br i1 %dtype.failed, label %miss, label %tensor.dtype

tensor.dtype:
  call void %decref(ptr %its.dtype)
  %same.dtype = icmp eq ptr %its.dtype, %wanted
  br i1 %same.dtype, label %tensor.device, label %miss

tensor.device:
  %its.device = call ptr %call(ptr %get.device, ptr %at.tensor, i64 1, ptr null)
  %device.failed = icmp eq ptr %its.device, null
  br i1 %device.failed, label %miss, label %tensor.number

tensor.number:
  %device = call i64 %as.long(ptr %its.device)
  call void %decref(ptr %its.device)
  %same.device = icmp eq i64 %device, %least
  br i1 %same.device, label %tensor.address, label %miss

tensor.address:
  %read.object = call ptr %call(ptr %data.ptr, ptr %at.tensor, i64 1, ptr null)
  %address.failed = icmp eq ptr %read.object, null
  br i1 %address.failed, label %miss, label %tensor.keep

tensor.keep:
  %address = phi ptr [ %direct.object, %direct.number ], [ %read.object, %tensor.address ]
  store ptr %address, ptr %at.value
  %address.owned = load i64, ptr %owned.count
  %at.owned = getelementptr ptr, ptr %owned, i64 %address.owned
  store ptr %address, ptr %at.owned
  %address.count = add i64 %address.owned, 1
  store i64 %address.count, ptr %owned.count
  %t.more = add i64 %t, 1
  %address.number = call i64 %as.long(ptr %address)
  %at.address = getelementptr i64, ptr %addresses, i64 %t
  store i64 %address.number, ptr %at.address
  %at.unread = getelementptr i64, ptr %lengths, i64 %t
  store i64 0, ptr %at.unread
  %misaligned = and i64 %address.number, 15
  %is.aligned = icmp eq i64 %misaligned, 0
  br i1 %is.aligned, label %argument.next, label %miss

argument.next:
  %t.next = phi i64 [ %t, %constant ], [ %t, %constant.compare ], [ %t, %pass ], [ %t.more, %tensor.keep ]
  %a.next = add i64 %a, 1
  br label %argument

state:
  %s = phi i64 [ 0, %argument ], [ %s.next, %state.next ]
  %s.more = icmp ult i64 %s, %states
  br i1 %s.more, label %state.test, label %reading

state.test:
  %at.state = getelementptr %state, ptr %at.states, i64 %s
  %one.state = load %state, ptr %at.state
  %state.object = extractvalue %state %one.state, 0
  %state.truth = extractvalue %state %one.state, 1
  %truth.32 = call i32 %is.true(ptr %state.object)
  %truth = sext i32 %truth.32 to i64
  %same.truth = icmp eq i64 %truth, %state.truth
  br i1 %same.truth, label %state.next, label %miss

state.next:
  %s.next = add i64 %s, 1
  br label %state

reading:
  %r = phi i64 [ 0, %state ], [ %r.next, %reading.next ]
  %r.more = icmp ult i64 %r, %readings
  br i1 %r.more, label %reading.test, label %field

reading.test:
  %at.reading = getelementptr %reading, ptr %at.readings, i64 %r
  %one.reading = load %reading, ptr %at.reading
  %reader = extractvalue %reading %one.reading, 0
  %expected = extractvalue %reading %one.reading, 1
  %read = call ptr %call0(ptr %reader)
  %read.failed = icmp eq ptr %read, null
  br i1 %read.failed, label %miss, label %reading.compare

reading.compare:
  call void %decref(ptr %read) ; alive: the reader or the table has it
  %same.reading = icmp eq ptr %read, %expected
  br i1 %same.reading, label %reading.next, label %miss

reading.next:
  %r.next = add i64 %r, 1
  br label %reading

field:
  %f = phi i64 [ 0, %reading ], [ %f.next, %field.next ]
  %f.more = icmp ult i64 %f, %fields
  br i1 %f.more, label %field.read, label %bound

field.read:
  %at.field = getelementptr %field, ptr %at.fields, i64 %f
  %one.field = load %field, ptr %at.field
  %field.argument = extractvalue %field %one.field, 0
  %field.of.base = extractvalue %field %one.field, 1
  %field.name = extractvalue %field %one.field, 2
  %field.method = extractvalue %field %one.field, 3
  %field.value = extractvalue %field %one.field, 4
  %field.offset = extractvalue %field %one.field, 5
  %at.subject = getelementptr ptr, ptr %arguments, i64 %field.argument
  %subject = load ptr, ptr %at.subject
  %has.field.offset = icmp ne i64 %field.offset, 0
  br i1 %has.field.offset, label %field.load, label %field.by.name

field.load:
  %at.field.offset = getelementptr i8, ptr %subject, i64 %field.offset
  %loaded.field = load ptr, ptr %at.field.offset
  %same.loaded = icmp eq ptr %loaded.field, %field.value
  br i1 %same.loaded, label %field.next, label %field.loaded

field.loaded:
  %no.field = icmp eq ptr %loaded.field, null
  br i1 %no.field, label %miss, label %field.hold

field.hold:
  call void %incref(ptr %loaded.field)
  br label %field.compare

field.by.name:
  %of.base = icmp ne i64 %field.of.base, 0
  br i1 %of.base, label %field.base, label %field.own

field.own:
  call void %incref(ptr %subject)
  br label %field.get

field.base:
  %subject.base = call ptr %attribute(ptr %subject, ptr %base.name)
  %subject.failed = icmp eq ptr %subject.base, null
  br i1 %subject.failed, label %miss, label %field.get

field.get:
  %owner = phi ptr [ %subject, %field.own ], [ %subject.base, %field.base ]
  %is.method = icmp ne ptr %field.method, null
  br i1 %is.method, label %field.call, label %field.attribute

field.call:
  store ptr %owner, ptr %values ; before the extents
  %returned = call ptr %call(ptr %field.method, ptr %values, i64 1, ptr null)
  br label %field.got

field.attribute:
  %got = call ptr %attribute(ptr %owner, ptr %field.name)
  br label %field.got

field.got:
  %named.field = phi ptr [ %returned, %field.call ], [ %got, %field.attribute ]
  call void %decref(ptr %owner)
  %field.failed = icmp eq ptr %named.field, null
  br i1 %field.failed, label %miss, label %field.compare

field.compare: ; Py_EQ
  %field.object = phi ptr [ %loaded.field, %field.hold ], [ %named.field, %field.got ]
  %field.equal = call i32 %compare(ptr %field.object, ptr %field.value, i32 2)
  call void %decref(ptr %field.object)
  %is.field = icmp eq i32 %field.equal, 1
  br i1 %is.field, label %field.next, label %miss

field.next:
  %f.next = add i64 %f, 1
  br label %field

bound: ; sizes and strides of a tensor that is read by its handle
  %b = phi i64 [ 0, %field ], [ %b.next, %bound.next ]
  %b.more = icmp ult i64 %b, %bounds
  br i1 %b.more, label %bound.read, label %pair

bound.read:
  %at.bound = getelementptr %bound, ptr %at.bounds, i64 %b
  %one.bound = load %bound, ptr %at.bound
  %bound.tensor = extractvalue %bound %one.bound, 0
  %rank = extractvalue %bound %one.bound, 1
  %wanted.sizes = extractvalue %bound %one.bound, 2
  %wanted.strides = getelementptr i64, ptr %wanted.sizes, i64 %rank
  %at.bound.tensor = getelementptr ptr, ptr %tensors, i64 %bound.tensor
  %bound.x = load ptr, ptr %at.bound.tensor
  %bound.handle = getelementptr i8, ptr %bound.x, i64 %handle.offset
  %at.sizes = getelementptr i64, ptr %results, i64 1
  %at.strides = getelementptr i64, ptr %results, i64 2
  %dim.status = call i32 %read.dim(ptr %bound.handle, ptr %results)
  %sizes.status = call i32 %read.sizes(ptr %bound.handle, ptr %at.sizes)
  %strides.status = call i32 %read.strides(ptr %bound.handle, ptr %at.strides)
  %status.dim.sizes = or i32 %dim.status, %sizes.status
  %status.bound = or i32 %status.dim.sizes, %strides.status
  %bound.is.read = icmp eq i32 %status.bound, 0
  br i1 %bound.is.read, label %bound.rank, label %miss

bound.rank:
  %dim = load i64, ptr %results
  %sizes = load ptr, ptr %at.sizes
  %strides = load ptr, ptr %at.strides
  %same.rank = icmp eq i64 %dim, %rank
  br i1 %same.rank, label %axis, label %miss

axis:
  %x.axis = phi i64 [ 0, %bound.rank ], [ %axis.next, %axis.compare ]
  %axis.more = icmp ult i64 %x.axis, %rank
  br i1 %axis.more, label %axis.compare, label %bound.next

axis.compare:
  %at.size.1 = getelementptr i64, ptr %sizes, i64 %x.axis
  %at.size.2 = getelementptr i64, ptr %wanted.sizes, i64 %x.axis
  %at.stride.1 = getelementptr i64, ptr %strides, i64 %x.axis
  %at.stride.2 = getelementptr i64, ptr %wanted.strides, i64 %x.axis
  %size.1 = load i64, ptr %at.size.1
  %size.2 = load i64, ptr %at.size.2
  %stride.1 = load i64, ptr %at.stride.1
  %stride.2 = load i64, ptr %at.stride.2
  %same.size = icmp eq i64 %size.1, %size.2
  %same.stride = icmp eq i64 %stride.1, %stride.2
  %same.axis = and i1 %same.size, %same.stride
  %axis.next = add i64 %x.axis, 1
  br i1 %same.axis, label %axis, label %miss

bound.next:
  %b.next = add i64 %b, 1
  br label %bound

pair: ; apart if the lower one ends where the other begins, or before
  %q = phi i64 [ 0, %bound ], [ %q.next, %pair.next ]
  %q.more = icmp ult i64 %q, %pairs
  br i1 %q.more, label %pair.read, label %grid

pair.read:
  %at.pair = getelementptr %pair, ptr %at.pairs, i64 %q
  %one.pair = load %pair, ptr %at.pair
  %first = extractvalue %pair %one.pair, 0
  %second = extractvalue %pair %one.pair, 1
  %at.first = getelementptr i64, ptr %addresses, i64 %first
  %at.second = getelementptr i64, ptr %addresses, i64 %second
  %first.address = load i64, ptr %at.first
  %second.address = load i64, ptr %at.second
  %is.first = icmp ult i64 %first.address, %second.address
  %lower = select i1 %is.first, i64 %first, i64 %second
  %lower.address = select i1 %is.first, i64 %first.address, i64 %second.address
  %upper.address = select i1 %is.first, i64 %second.address, i64 %first.address
  %distance = sub i64 %upper.address, %lower.address
  %at.length = getelementptr i64, ptr %lengths, i64 %lower
  %length.before = load i64, ptr %at.length
  %is.read = icmp ne i64 %length.before, 0
  br i1 %is.read, label %pair.compare, label %length

length:
  %at.lower = getelementptr ptr, ptr %tensors, i64 %lower
  %contiguous = call ptr %call(ptr %is.contiguous, ptr %at.lower, i64 1, ptr null)
  %contiguous.failed = icmp eq ptr %contiguous, null
  br i1 %contiguous.failed, label %miss, label %length.kind

length.kind:
  call void %decref(ptr %contiguous)
  %whole = icmp eq ptr %contiguous, %true
  br i1 %whole, label %length.whole, label %length.strided

length.whole:
  %lower.tensor = load ptr, ptr %at.lower
  %bytes.whole = call ptr %attribute(ptr %lower.tensor, ptr %nbytes)
  br label %length.got

length.strided:
  %bytes.strided = call ptr %call(ptr %length.of, ptr %at.lower, i64 1, ptr null)
  br label %length.got

length.got:
  %length.object = phi ptr [ %bytes.whole, %length.whole ], [ %bytes.strided, %length.strided ]
  %length.failed = icmp eq ptr %length.object, null
  br i1 %length.failed, label %miss, label %length.keep

length.keep:
  %length.number = call i64 %as.long(ptr %length.object)
  call void %decref(ptr %length.object)
  store i64 %length.number, ptr %at.length
  br label %pair.compare

pair.compare:
  %bytes.lower = phi i64 [ %length.before, %pair.read ], [ %length.number, %length.keep ]
  %is.apart = icmp uge i64 %distance, %bytes.lower
  br i1 %is.apart, label %pair.next, label %miss

pair.next:
  %q.next = add i64 %q, 1
  br label %pair

grid:
  br i1 %is.tuple, label %grid.length, label %meta

meta: ; the argument of a grid function: the constants of the entry, and the arguments of the call
  %dict = call ptr %copy(ptr %constants)
  %copy.failed = icmp eq ptr %dict, null
  br i1 %copy.failed, label %miss, label %meta.next

meta.next:
  %d = phi i64 [ 0, %meta ], [ %d.next, %meta.add ], [ %d.next, %meta.name ]
  %d.more = icmp ult i64 %d, %total
  br i1 %d.more, label %meta.name, label %grid.call

meta.name:
  %at.meta.name = getelementptr ptr, ptr %at.meta, i64 %d
  %meta.name.object = load ptr, ptr %at.meta.name
  %d.next = add i64 %d, 1
  %is.option = icmp eq ptr %meta.name.object, null
  br i1 %is.option, label %meta.next, label %meta.add

meta.add: ; an error is found below
  %at.meta.value = getelementptr ptr, ptr %arguments, i64 %d.next
  %meta.value = load ptr, ptr %at.meta.value
  %ignored = call i32 %set(ptr %dict, ptr %meta.name.object, ptr %meta.value)
  br label %meta.next

grid.call:
  store ptr %dict, ptr %values
  %computed = call ptr %call(ptr %grid.object, ptr %values, i64 1, ptr null)
  call void %decref(ptr %dict)
  %computed.failed = icmp eq ptr %computed, null
  br i1 %computed.failed, label %miss, label %grid.keep

grid.keep:
  %computed.number = load i64, ptr %owned.count
  %at.computed = getelementptr ptr, ptr %owned, i64 %computed.number
  store ptr %computed, ptr %at.computed
  %computed.count = add i64 %computed.number, 1
  store i64 %computed.count, ptr %owned.count
  %at.computed.type = getelementptr i8, ptr %computed, i64 OBJECT_TYPE
  %computed.type = load ptr, ptr %at.computed.type
  %is.computed.tuple = icmp eq ptr %computed.type, %tuple.type
  br i1 %is.computed.tuple, label %grid.length, label %miss

grid.length:
  %extents = phi ptr [ %grid.object, %grid ], [ %computed, %grid.keep ]
  %at.grid.size = getelementptr i8, ptr %extents, i64 TUPLE_SIZE
  %grid.size = load i64, ptr %at.grid.size
  %grid.size.1 = sub i64 %grid.size, 1
  %is.rank = icmp ult i64 %grid.size.1, 3
  br i1 %is.rank, label %extent, label %miss

extent:
  %e = phi i64 [ 0, %grid.length ], [ %e.next, %extent.next ]
  %at.extent = getelementptr ptr, ptr %values, i64 %e
  %in.grid = icmp ult i64 %e, %grid.size
  br i1 %in.grid, label %extent.read, label %extent.one

extent.one:
  store ptr %one, ptr %at.extent
  br label %extent.next

extent.read:
  %grid.items = getelementptr i8, ptr %extents, i64 TUPLE_ITEMS
  %at.grid.item = getelementptr ptr, ptr %grid.items, i64 %e
  %grid.item = load ptr, ptr %at.grid.item
  %at.item.type = getelementptr i8, ptr %grid.item, i64 OBJECT_TYPE
  %item.type = load ptr, ptr %at.item.type
  %is.int = icmp eq ptr %item.type, %int.type
  br i1 %is.int, label %extent.test, label %miss

extent.test:
  store ptr %grid.item, ptr %at.extent
  %extent.value = call i64 %as.long(ptr %grid.item)
  %extent.1 = sub i64 %extent.value, 1
  %at.limits = getelementptr %table, ptr %at.table, i64 0, i32 32
  %at.limit = getelementptr i64, ptr %at.limits, i64 %e
  %limit = load i64, ptr %at.limit
  %is.extent = icmp ult i64 %extent.1, %limit
  br i1 %is.extent, label %extent.next, label %miss

extent.next:
  %e.next = add i64 %e, 1
  %e.more = icmp ult i64 %e.next, 3
  br i1 %e.more, label %extent, label %run

run:
  %noted = call ptr %call(ptr %note, ptr %tensors, i64 %t, ptr null)
  %note.failed = icmp eq ptr %noted, null
  br i1 %note.failed, label %miss, label %launch

launch:
  call void %decref(ptr %noted)
  %launched = call ptr %call(ptr %repeat, ptr %values, i64 %passed, ptr null)
  %launch.failed = icmp eq ptr %launched, null
  br i1 %launch.failed, label %miss, label %launch.test

launch.test:
  call void %decref(ptr %launched)
  %is.launched = icmp eq ptr %launched, %true
  br i1 %is.launched, label %release, label %miss

miss:
  call void %clear()
  br label %release

release:
  %is.hit = phi i1 [ true, %launch.test ], [ false, %miss ], [ %is.hit, %release.one ]
  %left = load i64, ptr %owned.count
  %is.released = icmp eq i64 %left, 0
  br i1 %is.released, label %finish, label %release.one

release.one:
  %last = sub i64 %left, 1
  store i64 %last, ptr %owned.count
  %at.reference = getelementptr ptr, ptr %owned, i64 %last
  %reference = load ptr, ptr %at.reference
  call void %decref(ptr %reference)
  br label %release

finish:
  br i1 %is.hit, label %hit, label %general

hit:
  call void %incref(ptr %kernel)
  ret ptr %kernel

general:
  %answer = call ptr %call(ptr %otherwise, ptr %arguments, i64 %positional, ptr %names)
  ret ptr %answer
}
