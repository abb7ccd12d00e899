uint nv_mul24_i32(int x, int y) {
  return (uint)((int)((uint)x << 8) >> 8) * (uint)((int)((uint)y << 8) >> 8);
}

uint nv_mul24_u32(uint x, uint y) {
  return (x & 0xffffff) * (y & 0xffffff);
}

uint nv_abs_i32(int x) {
  return x < 0 ? 0u - (uint)x : (uint)x;
}

ulong nv_abs_i64(long x) {
  return x < 0 ? 0ul - (ulong)x : (ulong)x;
}

uint nv_ffs_i32(int x) {
  return x ? 32 - clz((uint)x & (0u - (uint)x)) : 0;
}

uint nv_ffs_i64(long x) {
  return x ? 64 - (uint)clz((ulong)x & (0ul - (ulong)x)) : 0;
}

uint nv_brev_i32(uint x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
  x = (x >> 8 & 0x00ff00ffu) | (x & 0x00ff00ffu) << 8;
  return x >> 16 | x << 16;
}

ulong nv_brev_i64(ulong x) {
  return (ulong)nv_brev_i32((uint)x) << 32 | nv_brev_i32((uint)(x >> 32));
}

uint nv_byte_perm_i32(uint x, uint y, uint selector) {
  ulong both = (ulong)y << 32 | x;
  uint result = 0;
  for (uint byte = 0; byte < 4; byte++) {
    uint from = (selector >> 4 * byte & 7) * 8;
    result |= (uint)(both >> from & 0xff) << 8 * byte;
  }
  return result;
}
