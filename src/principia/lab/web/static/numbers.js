// The numbers of a frame: beside the plane, and in words for those who do not see it.
import { written } from "./axes.js";

const find = (id) => document.getElementById(id);

function score(frame, part) {
  if (frame?.task === "regression") return written(frame[`${part}_rmse`]);
  const share = frame?.[`${part}_accuracy`] ?? null;
  return share === null ? "–" : `${(100 * share).toFixed(1)} %`;
}

export function showNumbers(frame) {
  find("now-step").textContent = frame ? String(frame.step) : "–";
  find("now-epoch").textContent = frame ? String(frame.epoch) : "–";
  for (const part of ["train", "test"]) {
    find(`${part}-loss`).textContent = written(frame?.[`${part}_loss`]);
    find(`${part}-score`).textContent = score(frame, part);
  }
  find("score-name").textContent = frame?.task === "regression" ? "RMSE" : "accuracy";
}

export function describe(frame, points) {
  const name = frame.task === "regression" ? "error" : "accuracy";
  const part = (which) =>
    `${which === "train" ? "training" : which} loss ${written(frame[`${which}_loss`])} and ${name} ${score(frame, which)}`;
  const trouble = frame.diverged ? ` ${frame.diverged}` : "";
  return `${points} training points over ${frame.features.join(" and ")}. Step ${frame.step}: ${part("train")}, ${part("test")}.${trouble}`;
}
