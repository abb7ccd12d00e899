float div_rn_f32(float x, float y) {
  float result;
  __asm__("div.rn.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
}

float sqrt_rn_f32(float x) {
  float result;
  __asm__("sqrt.rn.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

ulong global_timer(void) {
  ulong result;
  __asm__ volatile("mov.u64 %0, %%globaltimer;" : "=l"(result) : : "memory");
  return result;
}

uint multiprocessor_id(void) {
  uint result;
  __asm__("mov.u32 %0, %%smid;" : "=r"(result));
  return result;
}
