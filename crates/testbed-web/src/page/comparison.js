// The comparison of transports under equal conditions, with the minimum time that the path allows.

import { bars } from "./charts.js";
import { el, fill, table } from "./dom.js";
import { fileButton, fileName } from "./download.js";
import { figure } from "./figure.js";
import { bytes, count, digits, duration, more, plural, rate, times } from "./format.js";
import { columnsExplained } from "./glossary.js";
import { styleOf } from "./theme.js";
import { isOther, named } from "./marks.js";

const COLUMNS = ["Transport", "Runs", "Total", "Run time", "× limit", "On the wire, up", "Excess", "Lost packets", "Retransmitted (TCP)", "Payload rate", "CPU"];

/**
 * Returns the element of a comparison, `show(answer)`, which updates it, and `end()`. A single group
 * has a heading only if `isHeaded`, because the heading of a job already names its conditions.
 */
export function comparisonView(isHeaded = false) {
  const element = el("div", { class: "comparison" });
  let shown = new Map();
  return {
    element,
    show({ groups }) {
      const before = shown;
      shown = new Map();
      for (const group of groups) {
        const key = JSON.stringify([group.scenario, group.circuit, group.scheme, group.batch, group.encrypted, group.rtt_ms, group.loss, group.rate_mbit, shown.size]);
        const view = before.get(key) ?? groupView();
        before.delete(key);
        shown.set(key, view);
        view.show(group, isHeaded || groups.length > 1);
      }
      for (const view of before.values()) view.end();
      const views = [...shown.values()].map((view) => view.element);
      // Elements are replaced only if they changed, because replacing them would close details that
      // the user has opened.
      if (views.length !== element.children.length || views.some((view, number) => element.children[number] !== view)) fill(element, views);
    },
    end() {
      for (const view of shown.values()) view.end();
    },
  };
}

function groupView() {
  let group = null;
  const heading = el("h2");
  const words = el("p", { class: "verdict", "aria-live": "polite" });
  const details = el("div");
  const buttons = el("div");
  const stem = () => fileName(group.circuit_label ?? group.circuit, group.scheme, group.scenario);
  const measured = () => group.rows.filter((row) => row.total_ms);

  const total = figure({
    title: "Total time",
    note: "From the first packet to the output, including connecting and the handshake.",
    name: () => `${stem()}-total-time`,
    draw: (colors, width) =>
      bars(colors, width, {
        title: `Total time of each transport, ${title(group)}`,
        label: "total time",
        rows: measured().map((row) => ({
          name: row.transport,
          style: styleOf(row.transport, colors),
          ...row.total_ms,
          predicted: predictedOf(row),
        })),
      }),
    numbers: () => ({
      head: ["transport", "median", "minimum", "maximum", "predicted", "80 % interval"],
      rows: measured().map((row) => [
        row.transport,
        ...["median", "min", "max"].map((key) => duration(row.total_ms[key])),
        duration((row.predicted_s ?? NaN) * 1e3),
        predictedOf(row) ? `${duration(row.predicted_low_s * 1e3)} to ${duration(row.predicted_high_s * 1e3)}` : "–",
      ]),
      numeric: [1, 2, 3, 4, 5],
    }),
  });
  const run = figure({
    title: "Run time and the physical limit",
    note: "From the established connection to the output. The limit is the time of the protocol's round trips plus that of its bytes at the rate of the path. The floor is a lower bound: the longer of the two.",
    name: () => `${stem()}-run-time`,
    draw: (colors, width) =>
      bars(colors, width, {
        title: `Run time of each transport and the physical limit, ${title(group)}`,
        label: "run time",
        rows: measured()
          .filter((row) => row.runtime_ms)
          .map((row) => ({ name: row.transport, style: styleOf(row.transport, colors), ...row.runtime_ms })),
        lines: limitLines(group.limit),
      }),
    numbers: () => ({
      head: ["transport", "median", "minimum", "maximum", "times the limit"],
      rows: measured()
        .filter((row) => row.runtime_ms)
        .map((row) => [row.transport, ...["median", "min", "max"].map((key) => duration(row.runtime_ms[key])), times(row.ratio)]),
      numeric: [1, 2, 3, 4],
    }),
  });
  const element = el("section", { class: "group" }, heading, words, el("div", { class: "figures" }, total.element, run.element), details, columnsExplained(COLUMNS), buttons);
  return {
    element,
    show(found, hasHeading) {
      group = found;
      heading.hidden = !hasHeading;
      fill(heading, title(group));
      fill(words, verdict(group));
      fill(details, numbersOf(group));
      fill(buttons, actions(group, stem()));
      total.update();
      run.update();
    },
    end() {
      total.end();
      run.end();
    },
  };
}

