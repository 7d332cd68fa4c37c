// A chart with its title and its numbers as a table. It is redrawn when width or theme change, and
// can be saved as SVG or PNG.

import { el, fill, table } from "./dom.js";
import { LIGHT, onTheme, theme } from "./theme.js";
import { save } from "./download.js";

const EXPORT_WIDTH = 900;

/**
 * Shows a chart. `draw(theme, width)` returns an SVG element and `name()` the stem of file names.
 * `numbers()`, if given, returns the table `{head, rows, numeric}`. Returns the element,
 * `update()`, which redraws the chart, and `end()`, to be called when the element is removed.
 */
export function figure({ title, note, name, draw, numbers }) {
  const place = el("div", { class: "chart" });
  const noteLine = el("p", { class: "hint" }, note ?? "");
  const data = el("details", { class: "numbers", on: { toggle: () => data.open && list() } }, el("summary", {}, "Numbers"));
  const list = () => {
    const { head, rows, numeric } = numbers();
    data.replaceChildren(data.firstElementChild, table(`${title}: numbers`, head, rows, numeric));
  };
  const button = (kind, run) =>
    el("button", { type: "button", class: "quiet", "aria-label": `Save “${title}” as ${kind}`, on: { click: run } }, kind);
  const element = el(
    "figure",
    { class: "figure" },
    el(
      "div",
      { class: "figure-head" },
      el("h3", {}, title),
      el("div", { class: "figure-tools" }, button("SVG", () => saveSvg(draw, name())), button("PNG", () => savePng(draw, name()))),
    ),
    noteLine,
    place,
    numbers ? data : null,
  );
  let width = 0;
  const update = () => {
    if (width <= 0) return;
    fill(place, draw(theme(), width));
    if (numbers && data.open) list();
  };
  const watcher = new ResizeObserver((entries) => {
    const found = Math.floor(entries[0].contentRect.width);
    if (found !== width) {
      width = found;
      update();
    }
  });
  watcher.observe(place);
  const stop = onTheme(update);
  return {
    element,
    update,
    setNote: (text) => fill(noteLine, text),
    end: () => {
      watcher.disconnect();
      stop();
    },
  };
}

function standalone(draw) {
  const svg = draw(LIGHT, EXPORT_WIDTH);
  const [width, height] = [Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  paper.setAttribute("width", width);
  paper.setAttribute("height", height);
  paper.setAttribute("fill", LIGHT.paper);
  svg.insertBefore(paper, svg.firstChild.nextSibling);
  return { text: new XMLSerializer().serializeToString(svg), width, height };
}

function saveSvg(draw, name) {
  save(`${name}.svg`, new Blob([standalone(draw).text], { type: "image/svg+xml" }));
}

function savePng(draw, name) {
  const { text, width, height } = standalone(draw);
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const image = new Image();
  image.addEventListener("load", () => {
    const canvas = el("canvas", { width: width * 2, height: height * 2 });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    URL.revokeObjectURL(address);
    canvas.toBlob((blob) => blob && save(`${name}.png`, blob), "image/png");
  });
  image.src = address;
}
