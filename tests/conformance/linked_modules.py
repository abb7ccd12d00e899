"""Three modules to be linked: a kernel, a function that it calls, and what both of these call."""

KERNEL = """
func @scale(%x: tile<32xf32>, %by: f32) -> (tile<32xf32>)
func @write(%at: tile<32xptr<f32>>, %x: tile<32xf32>)

kernel @k(%p: ptr<f32>, %s: f32) {
  %c = const {value = 32} : i32
  %pid = program_id {axis = 0} : i32
  %start = mul %pid, %c : i32
  %begin = addptr %p, %start {stride = 4} : ptr<f32>
  %i = arange {start = 0, end = 32} : tile<32xi32>
  %q = splat %begin {shape = (32)} : tile<32xptr<f32>>
  %at = addptr %q, %i {stride = 4} : tile<32xptr<f32>>
  %x = load %at : tile<32xf32>
  %y = call %x, %s {callee = @scale} : tile<32xf32>
  call %at, %y {callee = @write}
  return
}
"""
SCALE = """
func @one() -> (f32)
func @scale(%x: tile<32xf32>, %by: f32) -> (tile<32xf32>) {
  %s = splat %by {shape = (32)} : tile<32xf32>
  %y = mul %x, %s : tile<32xf32>
  %one = call {callee = @one} : f32
  %ones = splat %one {shape = (32)} : tile<32xf32>
  %z = add %y, %ones : tile<32xf32>
  return %z
}
"""
LIBRARY = """
func @one() -> (f32) {
  %c = const {value = 1.0} : f32
  return %c
}
func noinline @write(%to: tile<32xptr<f32>>, %x: tile<32xf32>) {
  store %to, %x
  return
}
"""
TEXTS = (KERNEL, SCALE, LIBRARY)
