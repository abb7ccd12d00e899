float f16_to_f32(ushort x) {
  uint size = (uint)(x & 0x7fff) << 13, sign = (uint)(x & 0x8000) << 16;
  uint number = as_uint(as_float(size) * 0x1p112f);
  return as_float(sign | number | (size < 0xf800000 ? 0 : 0x7f800000));
}
