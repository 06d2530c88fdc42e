// Axes of a drawing: where round numbers lie, and how to write them.

export function ticks(low, high, most) {
  const rough = (high - low) / most;
  if (!(rough > 0) || !Number.isFinite(rough)) return [];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough * (1 - 1e-9)) ?? 10 * power;
  const found = [];
  for (let count = Math.ceil(low / step); count * step <= high * (1 + 1e-12) + 1e-300 && found.length < 50; count++) {
    found.push(Number((count * step).toPrecision(12)));
  }
  return found;
}

export function written(value, digits = 3) {
  if (!Number.isFinite(value ?? NaN)) return "–";
  const size = Math.abs(value);
  const plain = size === 0 || (size >= 1e-3 && size < 1e5);
  const text = plain ? String(Number(value.toPrecision(digits))) : value.toExponential(Math.max(0, digits - 2)).replace("e+", "e");
  return text.replaceAll("-", "−");
}
