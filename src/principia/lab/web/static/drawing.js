// Points that are drawn: on a lattice over a fixed part of the plane, few enough for an address.
import { MOST_CLASSES, MOST_POINTS, onLattice } from "./address.js";

const FEWEST = 10; // points that can be learned: some are kept for testing
export const SQUARE = [-1, 1, -1, 1]; // of an empty drawing

export class Drawing {
  constructor() {
    this.replace([], null);
  }

  // points: { x, y, label }, x and y as shares of the window
  replace(points, window) {
    this.points = points;
    this.window = window ?? SQUARE;
  }

  // go on from what is shown, if a drawing can hold it
  continueFrom(frame, rows) {
    const fits = frame?.features.length === 2 && frame.task === "classification" && frame.classes.length <= MOST_CLASSES;
    const window = fits ? frame.bounds.map((one) => Number(one.toPrecision(4))) : SQUARE;
    const [x0, x1, y0, y1] = window;
    const taken = fits ? rows.slice(0, MOST_POINTS) : [];
    this.replace(
      taken.map(([x, y, label]) => ({ x: onLattice((x - x0) / (x1 - x0)), y: onLattice((y - y0) / (y1 - y0)), label })),
      window,
    );
  }

  // whether bounds are those of the window, but for rounding
  covers(bounds) {
    const [x0, x1, y0, y1] = this.window, sizes = [x1 - x0, x1 - x0, y1 - y0, y1 - y0];
    return bounds.every((one, place) => Math.abs(one - this.window[place]) < 0.01 * sizes[place]);
  }

  // what must be drawn before anything can be learned
  lacks() {
    const more = FEWEST - this.points.length;
    if (more === FEWEST) return "Choose a class below, and draw: a click is a point, a stroke sprays them.";
    if (more > 0) return `Draw ${more} more, please.`;
    return new Set(this.points.map(({ label }) => label)).size < 2 ? "Now draw points of another class." : "";
  }

  // false if there is no room
  add([across, up], label) {
    if (this.points.length >= MOST_POINTS) return false;
    this.points.push({ x: onLattice(across), y: onLattice(up), label });
    return true;
  }

  remove(hit) {
    this.points = this.points.filter(({ x, y }) => !hit([x, y]));
  }

  // rows [x, y, class] in the units of the plane, as the server takes them and the plane draws them
  rows() {
    const [x0, x1, y0, y1] = this.window;
    return this.points.map(({ x, y, label }) => [x0 + x * (x1 - x0), y0 + y * (y1 - y0), label]);
  }
}
