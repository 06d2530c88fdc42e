// Where a function on a lattice is 0: line segments, by marching squares.

// The mean over neighbors, weighted 1 2 1: levels of whole numbers become smooth lines.
export function smoothed(size, value) {
  const inside = (one) => Math.min(size - 1, Math.max(0, one));
  const pass = (at) => {
    const found = new Float32Array(size * size);
    for (let row = 0; row < size; row++) {
      for (let column = 0; column < size; column++) found[row * size + column] = at(column, row);
    }
    return (column, row) => found[inside(row) * size + inside(column)];
  };
  const read = pass(value);
  const across = pass((column, row) => read(column - 1, row) + 2 * read(column, row) + read(column + 1, row));
  return pass((column, row) => across(column, row - 1) + 2 * across(column, row) + across(column, row + 1));
}

// value(column, row) on 0..size-1; found(x0, y0, x1, y1) in units of the lattice
export function contour(size, value, found) {
  const cross = (a, b) => a / (a - b);
  for (let row = 0; row + 1 < size; row++) {
    for (let column = 0; column + 1 < size; column++) {
      const a = value(column, row), b = value(column + 1, row), c = value(column + 1, row + 1), d = value(column, row + 1);
      const ends = [];
      if (a > 0 !== b > 0) ends.push([column + cross(a, b), row]);
      if (b > 0 !== c > 0) ends.push([column + 1, row + cross(b, c)]);
      if (c > 0 !== d > 0) ends.push([column + 1 - cross(c, d), row + 1]);
      if (d > 0 !== a > 0) ends.push([column, row + 1 - cross(d, a)]);
      for (let place = 0; place + 1 < ends.length; place += 2) found(...ends[place], ...ends[place + 1]);
    }
  }
}
