// The shapes of points: one a class, so that color is never the only difference.

const SHAPES = [
  (path, r) => path.arc(0, 0, r, 0, 2 * Math.PI),
  (path, r) => path.rect(-0.88 * r, -0.88 * r, 1.76 * r, 1.76 * r),
  (path, r) => polygon(path, [[0, -1.25 * r], [1.15 * r, 0.8 * r], [-1.15 * r, 0.8 * r]]),
  (path, r) => polygon(path, [[0, -1.3 * r], [1.3 * r, 0], [0, 1.3 * r], [-1.3 * r, 0]]),
  (path, r) => polygon(path, [[0, 1.25 * r], [1.15 * r, -0.8 * r], [-1.15 * r, -0.8 * r]]),
  (path, r) => polygon(path, turned(5, 1.2 * r)),
  (path, r) => polygon(path, turned(6, 1.15 * r)),
  (path, r) => polygon(path, turned(8, 1.15 * r).map(([x, y], place) => (place % 2 ? [x / 2, y / 2] : [x, y]))),
];

function polygon(path, corners) {
  corners.forEach(([x, y], place) => (place ? path.lineTo(x, y) : path.moveTo(x, y)));
  path.closePath();
}

const turned = (count, r) =>
  Array.from({ length: count }, (_, place) => {
    const angle = (2 * Math.PI * place) / count - Math.PI / 2;
    return [r * Math.cos(angle), r * Math.sin(angle)];
  });

export function drawShape(context, x, y, shape, r) {
  const path = new Path2D();
  SHAPES[shape % SHAPES.length](path, r);
  context.translate(x, y);
  context.fill(path);
  context.stroke(path);
  context.translate(-x, -y);
}
