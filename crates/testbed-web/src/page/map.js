// The map: the chooser's pick and the fastest measured transport over round-trip time and loss.

import { ApiError, post } from "./api.js";
import { circuitPicker } from "./circuit.js";
import { el, field, fill, select, table } from "./dom.js";
import { figure } from "./figure.js";
import { duration, more, percent, plural, rate } from "./format.js";
import { heatmap } from "./heatmap.js";
import { named } from "./marks.js";

const RTTS = [0.5, 1, 2, 5, 10, 20, 50, 100, 150, 200, 300, 600];
const LOSSES = [0, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.02, 0.05];
const RATES = [1, 10, 20, 50, 100, 200, 500, 1000, 10_000];
const DEBOUNCE_MS = 250;

export async function show(page, { options, isShown }) {
  const { defaults } = options;
  let isReady = false;
  let answer = null;
  let at = [7, 3];
  let timer = 0;
  let asking = null;

  const circuit = circuitPicker(options, undefined, later);
  const scheme = select(options.schemes.map((each) => [each.name, each.label]), defaults.scheme, { on: { change: later } });
  const chosenRate = select([...RATES.map((value) => [value, rate(value)]), ["none", "no bottleneck"]], 100, { name: "rate", on: { change: later } });
  const batch = el("input", { type: "number", min: "1", max: String(options.limits.batch), value: "1", on: { input: later } });
  const blocked = el("input", { type: "checkbox", on: { change: later } });
  const notice = el("div", { "aria-live": "polite" });
  const detail = el("div", { class: "card cell", "aria-live": "polite" });

  const drawMap = (title, cells) => (colors, width) =>
    heatmap(colors, width, { title, rtts: answer.rtt_ms, losses: answer.loss, cells: cells(), transports: answer.transports, at, pick: choose });
  const model = figure({
    title: "The chooser's pick",
    note: "Predicted by the model. A stronger colour means a higher confidence.",
    name: () => "map-model",
    draw: drawMap("What the chooser picks by round-trip time and loss", modelCells),
    numbers: () => numbersOf((i, j) => {
      const cell = answer.model[i][j];
      return `${cell.pick} ${duration(cell.seconds * 1e3)}`;
    }),
  });
  const measured = figure({
    title: "The measured best",
    note: "",
    name: () => "map-measured",
    draw: drawMap("Which transport was fastest by round-trip time and loss", measuredCells),
    numbers: () => numbersOf((i, j) => measuredAt(i, j).map((each) => `${each.best} (${plural(each.runs, "run")})`).join(", ") || "–"),
  });
  const maps = el(
    "div",
    {
      class: "figures maps",
      tabindex: "0",
      role: "group",
      "aria-label": "Map of round-trip time and loss. Arrow keys select a cell; its results are shown below.",
      hidden: true,
      on: { keydown: move },
    },
    model.element,
    measured.element,
  );
  fill(
    page,
    el("h1", {}, "Transport map"),
    el("p", { class: "lead" }, "The transport that the chooser picks for each round-trip time and loss, and the one that was fastest in the runs of the history."),
    el(
      "details",
      { class: "card", open: true },
      el("summary", {}, el("h2", {}, "Computation and rate")),
      el("div", { class: "columns" }, circuit.element, el("div", {}, field("Rate of the path", chosenRate), field("Garbling scheme", scheme), field("Evaluations in a run", batch), el("label", { class: "check" }, blocked, " A firewall drops UDP"))),
    ),
    notice,
    maps,
    detail,
  );
  detail.hidden = true;
  isReady = true;
  await load();
  return () => {
    clearTimeout(timer);
    asking?.abort();
    model.end();
    measured.end();
  };

  function later() {
    if (!isReady) return;
    clearTimeout(timer);
    timer = setTimeout(load, DEBOUNCE_MS);
  }

  function conditions() {
    const value = chosenRate.value === "none" ? null : Number(chosenRate.value);
    return { circuit: circuit.value(), scheme: scheme.value, batch: Math.max(1, Number(batch.value) || 1), rate_mbit: value, udp_blocked: blocked.checked };
  }

  async function load() {
    asking?.abort();
    asking = new AbortController();
    maps.classList.add("stale");
    try {
      const found = await post("/api/map", { ...conditions(), rtt_ms: RTTS, loss: LOSSES, queue_bytes: null }, asking.signal);
      if (!isShown()) return;
      answer = found;
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof ApiError)) throw error;
      fill(notice, el("p", { class: "notice bad", role: "alert" }, error.message));
      return;
    }
    fill(notice);
    maps.classList.remove("stale");
    maps.hidden = false;
    detail.hidden = false;
    measured.setNote(
      answer.measured.length
        ? `From ${plural(answer.measured_runs, "stored run")}, each at the nearest cell. Full colour: every run of the best transport was faster than all others.`
        : "No stored runs have this circuit, scheme and rate over at least two transports. Select a cell and run it.",
    );
    draw();
  }

  function draw() {
    model.update();
    measured.update();
    describeCell();
  }

  function modelCells() {
    return answer.model.map((column, i) =>
      column.map((cell, j) => cell && { transport: cell.pick, strength: cell.confidence, tip: `${where(i, j)}: ${cell.pick}, ${duration(cell.seconds * 1e3)}` }),
    );
  }

  function measuredAt(i, j) {
    return answer.measured.filter((each) => each.rtt_index === i && each.loss_index === j).sort((a, b) => b.runs - a.runs);
  }

  function measuredCells() {
    return answer.rtt_ms.map((_, i) =>
      answer.loss.map((_, j) => {
        const [found] = measuredAt(i, j);
        return found ? { transport: found.best, strength: found.best_is_clear ? 1 : 0.4, tip: `${where(i, j)}: ${found.best} of ${plural(found.runs, "run")}` } : null;
      }),
    );
  }

  function numbersOf(cell) {
    return { head: ["RTT \\ loss", ...answer.loss.map(percent)], rows: answer.rtt_ms.map((rtt, i) => [duration(rtt), ...answer.loss.map((_, j) => cell(i, j))]), numeric: [] };
  }

  function where(i, j) {
    return `${duration(answer.rtt_ms[i])}, ${answer.loss[j] ? `${percent(answer.loss[j])} loss` : "no loss"}`;
  }

  function choose(i, j) {
    at = [i, j];
    draw();
  }

  function move(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step || !answer || event.target !== maps) return;
    event.preventDefault();
    const within = (value, most) => Math.min(Math.max(value, 0), most - 1);
    choose(within(at[0] + step[0], answer.rtt_ms.length), within(at[1] + step[1], answer.loss.length));
  }

  /** Shows the predictions and measurements of the selected cell. */
  function describeCell() {
    const [i, j] = at;
    const cell = answer.model[i][j];
    const rows = Object.entries(cell.times)
      .sort((a, b) => a[1] - b[1])
      .map(([transport, seconds]) => [
        named(transport),
        duration(seconds * 1e3),
        ...(measuredAt(i, j).length ? [measuredAt(i, j).map((each) => (each.medians_ms[transport] === undefined ? "–" : duration(each.medians_ms[transport]))).join(", ")] : []),
      ]);
    const found = measuredAt(i, j);
    const fields = new URLSearchParams({ circuit: circuit.value(), scheme: scheme.value, batch: batch.value, preset: "loopback", rtt_ms: answer.rtt_ms[i], loss: answer.loss[j], rate_mbit: chosenRate.value, udp_blocked: blocked.checked });
    fill(
      detail,
      el("h2", {}, where(i, j)),
      el(
        "p",
        {},
        el("strong", {}, `The chooser picks ${cell.pick}`),
        ` (${Math.round(cell.confidence * 100)} % confidence)`,
        cell.second ? `; ${cell.second} takes ${more(cell.second_s / cell.seconds)} more.` : ".",
        found.map((each) => ` Measured at ${duration(each.rtt_ms)}, ${percent(each.loss)}: ${each.best} was fastest (${plural(each.runs, "run")}${each.best_is_clear ? "" : ", overlapping"})${Number.isFinite(each.regret) ? `; the pick took ${more(1 + each.regret)} more.` : "."}`),
      ),
      table("Times in this cell", found.length ? ["Transport", "Predicted", "Measured (median)"] : ["Transport", "Predicted"], rows, [1, 2]),
      el("p", { class: "buttons" }, el("a", { class: "button", href: `#/new?${fields}` }, "Run this cell")),
    );
  }
}
