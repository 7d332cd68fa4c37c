// The charts: bars with ranges, lines, and phases of both parties.

import { duration, digits } from "./format.js";
import { PHASES } from "./theme.js";
import { linear, logarithmic } from "./scale.js";
import { legend, legendHeight, line, mark, node, rect, root, text, widthOf } from "./svg.js";

/** Chooses milliseconds or seconds by the largest value. Returns the factor and the name of the unit. */
function timeUnit(most) {
  return most >= 3000 ? { factor: 1e-3, name: "s" } : { factor: 1, name: "ms" };
}

function xAxis(svg, scale, { left, right, top, bottom }, label, theme) {
  for (const tick of scale.ticks) {
    const x = scale.place(tick);
    svg.append(
      line(x, top, x, bottom, { stroke: theme.grid }),
      text(x, bottom + 16, scale.text(tick), { "text-anchor": "middle", fill: theme.muted, "font-size": 11 }),
    );
  }
  svg.append(
    line(left, bottom, right, bottom, { stroke: theme.frame }),
    text((left + right) / 2, bottom + 34, label, { "text-anchor": "middle", fill: theme.ink }),
  );
}

/** Removes ticks whose labels would overlap. */
function thin(scale, room) {
  let last = -Infinity;
  const ticks = scale.ticks.filter((tick) => {
    const [x, half] = [scale.place(tick), (widthOf(scale.text(tick), 11) + 6) / 2];
    if (x - half < last) return false;
    last = x + half;
    return true;
  });
  return room > 0 ? { ...scale, ticks } : scale;
}

/**
 * Draws horizontal bars. Each row is `{name, style, median, min, max, predicted: {low, mid, high},
 * note}` with times in milliseconds. `lines` are vertical lines: `{name, at, dash}`.
 */
export function bars(theme, width, { title, rows, lines = [], label }) {
  const values = rows.flatMap((row) => [row.median, row.max, row.min, row.predicted?.low, row.predicted?.high, row.predicted?.mid]);
  const all = [...values, ...lines.map((each) => each.at)].filter((value) => Number.isFinite(value) && value > 0);
  const [least, most] = [Math.min(...all, 1e9), Math.max(...all, 0)];
  const isLog = rows.length > 0 && most / Math.max(least, 1e-6) > 60;
  const unit = timeUnit(most);
  const nameWidth = Math.min(Math.max(...rows.map((row) => widthOf(row.name)), 30) + 34, width * 0.4);
  const [left, right] = [nameWidth, width - 62];
  const rowHeight = 34;
  const entries = [];
  if (rows.some((row) => Number.isFinite(row.median))) entries.push({ name: isLog ? "median" : "bar: median", color: theme.muted, block: true });
  if (rows.some((row) => row.max > row.min)) entries.push({ name: "minimum to maximum", color: theme.ink, width: 1.5 });
  if (rows.some((row) => row.predicted)) entries.push({ name: "predicted, 80 %", color: theme.muted, mark: "diamond", hollow: true, dash: "2 2" });
  for (const each of lines) entries.push({ name: `${each.name} ${duration(each.at)}`, color: theme.limit, dash: each.dash, width: 1.8 });
  const top = legendHeight(entries, width - 8) + 8;
  const bottom = top + rows.length * rowHeight + 6;
  const height = bottom + 44;
  const detail = rows.map((row) => `${row.name} ${duration(row.median ?? row.predicted?.mid)}`).join(", ");
  const svg = root(width, height, theme, title, detail);
  legend(svg, entries, 4, 10, width - 8, theme);
  const [low, high] = [least * unit.factor, most * unit.factor];
  const scale = thin(isLog ? logarithmic(low, high, left, right) : linear(0, high, left, right, width < 480 ? 4 : 7), 1);
  xAxis(svg, scale, { left, right, top, bottom }, `${label} (${unit.name}${isLog ? ", logarithmic" : ""})`, theme);
  const place = (ms) => scale.place(ms * unit.factor);
  rows.forEach((row, number) => {
    const y = top + number * rowHeight + rowHeight / 2 + 2;
    svg.append(
      mark(row.style.mark, 10, y, 5, { fill: row.style.color, stroke: theme.paper, "stroke-width": 0.6 }),
      text(22, y + 4, row.name, { fill: theme.ink }),
    );
    if (Number.isFinite(row.median)) {
      const end = place(row.median);
      const tip = node("title", {}, `${row.name}: median ${duration(row.median)}, ${duration(row.min)} to ${duration(row.max)}`);
      svg.append(rect(left, y - 9, end - left, 18, { fill: row.style.color, "fill-opacity": isLog ? 0.45 : 0.85, stroke: theme.ink, "stroke-width": 0.8 }, tip));
      if (row.max > row.min) whisker(svg, place(row.min), place(row.max), y, theme);
    }
    if (row.predicted) prediction(svg, place, row, y, Number.isFinite(row.median) ? 12 : 0, theme);
    const reach = [row.median, row.max, row.predicted?.high].filter(Number.isFinite).map(place);
    svg.append(
      text(Math.min(Math.max(left, ...reach) + 6, width - 58), y + 4, row.note ?? duration(row.median ?? row.predicted?.mid), {
        fill: theme.ink,
        "font-size": 11.5,
      }),
    );
  });
  for (const each of lines) {
    const x = place(each.at);
    svg.append(line(x, top - 2, x, bottom, { stroke: theme.limit, "stroke-width": 1.8, "stroke-dasharray": each.dash }));
  }
  return svg;
}

