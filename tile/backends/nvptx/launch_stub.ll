; A function of CPython's calling convention METH_FASTCALL that launches a kernel with the arguments
; of a call. `launch_stub.py` makes its table, with the addresses of all functions that it calls, so
; its code has no relocations. Those of Python are in the stable ABI.

%table = type {
  ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ; of Python, in the order of `_API`
  ptr, ptr, ptr, ptr,     ; cuLaunchKernelEx, CUfunction, the reader of the stream, the report
  i64, i64, i64, i64, i64, ; arguments of a call, moves, words of the block, addresses, offset of the configuration
  ptr                     ; cuTensorMapReplaceAddress
} ; the moves and the block follow
%move = type { i32, i32, i32, i32 } ; format, argument, item of it or -1, offset in the block

define ptr @launch(ptr %self, ptr %arguments, i64 %given) nounwind "no-jump-tables"="true" {
entry:
  %items.self = getelementptr i8, ptr %self, i64 TUPLE_ITEMS
  %bytes = load ptr, ptr %items.self
  %at.table = getelementptr i8, ptr %bytes, i64 BYTES_DATA
  %table = load %table, ptr %at.table
  %as.unsigned = extractvalue %table %table, 0
  %as.signed = extractvalue %table %table, 1
  %as.double = extractvalue %table %table, 2
  %is.true = extractvalue %table %table, 3
  %occurred = extractvalue %table %table, 4
  %clear = extractvalue %table %table, 5
  %call = extractvalue %table %table, 6
  %decref = extractvalue %table %table, 7
  %save = extractvalue %table %table, 8
  %restore = extractvalue %table %table, 9
  %to.bool = extractvalue %table %table, 10
  %launch = extractvalue %table %table, 11
  %function = extractvalue %table %table, 12
  %stream.reader = extractvalue %table %table, 13
  %report = extractvalue %table %table, 14
  %expected = extractvalue %table %table, 15
  %moves = extractvalue %table %table, 16
  %words = extractvalue %table %table, 17
  %addresses = extractvalue %table %table, 18
  %config.offset = extractvalue %table %table, 19
  %replace = extractvalue %table %table, 20
  %move = getelementptr %table, ptr %at.table, i64 1
  %content = getelementptr %move, ptr %move, i64 %moves
  %block = alloca i64, i64 %words, align 64
  %base = ptrtoint ptr %block to i64
  %is.expected = icmp eq i64 %given, %expected
  br i1 %is.expected, label %check.report, label %refuse

check.report:
  %reported = load i32, ptr %report
  %is.clear = icmp eq i32 %reported, 0
  br i1 %is.clear, label %copy, label %refuse

copy: ; the first words are addresses in the block, relative to it
  %w = phi i64 [ 0, %check.report ], [ %w.next, %copy ]
  %word.from = getelementptr i64, ptr %content, i64 %w
  %word = load i64, ptr %word.from
  %is.address = icmp ult i64 %w, %addresses
  %origin = select i1 %is.address, i64 %base, i64 0
  %moved.word = add i64 %word, %origin
  %word.to = getelementptr i64, ptr %block, i64 %w
  store i64 %moved.word, ptr %word.to
  %w.next = add i64 %w, 1
  %more.words = icmp ult i64 %w.next, %words
  br i1 %more.words, label %copy, label %convert

convert:
  %m = phi i64 [ 0, %copy ], [ %m.next, %moved ]
  %done = icmp uge i64 %m, %moves
  br i1 %done, label %start, label %read

read:
  %at.move = getelementptr %move, ptr %move, i64 %m
  %one = load %move, ptr %at.move
  %format = extractvalue %move %one, 0
  %argument = extractvalue %move %one, 1
  %item = extractvalue %move %one, 2
  %offset = extractvalue %move %one, 3
  %at.argument = getelementptr ptr, ptr %arguments, i32 %argument
  %whole = load ptr, ptr %at.argument
  %items = getelementptr i8, ptr %whole, i64 TUPLE_ITEMS
  %at.item = getelementptr ptr, ptr %items, i32 %item
  %is.item = icmp sge i32 %item, 0
  %at.object = select i1 %is.item, ptr %at.item, ptr %at.argument
  %object = load ptr, ptr %at.object
  %target = getelementptr i8, ptr %block, i32 %offset
  switch i32 %format, label %unsigned [
    i32 1, label %signed
    i32 2, label %int
    i32 3, label %float
    i32 4, label %bool
    i32 5, label %map
  ]

unsigned: ; 64 bits
  %u = call i64 %as.unsigned(ptr %object)
  store i64 %u, ptr %target
  %u.suspect = icmp eq i64 %u, -1
  br i1 %u.suspect, label %check.error, label %moved

signed: ; 64 bits
  %s = call i64 %as.signed(ptr %object)
  store i64 %s, ptr %target
  %s.suspect = icmp eq i64 %s, -1
  br i1 %s.suspect, label %check.error, label %moved

int: ; 32 bits
  %i = call i64 %as.signed(ptr %object)
  %i.low = trunc i64 %i to i32
  store i32 %i.low, ptr %target
  %i.extended = sext i32 %i.low to i64
  %i.fits = icmp eq i64 %i.extended, %i
  br i1 %i.fits, label %check.int, label %refuse

check.int:
  %i.suspect = icmp eq i64 %i, -1
  br i1 %i.suspect, label %check.error, label %moved

float: ; 32 bits; a finite number that becomes infinite is refused
  %d = call double %as.double(ptr %object)
  %f = fptrunc double %d to float
  store float %f, ptr %target
  %f.bits = bitcast float %f to i32
  %f.magnitude = shl i32 %f.bits, 1
  %f.infinite = icmp eq i32 %f.magnitude, -16777216
  %d.bits = bitcast double %d to i64
  %d.magnitude = shl i64 %d.bits, 1
  %d.finite = icmp ult i64 %d.magnitude, -9007199254740992
  %overflows = and i1 %f.infinite, %d.finite
  br i1 %overflows, label %refuse, label %check.float

check.float:
  %d.suspect = icmp eq i64 %d.bits, -4616189618054758400 ; -1.0
  br i1 %d.suspect, label %check.error, label %moved

bool:
  %b = call i32 %is.true(ptr %object)
  %b.byte = trunc i32 %b to i8
  store i8 %b.byte, ptr %target
  %b.suspect = icmp slt i32 %b, 0
  br i1 %b.suspect, label %refuse, label %moved

map: ; for an array at an address, to which the word after the map is added
  %array = call i64 %as.unsigned(ptr %object)
  %at.addend = getelementptr i8, ptr %target, i64 128
  %addend = load i64, ptr %at.addend
  %map.address = add i64 %array, %addend
  %misaligned = and i64 %map.address, 15
  %is.aligned = icmp eq i64 %misaligned, 0
  %is.array = icmp ne i64 %array, -1
  %is.mapped = and i1 %is.aligned, %is.array
  br i1 %is.mapped, label %map.replace, label %refuse

map.replace:
  %map.pointer = inttoptr i64 %map.address to ptr
  %replaced = call i32 %replace(ptr %target, ptr %map.pointer)
  %is.replaced = icmp eq i32 %replaced, 0
  br i1 %is.replaced, label %moved, label %refuse

check.error:
  %error = call ptr %occurred()
  %no.error = icmp eq ptr %error, null
  br i1 %no.error, label %moved, label %refuse

moved:
  %m.next = add i64 %m, 1
  br label %convert

start:
  %stream.object = call ptr %call(ptr %stream.reader)
  %failed = icmp eq ptr %stream.object, null
  br i1 %failed, label %raise, label %run

run:
  %stream = call i64 %as.unsigned(ptr %stream.object)
  call void %decref(ptr %stream.object)
  %config = getelementptr i8, ptr %block, i64 %config.offset
  %at.stream = getelementptr i64, ptr %config, i64 4 ; in CUlaunchConfig
  store i64 %stream, ptr %at.stream
  %thread = call ptr %save()
  %status = call i32 %launch(ptr %config, ptr %function, ptr %block, ptr null)
  call void %restore(ptr %thread)
  %is.launched = icmp eq i32 %status, 0
  %launched = zext i1 %is.launched to i64
  br label %return

refuse:
  call void %clear()
  br label %return

return:
  %answer = phi i64 [ %launched, %run ], [ 0, %refuse ]
  %result = call ptr %to.bool(i64 %answer)
  ret ptr %result

raise:
  ret ptr null
}
