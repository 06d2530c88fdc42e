// The static site: evidence stands in the page; "Break it" shows the control.
"use strict";

for (const card of document.querySelectorAll(".claim")) {
  const script = card.querySelector("script.evidence");
  const button = card.querySelector(".break");
  if (!script) {
    button.disabled = true;
    continue;
  }
  const { measure, control } = JSON.parse(script.textContent);
  const { showControl, showEvidence, whenSeen } = globalThis.principia;
  showControl(card, control);
  whenSeen(card, () => showEvidence(card, measure));
  button.addEventListener("click", () => {
    const broken = button.ariaPressed !== "true";
    button.ariaPressed = String(broken);
    button.textContent = broken ? "Mend it" : "Break it";
    showEvidence(card, broken ? control : measure);
  });
}
