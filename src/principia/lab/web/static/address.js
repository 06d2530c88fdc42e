// The address holds the state: what differs from the defaults in the query, drawn points in the fragment.

const FINEST = 2 ** 15 - 1; // steps of the plane in each direction: two numbers and a class fit 32 bits
export const MOST_POINTS = 500;
export const MOST_CLASSES = 4;

// Points lie on a fine lattice, so that an address gives back exactly those that were drawn.
export function onLattice(share) {
  return Math.round(Math.min(1, Math.max(0, share)) * FINEST) / FINEST;
}

function packed(points) {
  const view = new DataView(new ArrayBuffer(4 * points.length));
  points.forEach(({ x, y, label }, place) => {
    view.setUint32(4 * place, ((label << 30) | (Math.round(x * FINEST) << 15) | Math.round(y * FINEST)) >>> 0);
  });
  const text = btoa(String.fromCharCode(...new Uint8Array(view.buffer)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function unpacked(text) {
  let bytes;
  try {
    bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  } catch {
    return []; // not an address of ours
  }
  const view = new DataView(bytes.buffer);
  return Array.from({ length: Math.min(MOST_POINTS, Math.floor(bytes.length / 4)) }, (_, place) => {
    const bits = view.getUint32(4 * place);
    return { x: ((bits >>> 15) & FINEST) / FINEST, y: (bits & FINEST) / FINEST, label: bits >>> 30 };
  });
}

// { values: { name: text }, step, speed, tests, points, window }
export function read() {
  const values = Object.fromEntries(new URLSearchParams(location.search));
  const { step, speed, tests, ...rest } = values;
  const fragment = new URLSearchParams(location.hash.slice(1));
  const window = (fragment.get("window") ?? "").split(",").map(Number);
  const [x0, x1, y0, y1] = window;
  return {
    values: rest,
    step: /^\d{1,9}$/.test(step ?? "") ? Number(step) : 0,
    speed: speed ?? "",
    tests: tests !== "hidden",
    points: unpacked(fragment.get("points") ?? ""),
    window: window.length === 4 && window.every(Number.isFinite) && x0 < x1 && y0 < y1 ? window : null,
  };
}

export function write({ values, step, speed, tests, points, window }) {
  const query = new URLSearchParams(values);
  if (step) query.set("step", step);
  if (speed) query.set("speed", speed);
  if (!tests) query.set("tests", "hidden");
  const asked = query.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
  const fragment = points.length ? `#window=${window.join(",")}&points=${packed(points)}` : "";
  history.replaceState(null, "", `${location.pathname}${asked ? "?" + asked : ""}${fragment}`);
}
