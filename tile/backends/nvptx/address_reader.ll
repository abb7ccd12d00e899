; A function of CPython's calling convention METH_FASTCALL that takes tensors, and lists and tuples of tensors. It
; returns the tuple of their addresses if they are those of `%memory`, and None otherwise; see `address_reader.py`.

%table = type {
  ptr, ptr, ptr, ptr, ptr, ptr, ; of Python, in the order of `_API`
  ptr, ptr, ptr, ptr, ptr, ; None, list, tuple, the two types of tensors
  i64, i64, ptr, ; the offset of a tensor's handle, the address of its virtual methods, the reader of its address
  ptr ; %memory
}
%memory = type { ptr, i64 } ; a tuple and its length; its numbers follow

define ptr @launch(ptr %self, ptr %arguments, i64 %given) nounwind "no-jump-tables"="true" {
entry:
  %items.self = getelementptr i8, ptr %self, i64 TUPLE_ITEMS
  %bytes = load ptr, ptr %items.self
  %at.table = getelementptr i8, ptr %bytes, i64 BYTES_DATA
  %table = load %table, ptr %at.table
  %list.size = extractvalue %table %table, 0
  %list.item = extractvalue %table %table, 1
  %tuple.size = extractvalue %table %table, 2
  %tuple.item = extractvalue %table %table, 3
  %clear = extractvalue %table %table, 4
  %incref = extractvalue %table %table, 5
  %none = extractvalue %table %table, 6
  %list.type = extractvalue %table %table, 7
  %tuple.type = extractvalue %table %table, 8
  %tensor.type = extractvalue %table %table, 9
  %parameter.type = extractvalue %table %table, 10
  %handle.offset = extractvalue %table %table, 11
  %implementation = extractvalue %table %table, 12
  %read.address = extractvalue %table %table, 13
  %memory = extractvalue %table %table, 14
  %result = alloca i64
  %latest = load ptr, ptr %memory
  %at.length = getelementptr %memory, ptr %memory, i64 0, i32 1
  %length = load i64, ptr %at.length
  %numbers = getelementptr %memory, ptr %memory, i64 1
  br label %argument

argument:
  %a = phi i64 [ 0, %entry ], [ %a.next, %argument.next ]
  %n = phi i64 [ 0, %entry ], [ %number, %argument.next ] ; tensors before
  %a.more = icmp ult i64 %a, %given
  br i1 %a.more, label %argument.kind, label %end

argument.kind:
  %at.object = getelementptr ptr, ptr %arguments, i64 %a
  %object = load ptr, ptr %at.object
  %at.type = getelementptr i8, ptr %object, i64 OBJECT_TYPE
  %type = load ptr, ptr %at.type
  %is.list = icmp eq ptr %type, %list.type
  %is.tuple = icmp eq ptr %type, %tuple.type
  %is.many = or i1 %is.list, %is.tuple
  %size.of = select i1 %is.list, ptr %list.size, ptr %tuple.size
  %item.of = select i1 %is.list, ptr %list.item, ptr %tuple.item
  br i1 %is.many, label %many, label %tensor

many:
  %its.size = call i64 %size.of(ptr %object)
  br label %tensor

tensor: ; one, or the items of a list
  %size = phi i64 [ 1, %argument.kind ], [ %its.size, %many ], [ %size, %same ]
  %i = phi i64 [ 0, %argument.kind ], [ 0, %many ], [ %i.next, %same ]
  %number = phi i64 [ %n, %argument.kind ], [ %n, %many ], [ %number.next, %same ]
  %i.more = icmp slt i64 %i, %size
  br i1 %i.more, label %tensor.get, label %argument.next

tensor.get:
  br i1 %is.many, label %tensor.item, label %tensor.kind

tensor.item:
  %item = call ptr %item.of(ptr %object, i64 %i)
  %no.item = icmp eq ptr %item, null
  br i1 %no.item, label %miss, label %tensor.kind

tensor.kind:
  %x = phi ptr [ %object, %tensor.get ], [ %item, %tensor.item ]
  %at.its.type = getelementptr i8, ptr %x, i64 OBJECT_TYPE
  %its.type = load ptr, ptr %at.its.type
  %is.tensor = icmp eq ptr %its.type, %tensor.type
  %is.parameter = icmp eq ptr %its.type, %parameter.type
  %is.plain = or i1 %is.tensor, %is.parameter
  %is.numbered = icmp ult i64 %number, %length
  %is.readable = and i1 %is.plain, %is.numbered
  br i1 %is.readable, label %methods, label %miss

methods:
  %handle = getelementptr i8, ptr %x, i64 %handle.offset
  %at.methods = load ptr, ptr %handle
  %its.methods = load i64, ptr %at.methods
  %is.implementation = icmp eq i64 %its.methods, %implementation
  br i1 %is.implementation, label %address, label %miss

address:
  %status = call i32 %read.address(ptr %handle, ptr %result)
  %its.address = load i64, ptr %result
  %at.number = getelementptr i64, ptr %numbers, i64 %number
  %wanted = load i64, ptr %at.number
  %is.read = icmp eq i32 %status, 0
  %is.wanted = icmp eq i64 %its.address, %wanted
  %is.same = and i1 %is.read, %is.wanted
  br i1 %is.same, label %same, label %miss

same:
  %number.next = add i64 %number, 1
  %i.next = add i64 %i, 1
  br label %tensor

argument.next:
  %a.next = add i64 %a, 1
  br label %argument

end:
  %is.all = icmp eq i64 %n, %length
  br i1 %is.all, label %hit, label %miss

hit:
  call void %incref(ptr %latest)
  ret ptr %latest

miss:
  call void %clear()
  call void %incref(ptr %none)
  ret ptr %none
}
