double nv_hankel(double x, int order, bool second) {
  if (isinf(x)) return 0;
  double square = -1 / (x * x), p, q;
  if (order == 0) {
    p = $HANKEL_P0;
    q = $HANKEL_Q0 / x;
  } else {
    p = $HANKEL_P1;
    q = $HANKEL_Q1 / x;
  }
  double sine = sin(x), cosine = cos(x);
  double near = order == 0 ? cosine + sine : sine - cosine;
  double far = order == 0 ? sine - cosine : -cosine - sine;
  return (second ? p * far + q * near : p * near - q * far) / sqrt($PI * x);
}

double nv_j0(double x) {
  return fabs(x) < $FAR ? nv_j0_near(fabs(x)) : nv_hankel(fabs(x), 0, false);
}

double nv_j1(double x) {
  double result = fabs(x) < $FAR ? nv_j1_near(fabs(x)) : nv_hankel(fabs(x), 1, false);
  return copysign(1.0, x) * result;
}

double nv_y0(double x) {
  if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
  if (x >= $FAR) return nv_hankel(x, 0, true);
  if (x >= $NEAR) return nv_y0_near(x);
  double square = x * x;
  return $REGULAR_0 + 2 / $PI * log(x) * nv_j0(x);
}

double nv_y1(double x) {
  if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
  if (x >= $FAR) return nv_hankel(x, 1, true);
  if (x >= $NEAR) return nv_y1_near(x);
  double square = x * x;
  return $REGULAR_1 * x + 2 / $PI * log(x) * nv_j1(x) - 2 / $PI / x;
}

double nv_cyl_bessel_i0(double x) {
  double size = fabs(x);
  if (size < $FAR) return nv_i0_near(size);
  if (isinf(size)) return INFINITY;
  double step = -1 / size, root = exp(size / 2);
  return root * ($HANKEL_I0 / sqrt(2 * $PI * size)) * root;
}

double nv_cyl_bessel_i1(double x) {
  double size = fabs(x), result = INFINITY;
  double step = -1 / size, root = exp(size / 2);
  if (size < $FAR) result = nv_i1_near(size);
  else if (!isinf(size)) result = root * ($HANKEL_I1 / sqrt(2 * $PI * size)) * root;
  return copysign(1.0, x) * result;
}

double nv_yn(int n, double x) {
  if (n < 0) return NAN;
  double before = nv_y0(x), value = nv_y1(x);
  if (n == 0) return before;
  for (int k = 1; k < n && !isinf(value); k++) {
    double next = 2.0 * k / x * value - before;
    before = value;
    value = next;
  }
  return value;
}

double nv_jn(int n, double x) {
  if (n < 0 || isnan(x)) return NAN;
  double size = fabs(x), before = nv_j0(size), value = nv_j1(size);
  if (n == 0) return before;
  if (isinf(size) || size == 0) value = 0;
  else if (n <= size || n == 1) {
    for (int k = 1; k < n; k++) {
      double next = 2.0 * k / size * value - before;
      before = value;
      value = next;
    }
  } else if (size < 1e-6) {
    value = exp(n * log(size / 2) - lgamma(n + 1.0));
  } else {
    double above = 0, sum = 0, wanted = 0;
    value = 1e-300;
    for (int k = 2 * ((n + (int)sqrt(60.0 * (n + 10)) + 30) / 2); k > 0; k--) {
      double next = 2.0 * k / size * value - above;
      above = value;
      value = next;
      if (fabs(value) > 1e200) {
        above *= 1e-200;
        value *= 1e-200;
        wanted *= 1e-200;
        sum *= 1e-200;
      }
      if (k - 1 == n) wanted = value;
      if (k % 2 == 1 && k > 1) sum += 2 * value;
    }
    value = wanted / (sum + value);
  }
  return x < 0 && n % 2 == 1 ? -value : value;
}
