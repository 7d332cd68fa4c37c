// Helpers that draw SVG with presentation attributes only, so that an exported chart looks the same
// without the style sheet.

const SPACE = "http://www.w3.org/2000/svg";
export const FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif";

export function node(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === "") continue;
    element.setAttribute(name, typeof value === "number" ? String(Math.round(value * 100) / 100) : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function text(x, y, content, attributes = {}) {
  return node("text", { x, y, ...attributes }, content);
}

export function line(x1, y1, x2, y2, attributes = {}) {
  return node("line", { x1, y1, x2, y2, ...attributes });
}

export function rect(x, y, width, height, attributes = {}, ...children) {
  return node("rect", { x, y, width: Math.max(width, 0), height: Math.max(height, 0), ...attributes }, ...children);
}

/** Returns the root of a chart. Screen readers read `label`, then `detail`. */
export function root(width, height, theme, label, detail) {
  const title = node("title", {}, label);
  const svg = node(
    "svg",
    {
      xmlns: SPACE,
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": detail ? `${label}. ${detail}` : label,
      "font-family": FONT,
      "font-size": 12,
      fill: theme.ink,
    },
    title,
  );
  return svg;
}

/** Returns a mark of approximately this radius. */
export function mark(kind, x, y, r, attributes = {}) {
  const polygon = (...points) =>
    node("polygon", { points: points.map(([dx, dy]) => `${(x + dx * r).toFixed(2)},${(y + dy * r).toFixed(2)}`).join(" "), ...attributes });
  switch (kind) {
    case "square":
      return polygon([-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]);
    case "triangle":
      return polygon([0, -1.15], [1.1, 0.85], [-1.1, 0.85]);
    case "down":
      return polygon([0, 1.15], [1.1, -0.85], [-1.1, -0.85]);
    case "diamond":
      return polygon([0, -1.25], [1.25, 0], [0, 1.25], [-1.25, 0]);
    case "star": {
      const points = [];
      for (let n = 0; n < 10; n += 1) {
        const length = n % 2 ? 0.55 : 1.3;
        points.push([Math.sin((n * Math.PI) / 5) * length, -Math.cos((n * Math.PI) / 5) * length]);
      }
      return polygon(...points);
    }
    case "plus":
      return polygon([-0.35, -1.1], [0.35, -1.1], [0.35, -0.35], [1.1, -0.35], [1.1, 0.35], [0.35, 0.35], [0.35, 1.1], [-0.35, 1.1], [-0.35, 0.35], [-1.1, 0.35], [-1.1, -0.35], [-0.35, -0.35]);
    case "cross":
      return polygon([-1, -0.6], [-0.6, -1], [0, -0.4], [0.6, -1], [1, -0.6], [0.4, 0], [1, 0.6], [0.6, 1], [0, 0.4], [-0.6, 1], [-1, 0.6], [-0.4, 0]);
    default:
      return node("circle", { cx: x, cy: y, r, ...attributes });
  }
}

/** Estimates the width of a text in pixels. */
export function widthOf(content, size = 12) {
  let width = 0;
  for (const letter of String(content)) width += /[ilIjtf.,:;'|! ]/.test(letter) ? 0.34 : /[mwMW@%×]/.test(letter) ? 0.9 : 0.58;
  return width * size;
}

/** Draws a legend, with line breaks where needed, and returns its height. */
export function legend(svg, entries, x, y, width, theme) {
  let [column, row] = [x, y];
  for (const entry of entries) {
    const needed = 30 + widthOf(entry.name) + 14;
    if (column > x && column + needed > x + width) {
      column = x;
      row += 20;
    }
    svg.append(sample(entry, column, row, theme), text(column + 30, row + 4, entry.name, { fill: theme.ink }));
    column += needed;
  }
  return row - y + (entries.length ? 20 : 0);
}

/** Returns the height of a legend of this width. */
export function legendHeight(entries, width) {
  let [column, rows] = [0, entries.length ? 1 : 0];
  for (const entry of entries) {
    const needed = 30 + widthOf(entry.name) + 14;
    if (column > 0 && column + needed > width) {
      column = 0;
      rows += 1;
    }
    column += needed;
  }
  return rows * 20;
}

function sample(entry, x, y, theme) {
  if (entry.block) {
    return rect(x + 4, y - 6, 20, 12, { fill: entry.color, stroke: theme.frame });
  }
  const group = node("g");
  if (entry.line !== false) {
    group.append(line(x, y, x + 24, y, { stroke: entry.color, "stroke-width": entry.width ?? 2, "stroke-dasharray": entry.dash }));
  }
  if (entry.mark) group.append(mark(entry.mark, x + 12, y, 4.5, { fill: entry.hollow ? theme.paper : entry.color, stroke: entry.hollow ? entry.color : theme.paper, "stroke-width": entry.hollow ? 1.6 : 0.8 }));
  return group;
}
