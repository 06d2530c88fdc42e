// What a frame says at a place of the plane.
import { decode } from "./palette.js";
import { written } from "./axes.js";

// shares: 0 to 1 across and up; gives the value, or the likeliest class with its chance
function answer(frame, [across, up]) {
  const packed = decode(frame.surface), classes = frame.classes.length || 1;
  const entries = packed.length / classes, size = Math.round(Math.sqrt(entries));
  const place = Math.round(up * (size - 1)) * size + Math.round(across * (size - 1));
  if (frame.task === "regression") {
    const [low, high] = frame.range;
    return { value: low + (packed[place] / 255) * (high - low) };
  }
  const chances = Array.from({ length: classes }, (_, one) => packed[one * entries + place] / 255);
  const chance = Math.max(...chances);
  return { best: chances.indexOf(chance), chance };
}

// names: of the classes; values: the same place in the units of the table
export function told(frame, names, shares, values) {
  const place = frame.features.map((name, axis) => `${name} ${written(values[axis])}`).join(", ");
  if (!frame.surface) return place;
  const { value, best, chance } = answer(frame, shares);
  return frame.task === "regression" ? `${place}: ${frame.target} ${written(value)}` : `${place}: ${names[best]}, ${Math.round(100 * chance)} %`;
}
