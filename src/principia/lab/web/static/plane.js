// The plane: what the model says everywhere, the points that it learns from, and axes in their units.
import { blend, CLASSES, css, decode, diverging, levels, picture, stronger, theme } from "./palette.js";
import { ticks, written } from "./axes.js";
import { contour, smoothed } from "./contour.js";
import { drawShape } from "./shapes.js";

const EDGE = { left: 42, right: 8, top: 8, bottom: 40 }; // pixels around the plane, for numbers and names

export class Plane {
  // scene: { frame | null, window, points: {train, test}, colors, tests, unit | null }: a frame of the
  // server; what is shown without one; rows that end in the number of a color, or in a value; the
  // colors of the frame's classes; whether test points show; the hidden unit that hides the rest
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.scene = null;
    this.bounds = [-1, 1, -1, 1];
    new ResizeObserver(() => this.draw()).observe(canvas);
    document.addEventListener("themechange", () => this.draw());
  }

  show(scene) {
    this.scene = scene;
    this.draw();
  }

  fit() {
    const ratio = devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.box = { x: EDGE.left, y: EDGE.top, width: width - EDGE.left - EDGE.right, height: height - EDGE.top - EDGE.bottom };
    this.size = { width, height };
  }

  toPixels(x, y) {
    const [x0, x1, y0, y1] = this.bounds, { box } = this;
    return [box.x + ((x - x0) / (x1 - x0)) * box.width, box.y + ((y1 - y) / (y1 - y0)) * box.height];
  }

  // where a pixel lies as shares of the plane, 0 to 1 inside; and in the units of the table
  toShares(event) {
    const place = this.canvas.getBoundingClientRect(), { box } = this;
    return [(event.clientX - place.left - box.x) / box.width, 1 - (event.clientY - place.top - box.y) / box.height];
  }

  toValues([across, up]) {
    const [x0, x1, y0, y1] = this.bounds;
    return [x0 + across * (x1 - x0), y0 + up * (y1 - y0)];
  }

  draw() {
    this.fit();
    const { context, scene, size, box } = this;
    if (!scene || box.width <= 0) return;
    const { frame } = scene;
    this.colors = theme();
    this.bounds = this.limits(scene);
    context.clearRect(0, 0, size.width, size.height);
    context.save();
    context.beginPath();
    context.rect(box.x, box.y, box.width, box.height);
    context.clip();
    context.fillStyle = css(this.colors.paper);
    context.fill();
    if (scene.unit?.shape[0] > 1) this.drawValues(decode(scene.unit.map));
    else if (frame?.surface && frame.task === "classification") this.drawClasses(frame, scene.colors);
    else if (frame?.surface) this.drawValues(decode(frame.surface));
    this.drawPoints(scene);
    if (frame?.curve) this.drawCurve(frame, scene);
    context.restore();
    this.drawAxes(scene);
  }

  limits({ frame, window }) {
    if (!frame) return window;
    const [x0, x1, y0, y1] = frame.bounds;
    if (frame.features.length > 1 || frame.task === "regression") return [x0, x1, y0, y1];
    return [x0, x1, -0.06 * (frame.classes.length + 0.5), 1.04]; // points lie below the chances
  }

  drawValues(values) {
    const size = Math.round(Math.sqrt(values.length)), colors = levels(this.colors.paper);
    this.drawPicture(picture(size, (place) => colors[values[place]]), size);
  }

  // entries of the lattice lie on the edges too, hence half a cell sticks out
  drawPicture(image, size) {
    const { box, context } = this;
    const across = box.width / (size - 1), up = box.height / (size - 1);
    context.imageSmoothingEnabled = true;
    context.imageSmoothingQuality = "high";
    context.drawImage(image, box.x - across / 2, box.y - up / 2, box.width + across, box.height + up);
  }

  drawClasses(frame, colors) {
    const packed = decode(frame.surface), count = frame.classes.length;
    const entries = packed.length / count, size = Math.round(Math.sqrt(entries));
    const shares = new Array(count);
    const at = (place) => {
      for (let one = 0; one < count; one++) shares[one] = packed[one * entries + place] / 255;
      return blend(shares, colors, this.colors.paper);
    };
    this.drawPicture(picture(size, at), size);
    this.drawBorders(packed, count, entries, size);
  }

  drawBorders(packed, count, entries, size) {
    const { context, box } = this;
    context.strokeStyle = css(this.colors.ink, 0.55);
    context.lineWidth = 1.2;
    context.beginPath();
    const across = box.width / (size - 1), up = box.height / (size - 1);
    for (let one = 0; one < (count === 2 ? 1 : count); one++) {
      const lead = (column, row) => {
        const place = row * size + column;
        let best = -1;
        for (let other = 0; other < count; other++) if (other !== one) best = Math.max(best, packed[other * entries + place]);
        return packed[one * entries + place] - best;
      };
      contour(size, smoothed(size, lead), (x0, y0, x1, y1) => {
        context.moveTo(box.x + x0 * across, box.y + box.height - y0 * up);
        context.lineTo(box.x + x1 * across, box.y + box.height - y1 * up);
      });
    }
    context.stroke();
  }

  drawCurve(frame, scene) {
    const { context } = this, { x, y, probabilities } = frame.curve;
    const lines = y ? [[y, this.colors.ink]] : probabilities.map((one, place) => [one, stronger(scene.colors[place], this.colors.paper)]);
    if (scene.unit) {
      const [low, high] = [this.bounds[2], this.bounds[3]];
      const values = [...decode(scene.unit.map)].map((one) => low + ((high - low) * (0.1 + 0.8 * (one / 255))));
      const [x0, x1] = this.bounds;
      this.line(values.map((_, place) => x0 + ((x1 - x0) * place) / (values.length - 1)), values, css(this.colors.accent), 2, [5, 4]);
    }
    context.lineJoin = "round";
    for (const [values, color] of lines) {
      this.line(x, values, css(this.colors.paper), 6);
      this.line(x, values, css(color), 2.5);
    }
  }

  line(x, y, style, width, dash = []) {
    const { context } = this;
    context.strokeStyle = style;
    context.lineWidth = width;
    context.setLineDash(dash);
    context.beginPath();
    let open = false;
    x.forEach((one, place) => {
      if (y[place] === null) return (open = false);
      const spot = this.toPixels(one, y[place]);
      if (open) context.lineTo(...spot);
      else context.moveTo(...spot);
      open = true;
    });
    context.stroke();
    context.setLineDash([]);
  }

  drawPoints({ frame, points, tests }) {
    const flat = frame?.features.length === 1, classes = !frame || frame.task === "classification";
    const { context, colors } = this;
    const [low, high] = frame?.range ?? [0, 1];
    const radius = Math.min(5, Math.max(3.2, this.box.width / 112));
    const color = (value) => {
      if (classes) return CLASSES[value];
      return flat ? colors.accent : diverging((value - low) / (high - low), colors.paper);
    };
    const height = (row, value) => (!flat ? row[1] : classes ? -0.06 * (value + 0.75) : value);
    const paint = (row, hollow) => {
      const value = row.at(-1), own = color(value);
      const inside = hollow && (classes || flat) ? colors.paper : own;
      const marked = classes || flat; // else a point that is learned well has the color around it
      context.fillStyle = css(inside);
      if (marked) context.strokeStyle = css(hollow ? stronger(own, colors.paper) : colors.paper);
      else context.strokeStyle = css(colors.ink, hollow ? 0.9 : 0.4);
      context.lineWidth = hollow ? 1.8 : 1;
      drawShape(context, ...this.toPixels(row[0], height(row, value)), classes ? value : 0, hollow ? radius - 0.5 : radius);
    };
    for (const row of points.train) paint(row, false);
    if (tests) for (const row of points.test) paint(row, true);
  }

  drawAxes({ frame }) {
    const { context, box, bounds: [x0, x1, y0, y1] } = this;
    const flat = frame?.features.length === 1;
    context.strokeStyle = css(this.colors.line);
    context.lineWidth = 1;
    context.strokeRect(box.x + 0.5, box.y + 0.5, box.width - 1, box.height - 1);
    context.fillStyle = css(this.colors.soft);
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const value of ticks(x0, x1, Math.max(3, box.width / 80))) {
      const [x] = this.toPixels(value, y0);
      context.fillRect(x, box.y + box.height, 1, 4);
      context.fillText(written(value), x, box.y + box.height + 7);
    }
    context.textBaseline = "middle";
    context.textAlign = "right";
    const chances = flat && frame.task === "classification";
    for (const value of chances ? [0, 0.5, 1] : ticks(y0, y1, Math.max(3, box.height / 80))) {
      const [, y] = this.toPixels(x0, value);
      context.fillRect(box.x - 4, y, 4, 1);
      context.fillText(written(value), box.x - 7, y);
    }
    const [across, up] = frame?.features ?? ["x", "y"];
    context.textAlign = "center";
    context.textBaseline = "bottom";
    context.fillText(across, box.x + box.width / 2, this.size.height - 2);
    context.save();
    context.translate(10, box.y + box.height / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(flat ? (chances ? "chance" : frame.target) : up, 0, 4);
    context.restore();
  }
}
