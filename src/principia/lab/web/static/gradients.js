// Gradients of the layers on a logarithmic scale: vanishing and exploding ones are seen.
import { drawSparkline, thinned } from "./charts.js";
import { written } from "./axes.js";

const LOW = -8, HIGH = 2; // powers of ten at the ends of the scale
const APART = 1000; // the first layer learns nothing if its gradient is so many times smaller

const share = (value) => (value > 0 ? Math.min(1, Math.max(0, (Math.log10(value) - LOW) / (HIGH - LOW))) : 0);

export class Gradients {
  constructor(table, words) {
    this.body = table;
    this.words = words;
    this.history = []; // [{ step, values }]
    this.names = "";
    document.addEventListener("themechange", () => this.spark());
  }

  clear() {
    this.history = [];
  }

  show(step, rows) {
    const names = rows.map((row) => row.name).join();
    if (names !== this.names) this.build(names, rows);
    this.history = thinned(this.history.filter((one) => one.step < step)); // what was taken back is forgotten
    this.history.push({ step, values: rows.map((row) => row.gradient ?? Infinity) });
    rows.forEach((row, place) => {
      const [, bar, value] = this.body.rows[place].cells;
      const size = row.gradient ?? Infinity;
      bar.firstChild.firstChild.style.width = `${100 * share(size)}%`;
      bar.firstChild.dataset.size = size < 1e-4 ? "small" : size > 10 ? "large" : "usual";
      value.textContent = row.gradient === null ? "∞" : written(row.gradient, 2);
    });
    this.words.textContent = sentence(rows);
    this.spark();
  }

  spark() {
    [...this.body.rows].forEach((row, place) => {
      drawSparkline(row.cells[3].firstChild, this.history.map((one) => share(one.values[place])));
    });
  }

  build(names, rows) {
    this.names = names;
    this.history = [];
    this.body.replaceChildren(
      ...rows.map((row, place) => {
        const line = document.createElement("tr"), head = document.createElement("th");
        head.scope = "row";
        head.textContent = String(place + 1);
        head.title = row.name;
        const track = document.createElement("div"), canvas = document.createElement("canvas");
        track.className = "track";
        track.append(document.createElement("i"));
        canvas.className = "spark";
        line.append(head, ...[track, "", canvas].map((inner) => {
          const cell = document.createElement("td");
          cell.append(inner);
          return cell;
        }));
        return line;
      }),
    );
  }
}

function sentence(rows) {
  const sizes = rows.map((row) => row.gradient ?? Infinity);
  if (!sizes.length) return "There is none: it does not learn by steps.";
  if (sizes.some((size) => size > 10 ** HIGH)) return "It explodes.";
  if (sizes.every((size) => size === 0)) return "All are 0: no weight will change.";
  const first = sizes[0], last = sizes.at(-1);
  if (sizes.length > 1 && first === 0) return "The first layer has none: it learns nothing.";
  if (sizes.length > 1 && first * APART < last) {
    return `It vanishes: ${written(last / first, 2)} times smaller in the first layer.`;
  }
  return "";
}
