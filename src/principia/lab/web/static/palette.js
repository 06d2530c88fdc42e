// Colors of the playground: classes that color-blind people tell apart, and a scale with two ends.

const ORANGE = [245, 147, 34], BLUE = [8, 119, 189];
// after orange and blue, those of Okabe and Ito; the shapes of points tell the classes apart too
export const CLASSES = [
  ORANGE, BLUE, [0, 158, 115], [204, 121, 167], [240, 228, 66], [86, 180, 233], [213, 94, 0], [128, 128, 128],
];
const STRONGEST = 0.66; // a surface is paler than the points on it
const VIVID = 0.9; // a scale has no points to stand out from it

export const css = (color, alpha = 1) => `rgb(${color.map(Math.round).join(" ")} / ${alpha})`;

export const mix = (from, to, share) => from.map((one, place) => one + (to[place] - one) * share);

// a color that stands out from the paper
export const stronger = (color, paper) => mix(color, paper[0] > 128 ? [0, 0, 0] : [255, 255, 255], 0.35);

// what the theme says, as numbers to mix with
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => {
    const digits = style.getPropertyValue(name).trim().replace("#", "");
    const full = digits.length === 3 ? [...digits].map((one) => one + one).join("") : digits;
    return [0, 2, 4].map((start) => parseInt(full.slice(start, start + 2), 16));
  };
  return { paper: read("--paper"), ink: read("--ink"), soft: read("--soft"), line: read("--line"), accent: read("--accent") };
}

// Classes count by what they have beyond a fair share; where none has, the paper shows.
export function blend(shares, colors, paper) {
  const fair = 1 / shares.length;
  const mixed = [0, 0, 0];
  let beyond = 0, lead = 0;
  shares.forEach((share, place) => {
    const more = Math.max(0, share - fair);
    beyond += more;
    lead = Math.max(lead, more);
    for (let channel = 0; channel < 3; channel++) mixed[channel] += more * colors[place][channel];
  });
  if (!beyond) return paper;
  return mix(paper, mixed.map((one) => one / beyond), (STRONGEST * lead) / (1 - fair));
}

// From orange at 0 over the paper to blue at 1.
export function diverging(share, paper) {
  const side = Math.min(1, Math.max(-1, 2 * share - 1));
  return mix(paper, side < 0 ? ORANGE : BLUE, VIVID * Math.abs(side));
}

// the same for each of the 256 levels of a map
export function levels(paper) {
  return Array.from({ length: 256 }, (_, level) => diverging(level / 255, paper));
}

export function decode(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

// A small picture of size x size, row 0 below; color(place) gives the color of an entry.
export function picture(size, color, canvas = document.createElement("canvas")) {
  canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  for (let row = 0; row < size; row++) {
    for (let column = 0; column < size; column++) {
      const at = 4 * ((size - 1 - row) * size + column);
      image.data.set(color(row * size + column), at);
      image.data[at + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