function whisker(svg, from, to, y, theme) {
  // An outline in the background colour keeps the whisker visible on its bar.
  for (const [color, width] of [[theme.paper, 4], [theme.ink, 1.5]]) {
    svg.append(
      line(from, y, to, y, { stroke: color, "stroke-width": width }),
      line(from, y - 5, from, y + 5, { stroke: color, "stroke-width": width }),
      line(to, y - 5, to, y + 5, { stroke: color, "stroke-width": width }),
    );
  }
}

function prediction(svg, place, row, y, lift, theme) {
  const { low, mid, high } = row.predicted;
  const at = y + lift;
  const tip = node("title", {}, `${row.name}: ${duration(mid)} predicted, 80 % interval ${duration(low)} to ${duration(high)}`);
  if (lift === 0) {
    svg.append(
      rect(place(low), at - 6, place(high) - place(low), 12, { fill: row.style.color, "fill-opacity": 0.3, stroke: row.style.color }, tip),
      line(place(mid), at - 9, place(mid), at + 9, { stroke: theme.ink, "stroke-width": 2 }),
    );
    return;
  }
  svg.append(
    line(place(low), at, place(high), at, { stroke: theme.muted, "stroke-width": 1.6, "stroke-dasharray": "2 2" }),
    mark("diamond", place(mid), at, 3.6, { fill: theme.paper, stroke: theme.muted, "stroke-width": 1.5 }),
  );
}

/**
 * Draws lines over time or another quantity. `series` has `{name, points: [[x, y]], color, dash,
 * mark, step}`. `levels` are horizontal lines: `{name, at, dash}`. A level far above the data
 * appears only in the legend.
 */
export function lines(theme, width, { title, series, levels: all = [], x, y, height = 230, detail }) {
  const shown = series.filter((each) => each.points.length > 0);
  const highest = Math.max(0, ...shown.map((each) => each.points.reduce((most, point) => Math.max(most, point[1]), 0)));
  const levels = all.filter((each) => each.at <= highest * 8);
  const entries = [
    ...shown.map((each) => ({ name: each.name, color: each.color, dash: each.dash, mark: each.mark, width: each.width })),
    ...all.map((each) => ({ name: levels.includes(each) ? each.name : `${each.name}: above the chart`, color: theme.limit, dash: each.dash, width: 1.6 })),
  ];
  const xs = shown.flatMap((each) => [each.points[0][0], each.points[each.points.length - 1][0]]);
  const most = Math.max(highest, ...levels.map((each) => each.at));
  const top = legendHeight(entries, width - 8) + 22;
  const bottom = top + height - 60;
  // Counts have no fractions. A chart without events has an axis from 0 to 1.
  const ticks = y.isCount ? Math.min(Math.max(Math.ceil(most), 1), 5) : 5;
  const vertical = linear(0, most || 1, bottom, top, ticks);
  const left = Math.max(...vertical.ticks.map((tick) => widthOf(vertical.text(tick), 11))) + 14;
  const right = width - 14;
  const svg = root(width, bottom + 44, theme, title, detail);
  legend(svg, entries, 4, 10, width - 8, theme);
  for (const tick of vertical.ticks) {
    const at = vertical.place(tick);
    svg.append(
      line(left, at, right, at, { stroke: theme.grid }),
      text(left - 6, at + 4, vertical.text(tick), { "text-anchor": "end", fill: theme.muted, "font-size": 11 }),
    );
  }
  svg.append(text(4, top - 8, y.label, { fill: theme.ink }));
  const horizontal = thin(linear(Math.min(...xs, x.low ?? 0), Math.max(...xs, x.high ?? 1e-9), left, right, width < 480 ? 4 : 8, true), 1);
  xAxis(svg, horizontal, { left, right, top, bottom }, x.label, theme);
  for (const each of levels) {
    const at = vertical.place(each.at);
    svg.append(line(left, at, right, at, { stroke: theme.limit, "stroke-width": 1.6, "stroke-dasharray": each.dash }));
  }
  for (const each of shown) {
    const path = each.points
      .map(([px, py], number) => {
        const [ax, ay] = [horizontal.place(px).toFixed(1), vertical.place(py).toFixed(1)];
        if (number === 0) return `M${ax} ${ay}`;
        return each.step ? `H${ax}V${ay}` : `L${ax} ${ay}`;
      })
      .join("");
    svg.append(node("path", { d: path, fill: "none", stroke: each.color, "stroke-width": each.width ?? 1.8, "stroke-dasharray": each.dash, "stroke-linejoin": "round" }));
    if (each.mark) {
      const every = Math.max(1, Math.ceil(each.points.length / 12));
      each.points.forEach(([px, py], number) => {
        if (number % every) return;
        svg.append(mark(each.mark, horizontal.place(px), vertical.place(py), 4, { fill: each.color, stroke: theme.paper, "stroke-width": 0.8 }));
      });
    }
  }
  return svg;
}

