// The mark of a transport beside its name.

import { el } from "./dom.js";
import { lookOf, onTheme, theme } from "./look.js";
import { mark, root } from "./svg.js";

/** The mark in the colour of its transport; for the eye only, the name stands beside it. */
export function markOf(transport) {
  const colors = theme();
  const look = lookOf(transport, colors);
  const svg = root(14, 14, colors, transport);
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "mark");
  svg.dataset.transport = transport;
  svg.append(mark(look.mark, 7, 7, 5, { fill: look.color }));
  return svg;
}

/** A transport's mark and name. */
export function named(transport) {
  return el("span", { class: "named" }, markOf(transport), transport);
}

/** Whether a transport is another one than what was asked for, settings aside (`tcp:cc=bbr`). */
export const isOther = (used, asked) => Boolean(used) && used !== asked.split(/[,+:]/)[0] && used !== asked;

/** The transport of a run, and which one it became if it was to be chosen. */
export function transportOf(run) {
  const used = isOther(run.used_transport, run.transport) && el("span", { class: "aside" }, ` used ${run.used_transport}`);
  return el("span", {}, named(run.transport), used);
}

onTheme(() => {
  for (const svg of document.querySelectorAll("svg.mark")) {
    svg.lastElementChild.setAttribute("fill", lookOf(svg.dataset.transport, theme()).color);
  }
});
