// Races: the figure of a race stands in the page, and is drawn when it comes into view.
"use strict";

for (const script of document.querySelectorAll("script.drawing")) {
  const { drawFigure, whenSeen } = globalThis.principia;
  const place = script.previousElementSibling;
  whenSeen(place, () => drawFigure(place, JSON.parse(script.textContent)));
}
