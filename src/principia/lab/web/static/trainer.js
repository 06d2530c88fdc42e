// Moves the playground of the server: one request at a time, so that a slow server means fewer frames.
import { ask } from "./requests.js";

const ADDRESS = "/api/playground";
export const FARTHEST = 20000; // steps that a playground made anew is taken to
const MOST = 1000; // steps of one request
const LATER = 1500; // milliseconds until a busy server is asked again
const PATIENCE = 20; // times that it is asked
const FIGHT = 5000; // milliseconds within which it is not made anew a second time while it plays

const nextFrame = () => new Promise(requestAnimationFrame);

export class Trainer {
  // listener: wanted() gives what to make; units() whether to send their maps; making(step) before;
  // made(answer, asked, again); moved(frame, units); turned(playing); refused(error, making)
  constructor(listener) {
    this.listener = listener;
    this.playing = false;
    this.speed = 1;
    this.step = 0;
    this.number = null; // of the playground on the server; none until one is made
    this.making = null; // what tells an answer from that to an older request
    this.fresh = null; // { step, again }: one is to be made and taken to this step
    this.byHand = 0; // steps to take, or to take back
    this.looking = false; // a frame is wanted without a step
    this.changing = false; // a change waits for its moment
    this.remade = -Infinity; // when one was made again because it had been closed
    this.running = false;
    this.refusals = 0; // of a busy server, one after the other
    document.addEventListener("visibilitychange", () => document.hidden && this.pause());
  }

  // a change is made once nothing has changed for a moment
  anew(step = 0, pause = 0) {
    clearTimeout(this.timer);
    this.changing = true;
    this.timer = setTimeout(() => {
      this.changing = false;
      this.fresh = { step: Math.min(step, FARTHEST), again: false };
      this.byHand = 0;
      this.pump();
    }, pause);
  }

  play() {
    this.turn(true);
    this.pump();
  }

  pause() {
    this.turn(false);
  }

  // there is nothing to move
  halt() {
    clearTimeout(this.timer);
    this.changing = false;
    this.fresh = this.number = this.making = null;
    this.pause();
  }

  turn(playing) {
    if (this.playing === playing) return;
    this.playing = playing;
    this.listener.turned(playing);
  }

  move(steps) {
    this.pause();
    this.byHand = Math.max(-MOST, Math.min(MOST, this.byHand + steps));
    this.pump();
  }

  look() {
    this.looking = true;
    this.pump();
  }

  async pump() {
    if (this.running) return;
    this.running = true;
    while (await this.next());
    this.running = false;
  }

  // do what comes next; false if there is nothing to do
  async next() {
    const { fresh, byHand } = this;
    try {
      if (fresh) {
        this.fresh = null;
        await this.make(fresh);
        return true;
      }
      const steps = byHand || (this.playing ? this.speed : 0);
      if ((!steps && !this.looking) || this.number === null) return false;
      this.byHand = 0;
      this.looking = false;
      await this.take(steps);
      return true;
    } catch (error) {
      if (!fresh && error.status === 409 && !this.isFoughtOver()) {
        this.byHand += byHand; // it was closed: make it anew, then take the steps
        this.fresh ??= { step: Math.min(this.step, FARTHEST), again: true };
        return true;
      }
      if (error.status === 503 && this.refusals < PATIENCE) {
        this.refusals += 1; // all are in use: one will be free in a moment
        this.listener.refused(error, false);
        if (fresh) this.fresh ??= fresh;
        else this.byHand += byHand;
        await new Promise((resume) => setTimeout(resume, LATER));
        return true;
      }
      if (fresh) this.number = null;
      if (!fresh || error.status !== 422) this.pause(); // what is mended goes on playing
      this.listener.refused(error, Boolean(fresh));
      return this.fresh !== null;
    }
  }

  // two windows that play would make theirs anew again and again: the one that began last goes on
  isFoughtOver() {
    return this.playing && performance.now() - this.remade < FIGHT;
  }

  async make({ step, again }) {
    const mine = (this.making = {}), asked = this.listener.wanted();
    this.listener.making(step);
    const answer = await ask(ADDRESS, { body: { ...asked, steps: step } });
    this.refusals = 0;
    if (this.fresh || this.changing || this.making !== mine) return; // something newer is on its way
    if (again) this.remade = performance.now();
    this.number = answer.number;
    this.step = answer.frame.step;
    this.listener.made(answer, asked, again);
  }

  async take(steps) {
    const { number } = this, units = this.listener.units();
    const { frame } = await ask(`${ADDRESS}/step`, { body: { steps, units, number } });
    this.refusals = 0;
    if (this.fresh || this.number !== number) return;
    this.step = frame.step;
    if (this.playing && (frame.diverged || !frame.stepwise)) this.pause();
    this.listener.moved(frame, units);
    if (this.playing) await nextFrame();
  }
}
