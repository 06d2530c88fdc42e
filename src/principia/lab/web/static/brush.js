// Drawing on the plane with mouse, pen or finger: a click is a point, a stroke sprays them.

const SPACING = 9; // pixels of a stroke from one point to the next
const SPREAD = 14; // pixels around the stroke
const RUBBER = 16; // radius of the eraser

export class Brush {
  // listener: began() before a stroke; drew(shares, class); rubbed(hit), which tells what the eraser took
  constructor(plane, listener) {
    this.plane = plane;
    this.listener = listener;
    this.tool = null; // the number of a class, "eraser", or none
    this.last = null;
    const { canvas } = plane;
    canvas.addEventListener("pointerdown", (event) => this.down(event));
    canvas.addEventListener("pointermove", (event) => this.last && this.along(event));
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) canvas.addEventListener(end, () => (this.last = null));
  }

  take(tool) {
    this.tool = tool;
    this.plane.canvas.classList.toggle("drawing", tool !== null);
  }

  down(event) {
    if (this.tool === null || event.button !== 0 || !event.isPrimary) return;
    event.preventDefault();
    this.plane.canvas.setPointerCapture(event.pointerId);
    this.listener.began();
    this.last = [event.clientX, event.clientY];
    this.touch(event, 0);
  }

  along(event) {
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length ? events : [event]) {
      const moved = Math.hypot(one.clientX - this.last[0], one.clientY - this.last[1]);
      if (this.tool !== "eraser" && moved < SPACING) continue;
      this.last = [one.clientX, one.clientY];
      this.touch(one, SPREAD);
    }
  }

  touch({ clientX, clientY }, spread) {
    if (this.tool === "eraser") {
      const [across, up] = this.plane.toShares({ clientX, clientY });
      const { width, height } = this.plane.box;
      this.listener.rubbed(([x, y]) => Math.hypot((x - across) * width, (y - up) * height) < RUBBER);
      return;
    }
    const angle = 2 * Math.PI * Math.random(), far = spread * Math.sqrt(Math.random());
    const shares = this.plane.toShares({ clientX: clientX + far * Math.cos(angle), clientY: clientY + far * Math.sin(angle) });
    if (shares.every((share) => share >= 0 && share <= 1)) this.listener.drew(shares, this.tool);
  }
}