const title = (group) => `${group.circuit_label ?? group.circuit} ${group.scheme} on ${group.scenario}${group.batch > 1 ? `, batch of ${count(group.batch)}` : ""}${group.encrypted ? "" : ", plaintext"}`;

function predictedOf(row) {
  if (!Number.isFinite(row.predicted_s)) return null;
  return { low: (row.predicted_low_s ?? row.predicted_s) * 1e3, mid: row.predicted_s * 1e3, high: (row.predicted_high_s ?? row.predicted_s) * 1e3 };
}

function limitLines(limit) {
  if (!limit) return [];
  const lines = [];
  if (limit.limit_ms > 0) lines.push({ name: "limit", at: limit.limit_ms, dash: "7 4" });
  if (limit.floor_ms > 0 && Math.abs(limit.floor_ms - limit.limit_ms) > limit.limit_ms * 0.005) lines.push({ name: "floor", at: limit.floor_ms, dash: "2 3" });
  return lines;
}

/** Returns a sentence that names the fastest transport and the transport that the chooser picks. */
function verdict(group) {
  const best = group.rows.find((row) => row.transport === group.best && row.total_ms);
  if (!best) {
    const failed = group.rows.reduce((sum, row) => sum + row.failed + row.cut_off, 0);
    return failed ? `No result: ${plural(failed, "run")} failed.` : "No results yet.";
  }
  const isAlone = group.rows.filter((row) => row.total_ms).length === 1;
  const words = [el("strong", {}, isAlone ? `Only ${best.transport} was measured` : `${best.transport} was fastest`), `: ${duration(best.total_ms.median)} in total (median of ${best.runs - best.failed - best.cut_off})`];
  if (Number.isFinite(best.ratio) && best.runtime_ms) words.push(`, of which ${duration(best.runtime_ms.median)} once connected, ${times(best.ratio)} the physical limit`);
  words.push(group.best_is_clear || isAlone ? ". " : ". Its times overlap with those of others: more repetitions may decide. ");
  const pick = group.rows.find((row) => row.transport === group.pick && row.total_ms);
  if (group.pick === group.best) words.push("The chooser picks it too.");
  else if (pick) words.push(`The chooser picks ${group.pick}, which took ${more(pick.total_ms.median / best.total_ms.median)} more.`);
  else if (group.pick) words.push(`The chooser picks ${group.pick}, which was not run.`);
  return words;
}

function numbersOf(group) {
  const rows = group.rows.map((row) => {
    const bad = [row.failed && `${row.failed} failed`, row.cut_off && `${row.cut_off} cut off`].filter(Boolean).join(", ");
    const used = Object.entries(row.used ?? {}).filter(([name]) => isOther(name, row.transport));
    const excess = row.wire_up_bytes && row.payload_up_bytes ? more(row.wire_up_bytes / row.payload_up_bytes) : "–";
    return [
      el("span", {}, named(row.transport), used.length > 0 && el("span", { class: "aside" }, ` used ${used.map(([name, runs]) => `${name} ${runs} ×`).join(", ")}`)),
      el("span", {}, count(row.runs), bad && el("span", { class: "bad-text" }, ` (${bad})`)),
      duration(row.total_ms?.median),
      duration(row.runtime_ms?.median),
      times(row.ratio),
      bytes(row.wire_up_bytes),
      excess,
      digits(row.lost_packets ?? NaN),
      digits(row.retransmitted_segments ?? NaN),
      rate(row.achieved_mbit ?? NaN),
      `${digits(row.cpu_s ?? NaN)} s`,
    ];
  });
  return table(`All figures, ${title(group)}`, COLUMNS, rows, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

function actions(group, stem) {
  const ids = group.rows.flatMap((row) => row.ids ?? []);
  if (ids.length === 0) return null;
  const list = ids.join(",");
  return el(
    "p",
    { class: "buttons" },
    el("a", { class: "button", href: againLink(group) }, "Change and run again"),
    ids.length <= 200 && el("a", { class: "button", href: `#/compare?ids=${list}` }, "Overlay these runs"),
    ids.length <= 200 && fileButton("CSV", `/api/export.csv?ids=${list}`, `${stem}.csv`),
    ids.length <= 200 && fileButton("JSON", `/api/export.json?ids=${list}`, `${stem}.json`),
  );
}

/** Returns the address of the form, filled in with these conditions. */
function againLink(group) {
  const fields = new URLSearchParams({ circuit: group.circuit, scheme: group.scheme, batch: group.batch, encrypted: group.encrypted, transports: group.rows.map((row) => row.transport).join(" ") });
  const [preset, ...sets] = group.scenario.split(",");
  fields.set("preset", preset);
  if (sets.length) {
    fields.set("rtt_ms", group.rtt_ms);
    fields.set("loss", group.loss);
    fields.set("rate_mbit", group.rate_mbit ?? "none");
  }
  return `#/new?${fields}`;
}

