// Hidden layers as columns of small maps: each unit over the same plane as the points.
import { decode, levels, picture, theme } from "./palette.js";
import { written } from "./axes.js";

export class Layers {
  constructor(place, chosen) {
    this.place = place;
    this.tell = chosen;
    this.chosen = null; // { layer, unit }
    this.built = "";
    this.layers = [];
    document.addEventListener("themechange", () => this.paint());
    place.addEventListener("keydown", (event) => this.move(event));
  }

  show(layers) {
    this.layers = layers;
    const built = JSON.stringify(layers.map(({ name, width, units, shape }) => [name, width, units.length, shape]));
    if (built !== this.built) this.build(built);
    this.paint();
  }

  // the chosen unit as it is now, for the plane
  unit() {
    if (!this.chosen) return null;
    const { layer, unit } = this.chosen, one = this.layers[layer];
    if (!one?.units[unit]) return null;
    return { map: one.units[unit], shape: one.shape, low: one.low[unit], high: one.high[unit], name: title(layer, unit) };
  }

  build(built) {
    this.built = built;
    this.chosen = null;
    this.place.dataset.across = this.layers.length < 2 ? "8" : this.layers.length < 3 ? "4" : this.layers.length < 5 ? "2" : "1"; // units in a row
    this.place.replaceChildren(...this.layers.map((layer, place) => this.column(layer, place)));
    if (!this.layers.length) {
      const none = document.createElement("p");
      none.className = "soft";
      none.textContent = "This model has no hidden layer.";
      this.place.append(none);
    }
  }

  column(layer, place) {
    const column = document.createElement("div"), head = document.createElement("p"), units = document.createElement("div");
    column.className = "layer";
    column.role = "group";
    column.ariaLabel = `Hidden layer ${place + 1}`;
    head.className = "soft";
    head.title = layer.name;
    units.className = "units";
    units.append(
      ...layer.units.map((_, unit) => {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "unit";
        button.tabIndex = unit ? -1 : 0; // the arrow keys reach the others
        button.append(document.createElement("canvas"));
        button.addEventListener("click", () => this.choose(place, unit));
        return button;
      }),
    );
    column.append(head, units);
    return column;
  }

  choose(layer, unit) {
    const same = this.chosen?.layer === layer && this.chosen.unit === unit;
    this.chosen = same ? null : { layer, unit };
    this.paint();
    this.tell();
  }

  release() {
    if (this.chosen) this.choose(this.chosen.layer, this.chosen.unit);
  }

  move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const column = event.target.closest(".layer");
    if (!step || !column) return;
    const units = [...column.querySelectorAll(".unit")];
    const next = units[units.indexOf(event.target) + step];
    event.preventDefault();
    if (!next) return;
    units.forEach((one) => (one.tabIndex = one === next ? 0 : -1));
    next.focus();
  }

  paint() {
    const colors = levels(theme().paper);
    const columns = this.place.querySelectorAll(".layer");
    this.layers.forEach((layer, place) => {
      const alike = layer.units.length > 1 && layer.units.every((map, unit) => map === layer.units[0] && layer.high[unit] === layer.high[0]);
      const count = layer.units.length < layer.width ? `${layer.units.length}/${layer.width}` : String(layer.width);
      columns[place].firstChild.textContent = alike ? `${count}, all alike` : count;
      columns[place].querySelectorAll(".unit").forEach((button, unit) => {
        const map = decode(layer.units[unit]);
        const size = Math.max(...layer.shape), flat = layer.shape[0] === 1;
        picture(size, (entry) => colors[map[flat ? entry % size : entry]], button.firstChild);
        const range = `${title(place, unit)}: ${written(layer.low[unit])} to ${written(layer.high[unit])}`;
        button.title = range;
        button.ariaLabel = range;
        button.ariaPressed = String(this.chosen?.layer === place && this.chosen.unit === unit);
      });
    });
  }
}

const title = (layer, unit) => `Layer ${layer + 1}, unit ${unit + 1}`;
