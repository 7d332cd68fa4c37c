// The mark and name of a transport.

import { el } from "./dom.js";
import { styleOf, onTheme, theme } from "./theme.js";
import { mark, root } from "./svg.js";

/** Returns the mark of a transport in its colour. Screen readers ignore it, because the name follows. */
export function markOf(transport) {
  const colors = theme();
  const style = styleOf(transport, colors);
  const svg = root(14, 14, colors, transport);
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "mark");
  svg.dataset.transport = transport;
  svg.append(mark(style.mark, 7, 7, 5, { fill: style.color }));
  return svg;
}

/** Returns the mark and name of a transport. */
export function named(transport) {
  return el("span", { class: "named" }, markOf(transport), transport);
}

/** Returns whether the transport used differs from the one requested, apart from settings (`tcp:cc=bbr`). */
export const isOther = (used, asked) => Boolean(used) && used !== asked.split(/[,+:]/)[0] && used !== asked;

/** Returns the transport of a run, with the one that `auto` used. */
export function transportOf(run) {
  const used = isOther(run.used_transport, run.transport) && el("span", { class: "aside" }, ` used ${run.used_transport}`);
  return el("span", {}, named(run.transport), used);
}

onTheme(() => {
  for (const svg of document.querySelectorAll("svg.mark")) {
    svg.lastElementChild.setAttribute("fill", styleOf(svg.dataset.transport, theme()).color);
  }
});
