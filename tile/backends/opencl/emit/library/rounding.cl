double nv_sum_error(double x, double y, double sum) {
  double part = sum - x;
  return (x - (sum - part)) + (y - part);
}

double nv_add_error_f32(float x, float y, float sum) {
  double exact = (double)x + (double)y;
  return (exact - (double)sum) + nv_sum_error(x, y, exact);
}

double nv_add_error_f64(double x, double y, double sum) {
  return isinf(sum) && isfinite(x) && isfinite(y) ? -sum : nv_sum_error(x, y, sum);
}

double nv_mul_error_f32(float x, float y, float product) {
  return (double)x * (double)y - (double)product;
}

double nv_mul_error_f64(double x, double y, double product) {
  if (isinf(product)) return isfinite(x) && isfinite(y) ? -product : 0;
  if (product == 0) return x == 0 || y == 0 ? 0 : copysign(1.0, x) * copysign(1.0, y);
  if (fabs(product) >= 0x1p-500) return fma(x, y, -product);
  double larger = fabs(x) > fabs(y) ? x : y, smaller = fabs(x) > fabs(y) ? y : x;
  return fma(larger, ldexp(smaller, 512), -ldexp(product, 512));
}

double nv_div_error_f32(float x, float y, float quotient) {
  if (!isfinite(x) || !isfinite(y) || x == 0 || y == 0) return 0;
  if (isinf(quotient)) return -quotient;
  double sign = copysign(1.0, (double)y);
  return sign * ((double)x - (double)quotient * (double)y);
}

double nv_div_error_f64(double x, double y, double quotient) {
  if (!isfinite(x) || !isfinite(y) || x == 0 || y == 0) return 0;
  if (isinf(quotient)) return -quotient;
  if (quotient == 0) return copysign(1.0, x) * copysign(1.0, y);
  int x_exponent, y_exponent;
  double dividend = frexp(x, &x_exponent), divisor = frexp(y, &y_exponent);
  double near = ldexp(quotient, y_exponent - x_exponent);
  return copysign(1.0, divisor) * fma(-near, divisor, dividend);
}

double nv_sqrt_error_f32(float x, float root) {
  return (double)x - (double)root * (double)root;
}

double nv_sqrt_error_f64(double x, double root) {
  if (!isfinite(x)) return 0;
  if (x > 1) return fma(-root, root, x);
  double near = ldexp(root, 100);
  return fma(-near, near, ldexp(x, 200));
}

double nv_fma_error_f32(float x, float y, float z, float sum) {
  double product = (double)x * (double)y, exact = product + (double)z;
  double low = nv_sum_error(product, z, exact), first = exact - (double)sum;
  return first + low;
}

double nv_fma_error_f64(double x, double y, double z, double sum) {
  if (!isfinite(x) || !isfinite(y) || !isfinite(z) || x == 0 || y == 0) return 0;
  if (isinf(sum)) return -sum;
  int x_exponent, y_exponent;
  double x_part = frexp(x, &x_exponent), y_part = frexp(y, &y_exponent);
  int shift = -(x_exponent + y_exponent);
  double product = x_part * y_part, low = fma(x_part, y_part, -product);
  double addend = fmax(fmin(ldexp(z, shift), 0x1p300), -0x1p300);
  if (fabs(addend) > 0x1p250) return product;
  if (fabs(addend) < 0x1p-300) addend = z == 0 ? 0 : copysign(0x1p-300, z);
  double total = product + addend, total_low = nv_sum_error(product, addend, total);
  double gap = total - ldexp(sum, shift), first = gap + total_low;
  double first_low = nv_sum_error(gap, total_low, first), second = first + low;
  return second + (first_low + nv_sum_error(first, low, second));
}

double nv_reciprocal(double x, double error) {
  double first = 1 / x, better = first + first * (fma(-first, x, 1.0) - first * error);
  return isfinite(better) ? better : first;
}

double nv_rsqrt(double x) {
  double root = sqrt(x);
  bool moderate = root > 1e-150 && root < 1e150;
  return nv_reciprocal(root, moderate ? fma(-root, root, x) / (2 * root) : 0.0);
}

float nv_rsqrt_rn_f32(float x) {
  return (float)nv_rsqrt((double)x);
}
