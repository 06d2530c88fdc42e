// All runs: what is chosen is compared; the choice is in the address, so that it can be shared.
import { ask } from "./requests.js";

const { announce, cell, drawFigure, short } = globalThis.principia;
const form = document.getElementById("choose");
const LATER = 3000; // milliseconds between two looks at runs that go on
const TOGETHER = 12; // runs in one figure
const MOST = 4; // numbers of a run in the list
const ACTIVE = ["waiting", "running", "stopping"];

const boxes = () => [...form.querySelectorAll('input[name="compare"]')];
const chosen = () => boxes().filter((box) => box.checked).map((box) => box.value);

function table(title, names, rows) {
  const made = document.createElement("table");
  const head = document.createElement("tr");
  made.className = "plain";
  made.append(cell("caption", title));
  const columns = names.map((name) => cell("th", name));
  columns.forEach((column) => (column.scope = "col"));
  head.append(document.createElement("td"), ...columns);
  made.createTHead().append(head);
  made.createTBody().append(
    ...rows.map(([name, values]) => {
      const row = document.createElement("tr");
      const first = cell("th", name);
      first.scope = "row";
      row.append(first, ...values.map((value) => cell("td", value === null ? "" : typeof value === "number" ? short(value) : value)));
      return row;
    }),
  );
  return made;
}

function complain(sentence) {
  const problem = form.querySelector(".problem");
  problem.textContent = sentence;
  problem.hidden = !sentence;
}

async function compare(names) {
  const place = document.getElementById("compared");
  complain("");
  if (!names.length) {
    place.hidden = true;
    return;
  }
  try {
    const found = await ask(`/api/runs/compare?names=${names.map(encodeURIComponent).join(",")}`);
    place.hidden = false;
    place.querySelector(".curves").hidden = !found.figure;
    place.querySelector(".no-curves").hidden = Boolean(found.figure);
    const numbers = found.numbers.map(({ name, goals, values }) => [`${name.replaceAll("_", " ")} ${goals.join(", ")}`.trim(), values]);
    const differences = found.differences.map(({ name, values }) => [name.replaceAll("_", " "), values]);
    const tables = [table("Numbers, with their goals", found.names, numbers)];
    if (names.length > 1) {
      tables.push(differences.length ? table("What differs", found.names, differences) : cell("p", "They were asked the same.", "soft"));
    }
    place.querySelector(".tables").replaceChildren(...tables);
    if (found.figure) await drawFigure(place.querySelector(".figure"), found.figure);
    announce(`Compared ${names.length} runs.`);
    place.dataset.compared = names.join(",");
  } catch (error) {
    complain(error.message);
  }
}

function tally() {
  const count = chosen().length;
  document.getElementById("chosen").textContent = count ? `${count} chosen` : "";
}

function fromAddress() {
  const wanted = (new URLSearchParams(location.search).get("compare") ?? "").split(",").filter(Boolean);
  for (const box of boxes()) box.checked = wanted.includes(box.value);
  tally();
  return compare(wanted);
}

function toAddress(names) {
  const query = names.length ? `?compare=${names.map(encodeURIComponent).join(",")}` : "";
  history.pushState(null, "", `${location.pathname}${query}`);
}

async function refresh() {
  const going = [...document.querySelectorAll("tr[data-status]")].filter((row) => ACTIVE.includes(row.dataset.status));
  if (!going.length) return;
  try {
    const runs = new Map((await ask("/api/runs")).map((one) => [one.name, one]));
    for (const row of going) {
      const now = runs.get(row.dataset.name);
      const status = row.querySelector(".verdict");
      if (!now || now.status === row.dataset.status) continue;
      row.dataset.status = now.status;
      status.className = `verdict ${now.status}`;
      status.textContent = now.status;
      const measured = now.numbers.filter((one) => one.goal && one.value !== null).map(({ name, value, goal }) => {
        const line = document.createElement("div");
        line.append(`${name.replaceAll("_", " ")} `, cell("b", typeof value === "number" ? short(Number(value.toPrecision(4))) : value), " ", cell("span", goal, "soft"));
        return line;
      });
      const more = measured.length > MOST ? [cell("div", `and ${measured.length - MOST} more`, "soft")] : [];
      const why = now.problem ? [cell("div", now.problem, "soft")] : [];
      row.querySelector(".measured").replaceChildren(...why, ...measured.slice(0, MOST), ...more);
      announce(`${now.name}: ${now.status}.`);
    }
  } catch {
    // the server will be there again, or its absence is told when something is pressed
  }
  setTimeout(refresh, LATER);
}

if (form) {
  form.addEventListener("change", tally);
  form.addEventListener("reset", () => setTimeout(() => {
    tally();
    toAddress([]);
    compare([]);
  }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const names = chosen();
    if (!names.length) {
      complain("Choose one or more runs in the first column.");
      return;
    }
    if (names.length > TOGETHER) {
      complain(`Choose at most ${TOGETHER} runs; more curves cannot be told apart.`);
      return;
    }
    toAddress(names);
    await compare(names);
    document.getElementById("compared").focus();
  });
  addEventListener("popstate", fromAddress);
  fromAddress();
  setTimeout(refresh, LATER);
}
