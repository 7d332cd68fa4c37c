// The heat map: a cell for each round-trip time and loss, with the colour and mark of a transport.

import { duration, percent } from "./format.js";
import { styleOf } from "./theme.js";
import { legend, legendHeight, line, mark, node, rect, root, text, widthOf } from "./svg.js";

/**
 * Draws a heat map. `cells[i][j]` belongs to `rtts[i]` and `losses[j]`: `{transport, strength,
 * tip}` or null. `at` is the selected cell `[i, j]`; `pick(i, j)` is called when a cell is clicked.
 */
export function heatmap(theme, width, { title, rtts, losses, cells, transports, at, pick, detail }) {
  const entries = transports.map((transport) => {
    const style = styleOf(transport, theme);
    return { name: transport, color: style.color, mark: style.mark, line: false };
  });
  const top = legendHeight(entries, width - 8) + 26;
  const left = Math.max(...losses.map((loss) => widthOf(percent(loss), 11))) + 14;
  const cell = (width - left - 8) / rtts.length;
  const tall = Math.max(26, Math.min(cell, 44));
  const bottom = top + tall * losses.length;
  const svg = root(width, bottom + 44, theme, title, detail);
  legend(svg, entries, 4, 10, width - 8, theme);
  svg.append(text(4, top - 8, "loss, each way (%)", { fill: theme.ink }));
  losses.forEach((loss, j) => {
    // Loss increases upwards.
    const y = bottom - (j + 1) * tall;
    svg.append(text(left - 6, y + tall / 2 + 4, percent(loss).replace(" %", ""), { "text-anchor": "end", fill: theme.muted, "font-size": 11 }));
    rtts.forEach((_, i) => {
      const x = left + i * cell;
      const found = cells[i]?.[j];
      const group = node("g", { "data-cell": `${i},${j}` });
      if (found) {
        const style = styleOf(found.transport, theme);
        group.append(
          rect(x + 1, y + 1, cell - 2, tall - 2, { fill: style.color, "fill-opacity": 0.35 + 0.65 * found.strength, rx: 2 }, node("title", {}, found.tip)),
          mark(style.mark, x + cell / 2, y + tall / 2, Math.min(6, cell / 5), { fill: theme.paper, stroke: theme.ink, "stroke-width": 1 }),
        );
      } else {
        group.append(rect(x + 1, y + 1, cell - 2, tall - 2, { fill: theme.grid, "fill-opacity": 0.5, rx: 2 }), line(x + cell * 0.35, y + tall * 0.65, x + cell * 0.65, y + tall * 0.35, { stroke: theme.frame }));
      }
      if (at?.[0] === i && at?.[1] === j) group.append(rect(x, y, cell, tall, { fill: "none", stroke: theme.ink, "stroke-width": 3, rx: 3 }));
      group.addEventListener("click", () => pick(i, j));
      svg.append(group);
    });
  });
  const every = Math.ceil((Math.max(...rtts.map((rtt) => widthOf(short(rtt), 11))) + 6) / cell);
  rtts.forEach((rtt, i) => {
    if (i % every) return;
    svg.append(text(left + (i + 0.5) * cell, bottom + 16, short(rtt), { "text-anchor": "middle", fill: theme.muted, "font-size": 11 }));
  });
  svg.append(text(left + (width - left - 8) / 2, bottom + 34, "round-trip time (ms)", { "text-anchor": "middle", fill: theme.ink }));
  return svg;
}

const short = (rtt) => duration(rtt).replace(/ ms$/, "");
