// The index: checks what has not been checked as it is now, one claim after the other.
import { ask } from "./requests.js";

const button = document.getElementById("check-all");
const count = (state) => document.querySelectorAll(`[data-claim].${state}`).length;
let running = false;

function tally() {
  document.getElementById("holding").textContent = count("holds");
  document.getElementById("failing").textContent = count("fails");
  document.getElementById("unchecked").textContent = count("unchecked");
  document.getElementById("stale").textContent = count("stale");
}

async function check(dot) {
  dot.classList.add("busy");
  try {
    const { finding, measure } = await ask(`/api/claims/${dot.dataset.claim.replace(":", "/")}/check`, { body: { seed: 0 } });
    const state = measure.stale ? "stale" : finding.passed ? "holds" : "fails";
    dot.classList.remove("unchecked", "stale");
    dot.classList.add(state);
    dot.title = dot.title.replace(/[^:]*$/, ` ${measure.stale ? "measured on an earlier version" : state}`);
  } finally {
    dot.classList.remove("busy");
  }
}

const left = () => document.querySelectorAll("[data-claim].unchecked, [data-claim].stale");
button.disabled = !left().length;
button.addEventListener("click", async () => {
  running = !running;
  button.textContent = running ? "Stop" : "Check what is not checked now";
  for (const dot of left()) {
    if (!running) return;
    try {
      await check(dot);
    } catch (error) {
      globalThis.principia.announce(error.message);
      if (error.status === 0) break;
    }
    tally();
  }
  running = false;
  button.textContent = "Check what is not checked now";
  button.disabled = !left().length;
});
