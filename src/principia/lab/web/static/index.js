// The index: checks what has not been checked yet, one claim after the other.
import { ask } from "./requests.js";

const button = document.getElementById("check-all");
const count = (state) => document.querySelectorAll(`[data-claim].${state}`).length;
let running = false;

function tally() {
  document.getElementById("holding").textContent = count("holds");
  document.getElementById("failing").textContent = count("fails");
  document.getElementById("unchecked").textContent = count("unchecked");
}

async function check(dot) {
  dot.classList.add("busy");
  try {
    const { finding } = await ask(`/api/claims/${dot.dataset.claim.replace(":", "/")}/check`, { body: { seed: 0 } });
    const state = finding.passed ? "holds" : "fails";
    dot.classList.replace("unchecked", state);
    dot.title = dot.title.replace("not checked yet", state);
  } finally {
    dot.classList.remove("busy");
  }
}

button.disabled = !count("unchecked");
button.addEventListener("click", async () => {
  running = !running;
  button.textContent = running ? "Stop" : "Check what is not checked yet";
  for (const dot of document.querySelectorAll("[data-claim].unchecked")) {
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
  button.textContent = "Check what is not checked yet";
  button.disabled = !count("unchecked");
});
