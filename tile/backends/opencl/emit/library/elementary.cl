double nv_square_error(double x, double total, double sum, double square) {
  return nv_sum_error(total, square, sum) + fma(x, x, -square);
}

double nv_norm(double x, double y, double z, double w, bool reciprocal) {
  if (isinf(x) || isinf(y) || isinf(z) || isinf(w)) return reciprocal ? 0.0 : INFINITY;
  if (isnan(x) || isnan(y) || isnan(z) || isnan(w)) return NAN;
  double parts[4] = {x, y, z, w}, total = 0, low = 0;
  int exponent;
  frexp(fmax(fmax(fabs(x), fabs(y)), fmax(fabs(z), fabs(w))), &exponent);
  for (int k = 0; k < 4; k++) {
    double part = ldexp(parts[k], -exponent), square = part * part, sum = total + square;
    low += nv_square_error(part, total, sum, square);
    total = sum;
  }
  double root = sqrt(total);
  double error = total > 0 ? (fma(-root, root, total) + low) / (2 * root) : 0.0;
  if (reciprocal) return ldexp(nv_reciprocal(root, error), -exponent);
  return ldexp(root + error, exponent);
}

double nv_rhypot(double x, double y) {
  return nv_norm(x, y, 0, 0, true);
}

double nv_norm3d(double x, double y, double z) {
  return nv_norm(x, y, z, 0, false);
}

double nv_rnorm3d(double x, double y, double z) {
  return nv_norm(x, y, z, 0, true);
}

double nv_norm4d(double x, double y, double z, double w) {
  return nv_norm(x, y, z, w, false);
}

double nv_rnorm4d(double x, double y, double z, double w) {
  return nv_norm(x, y, z, w, true);
}

double nv_rcbrt(double x) {
  double root = cbrt(x), square = root * root, low = fma(root, root, -square);
  double cube = square * root;
  double error = ((x - cube) - fma(square, root, -cube) - low * root) / (3 * square);
  return nv_reciprocal(root, isfinite(error) ? error : 0.0);
}

double nv_quadrant(double x, bool cosine) {
  double rest = fmod(x, 2.0), quadrant = rint(2 * rest);
  rest -= quadrant / 2;
  double high = $PI * rest, low = fma($PI, rest, -high) + $PI_LOW * rest;
  int turn = ((int)quadrant + (cosine ? 1 : 0)) & 3;
  double size = turn & 1 ? cos(high) - low * sin(high) : sin(high) + low * cos(high);
  return turn & 2 ? -size : size;
}

double nv_sinpi(double x) {
  return isfinite(x) && x == trunc(x) ? copysign(0.0, x) : nv_quadrant(x, false);
}

double nv_cospi(double x) {
  double result = nv_quadrant(x, true);
  return result == 0 ? 0.0 : result;
}

double nv_rcp64h(double x) {
  double result = 1 / (fabs(x) < 0x1p-1022 ? copysign(0.0, x) : x);
  if (fabs(result) < 0x1p-1022) result = copysign(0.0, result);
  return as_double(as_ulong(result) & 0xffffffff00000000ul);
}