const PARTIES = [
  ["garbler", "garbler (A)"],
  ["evaluator", "evaluator (B)"],
];

/**
 * Draws the phases of both parties. `groups` has `{name, phases: [{party, phase, at_ms}], until}`,
 * with two lanes each. `until` is the elapsed time of a run in progress.
 */
export function phases(theme, width, { title, groups }) {
  const known = groups.map((group) => ({ ...group, moments: moments(group.phases) }));
  const ends = known.flatMap((group) => [group.until ?? 0, ...group.phases.map((each) => each.at_ms ?? 0)]);
  const most = Math.max(...ends, 1);
  const unit = timeUnit(most);
  const entries = Object.entries(PHASES).map(([, phase]) => ({ name: phase.name, color: phase[theme.name], block: true }));
  entries.push({ name: "output", color: theme.ink, mark: "star", line: false });
  const narrow = width < 480;
  const left = narrow ? 92 : 108;
  const right = width - 14;
  const top = legendHeight(entries, width - 8) + 10;
  const lane = 34;
  const head = known.length > 1 || known[0]?.name ? 20 : 4;
  const group = head + lane * 2 + 6;
  const bottom = top + group * Math.max(known.length, 1);
  const svg = root(width, bottom + 44, theme, title, known.map((each) => describe(each)).join("; "));
  legend(svg, entries, 4, 10, width - 8, theme);
  const scale = thin(linear(0, most * unit.factor, left, right, narrow ? 4 : 8, true), 1);
  xAxis(svg, scale, { left, right, top, bottom }, `time since the first packet (${unit.name})`, theme);
  const place = (ms) => scale.place(Math.max(ms, 0) * unit.factor);
  known.forEach((each, number) => {
    const start = top + number * group;
    if (each.name) svg.append(text(4, start + 14, each.name, { "font-weight": 600, fill: theme.ink }));
    PARTIES.forEach(([party, name], row) => {
      const y = start + head + row * lane;
      svg.append(text(4, y + 15, name, { fill: theme.ink }));
      drawParty(svg, each.moments[party], each.until, { y, place, theme, name });
    });
  });
  return svg;
}

function moments(list) {
  const found = { garbler: {}, evaluator: {} };
  for (const { party, phase, at_ms: at } of list) {
    if (found[party] && Number.isFinite(at)) found[party][phase] = at;
  }
  return found;
}

function describe({ name, moments: found }) {
  const output = found.evaluator.output ?? found.garbler.output;
  return `${name ?? "run"}: ${Number.isFinite(output) ? `output after ${duration(output)}` : "no output yet"}`;
}

function drawParty(svg, found, until, { y, place, theme, name }) {
  const now = until ?? found.end ?? found.output ?? 0;
  const order = [
    ["setup", "started", "connected"],
    ["agree", "connected", "agreed"],
    ["labels", "agreed", "first_labels"],
    ["rest", "first_labels", "output"],
  ];
  let from = found.started ?? 0;
  for (const [key, , ends] of order) {
    const to = found[ends];
    const end = Number.isFinite(to) ? to : Math.max(now, from);
    if (end > from) bar(key, from, end, 0, 16);
    if (!Number.isFinite(to)) break;
    from = Math.max(from, to);
  }
  if (Number.isFinite(found.first_table)) {
    bar("tables", found.first_table, found.last_table ?? Math.max(now, found.first_table), 18, 8);
  }
  if (Number.isFinite(found.output)) {
    svg.append(mark("star", place(found.output), y + 11, 6, { fill: theme.ink, stroke: theme.paper, "stroke-width": 1 }));
  }
  function bar(key, start, end, down, height) {
    const phase = PHASES[key];
    const tip = node("title", {}, `${name}, ${phase.name}: ${digits(start)} to ${digits(end)} ms`);
    const [left, right] = [place(start), place(end)];
    svg.append(rect(left, y + 3 + down, Math.max(right - left, 1), height, { fill: phase[theme.name], stroke: theme.paper, "stroke-width": 0.7 }, tip));
  }
}
