// One run, live: what it tells comes as events; figures are fetched when they are new and in view.
import { ask } from "./requests.js";

const { announce, cell, drawFigure, short, whenSeen } = globalThis.principia;
const PAUSE = 1000; // milliseconds between two drawings of the curves
const AGAIN = 5000; // milliseconds until the next try, where the server cannot take another listener
const run = document.getElementById("run");
const address = `/api/runs/${encodeURIComponent(run.dataset.name)}`;
const byId = (id) => document.getElementById(id);
const WORDS = {
  waiting: "waits for its turn", running: "runs", stopping: "is stopping after this step", reached: "has reached its goals",
  missed: "has ended and missed a goal", interrupted: "was interrupted", failed: "could not begin",
};

// How it stands

function show(state) {
  const status = byId("status");
  if (run.dataset.status !== state.status) announce(`The run ${WORDS[state.status] ?? `is ${state.status}`}. ${state.problem}`);
  run.dataset.status = state.status;
  status.className = `verdict ${state.status}`;
  status.textContent = state.status;
  for (const name of ["problem", "note"]) {
    byId(name).textContent = state[name];
    byId(name).hidden = !state[name];
  }
  const active = ["waiting", "running", "stopping"].includes(state.status);
  byId("progress").hidden = !active;
  const bar = byId("progress").querySelector("progress");
  if (state.progress) bar.value = state.progress.fraction;
  else bar.removeAttribute("value");
  byId("words").textContent = state.progress ? `Now ${state.progress.words}` : "";
  hide(byId("cancel"), !state.cancellable);
  hide(byId("resume"), !state.resumable);
  byId("report").hidden = !state.report;
}

function hide(button, hidden) {
  if (hidden && button === document.activeElement) byId("main").focus({ preventScroll: true }); // not off the page
  button.hidden = hidden;
}

// The last numbers, once they are there

function tabulate(numbers) {
  byId("numbers").hidden = !numbers.length;
  byId("numbers").querySelector("tbody").replaceChildren(
    ...numbers.map(({ name, value, goal, reached }) => {
      const row = document.createElement("tr");
      const verdict = reached === null ? "" : reached ? "reached" : "missed";
      const head = cell("th", name.replaceAll("_", " "));
      head.scope = "row";
      row.dataset.metric = name;
      row.append(head, cell("td", value === null ? "" : typeof value === "number" ? short(value) : value, "value"), cell("td", goal), cell("td", verdict, verdict));
      return row;
    }),
  );
}

// Curves: drawn again when rows have come, at most once a second

const curves = { dirty: false, timer: null };

function curvesChanged() {
  curves.dirty = true;
  if (curves.timer === null) drawCurves();
}

async function drawCurves() {
  curves.dirty = false;
  curves.timer = setTimeout(() => {
    curves.timer = null;
    if (curves.dirty) drawCurves();
  }, PAUSE);
  try {
    const { figure } = await ask(`${address}/curves`);
    byId("curves").hidden = !figure;
    if (figure) await drawFigure(byId("curves").querySelector(".figure"), figure);
  } catch (error) {
    announce(error.message);
  }
}

// Figures

const figures = new Map(); // name -> its place, and whether somebody has seen it

function figureChanged(name) {
  const known = figures.get(name);
  if (known) {
    if (known.seen) drawNamed(name, known.place);
    return;
  }
  const card = document.createElement("section");
  const place = document.createElement("div");
  const entry = { place, seen: false };
  card.className = "card";
  card.append(cell("h3", name.replaceAll("_", " ")), place);
  place.className = "figure";
  place.setAttribute("role", "group");
  place.setAttribute("aria-label", `Figure: ${name.replaceAll("_", " ")}`);
  figures.set(name, entry);
  byId("figures").hidden = false;
  byId("figures").querySelector(".drawings").append(card);
  whenSeen(place, () => {
    entry.seen = true;
    drawNamed(name, place);
  });
}

async function drawNamed(name, place) {
  try {
    const figure = await ask(`${address}/figures/${encodeURIComponent(name)}`);
    if (figure.layout?.height) place.style.height = `${Math.min(figure.layout.height, 900)}px`;
    await drawFigure(place, figure);
  } catch (error) {
    place.textContent = error.message;
  }
}

// What it said

let lines = 0;

function hear({ at, text }) {
  const list = byId("said").querySelector("ol");
  if (at === 0) list.replaceChildren();
  else if (at < lines) return; // heard before the connection broke
  lines = at + 1;
  const below = list.scrollHeight - list.scrollTop - list.clientHeight < 20;
  list.append(cell("li", text));
  byId("said").hidden = false;
  if (below) list.scrollTop = list.scrollHeight;
}

// Listening; after a broken connection the browser comes back by itself, and says where it was

let source = null;

function listen() {
  source?.close();
  const mine = (source = new EventSource(`${address}/events`));
  const on = (kind, act) => mine.addEventListener(kind, (event) => act(JSON.parse(event.data)));
  on("state", show);
  on("say", hear);
  on("figure", ({ name }) => figureChanged(name));
  on("restart", () => (run.dataset.rows = "0"));
  on("rows", ({ from, rows }) => {
    run.dataset.rows = String(from + rows.length);
    curvesChanged();
  });
  on("end", async () => {
    mine.close();
    try {
      tabulate((await ask(address)).numbers);
    } catch (error) {
      announce(error.message);
    }
    run.dataset.over = "";
  });
  mine.addEventListener("error", async () => {
    if (mine.readyState !== EventSource.CLOSED) return; // the browser tries again
    try {
      show(await ask(address));
    } catch (error) {
      complain(error.message);
      if (error.status === 404) return;
    }
    setTimeout(() => mine === source && listen(), AGAIN);
  });
}

function complain(sentence) {
  byId("problem").textContent = sentence;
  byId("problem").hidden = !sentence;
}

let pressed = false; // a disabled button would lose the focus

async function press(what) {
  if (pressed) return;
  pressed = true;
  try {
    await ask(`${address}/${what}`, { method: "POST" });
    complain("");
    if (what === "resume") {
      delete run.dataset.over;
      listen();
    }
  } catch (error) {
    complain(error.message);
  } finally {
    pressed = false;
  }
}

for (const what of ["cancel", "resume"]) byId(what).addEventListener("click", () => press(what));
listen();
