// Small line charts: losses over the steps, and sparklines.
import { css, theme } from "./palette.js";
import { ticks, written } from "./axes.js";

const WIDE = 100; // losses that differ by this factor are drawn on a logarithmic scale

function prepare(canvas) {
  const ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

function trace(context, spots) {
  context.beginPath();
  let open = false;
  for (const [x, y] of spots) {
    if (!Number.isFinite(y)) open = false;
    else if (open) context.lineTo(x, y);
    else {
      context.moveTo(x, y);
      open = true;
    }
  }
  context.stroke();
}

// rows: [{ step, train, test }]; the solid line is training, the dashed one the test
export function drawLosses(canvas, rows) {
  const { context, width, height } = prepare(canvas);
  const colors = theme();
  const box = { x: 40, y: 6, width: width - 48, height: height - 26 };
  const values = rows.flatMap((row) => [row.train, row.test]).filter(Number.isFinite);
  const least = Math.min(...values), most = Math.max(...values);
  const log = least > 0 && most / least > WIDE;
  const low = log ? Math.log10(least) : 0, high = log ? Math.log10(most) : most > 0 ? most : 1;
  const last = rows.at(-1)?.step || 1, first = rows[0]?.step ?? 0;
  const x = (step) => box.x + ((step - first) / (last - first || 1)) * box.width;
  const y = (value) => box.y + (1 - ((log ? Math.log10(value) : value) - low) / (high - low || 1)) * box.height;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = css(colors.soft);
  context.strokeStyle = css(colors.line);
  context.lineWidth = 1;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const marks = log ? ticks(low, high, 4).filter(Number.isInteger).map((power) => 10 ** power) : values.length ? ticks(0, high, 4) : [];
  for (const mark of marks) {
    context.beginPath();
    context.moveTo(box.x, Math.round(y(mark)) + 0.5);
    context.lineTo(box.x + box.width, Math.round(y(mark)) + 0.5);
    context.stroke();
    context.fillText(written(mark, 2), box.x - 5, y(mark));
  }
  context.textBaseline = "bottom";
  context.fillText(`step ${last}`, box.x + box.width, height);
  context.textAlign = "left";
  context.fillText(String(first), box.x, height);
  context.lineWidth = 2;
  context.lineJoin = "round";
  context.strokeStyle = css(colors.soft);
  context.setLineDash([5, 4]);
  trace(context, rows.map((row) => [x(row.step), row.test === null ? NaN : y(row.test)]));
  context.strokeStyle = css(colors.accent);
  context.setLineDash([]);
  trace(context, rows.map((row) => [x(row.step), row.train === null ? NaN : y(row.train)]));
  if (rows.length === 1 && Number.isFinite(rows[0].train)) {
    context.fillStyle = css(colors.accent);
    context.fillRect(x(first) - 1, y(rows[0].train) - 2, 4, 4);
  }
}

// shares: from 0, the lower edge, to 1
export function drawSparkline(canvas, shares) {
  const { context, width, height } = prepare(canvas);
  context.strokeStyle = css(theme().accent);
  context.lineWidth = 1.5;
  const step = (width - 2) / Math.max(1, shares.length - 1);
  trace(context, shares.map((share, place) => [1 + place * step, height - 2 - share * (height - 4)]));
}

// At most so many rows: of a long history every other row is enough.
export function thinned(rows, most = 600) {
  return rows.length <= most ? rows : rows.filter((_, place) => place % 2 === 0 || place === rows.length - 1);
}
