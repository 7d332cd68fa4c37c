// Timelines of completed runs: phases of both parties, throughput, losses and processor time.

import { get } from "./api.js";
import { lines, phases } from "./charts.js";
import { el, fill } from "./dom.js";
import { fileName } from "./download.js";
import { figure } from "./figure.js";
import { digits, duration } from "./format.js";
import { styleNumber, styleOf } from "./theme.js";
import { isOther } from "./marks.js";

/** Maximum number of runs in one chart. More lines cannot be distinguished. */
export const MAX_RUNS = 8;

// The length of an interval of the recorded timelines, in milliseconds.
const INTERVAL_MS = 10;
// Maximum number of points of a line. Intervals are merged so that it is not exceeded.
const MAX_POINTS = 300;

/** Fetches the details of runs. */
export const fetchRuns = (ids) => Promise.all(ids.slice(0, MAX_RUNS).map((id) => get(`/api/runs/${id}`)));

/** Converts bytes per 10 ms interval to points of seconds and Mbit/s. */
function fromTimeline(bytes) {
  const merged = Math.max(1, Math.ceil(bytes.length / MAX_POINTS));
  const step = (INTERVAL_MS * merged) / 1000;
  const points = [];
  for (let start = 0; start < bytes.length; start += merged) {
    const sum = bytes.slice(start, start + merged).reduce((total, each) => total + each, 0);
    points.push([(start / merged) * step, (sum * 8) / 1e6 / step]);
  }
  if (points.length) points.push([points.length * step, points[points.length - 1][1]]);
  return points;
}

/**
 * Returns the samples up to the output of a run. Later samples show only the shutdown of the
 * parties.
 */
function within({ run, samples = [] }) {
  const end = Number.isFinite(run.total_ms) ? run.total_ms + 100 : Infinity;
  return samples.filter((sample) => sample.at_ms <= end);
}

/** Returns the throughput of one direction up to the output, from the recorded timeline if there is one, else from the samples. */
function throughput(detail, way) {
  const timeline = detail.row?.measured?.timeline ?? detail.programs?.timeline;
  if (!timeline?.[way]?.length) return within(detail).map((sample) => [sample.at_ms / 1000, sample[way].mbit]);
  const { total_ms: total } = detail.run;
  return fromTimeline(Number.isFinite(total) ? timeline[way].slice(0, Math.ceil(total / INTERVAL_MS) + 1) : timeline[way]);
}

/** Returns the rates of the link as levels of a chart: a single level if both directions have the same rate. */
export function linkRates(up, down, one = "link rate") {
  const level = (name, mbit, dash) => ({ name: `${name} ${digits(mbit)} Mbit/s`, at: mbit, dash });
  if (!up) return [];
  return !down || down === up ? [level(one, up, "7 4")] : [level("link rate up", up, "7 4"), level("down", down, "2 3")];
}

/** Returns the rates of the link as levels of a chart, if all runs have the same rates. */
function levels(details) {
  const rates = [...new Set(details.map(({ run }) => run.rate_mbit ?? null))];
  if (rates.length !== 1) return [];
  if (details.every(({ run }) => run.kind === "programs")) return linkRates(rates[0], null, "link rate A to B");
  return linkRates(rates[0], details.length === 1 ? details[0].row?.scenario?.down?.rate_mbit : null);
}

/** Returns the names of the two sides and directions. */
export function sides(isPrograms) {
  return isPrograms
    ? { garbler: "side A", evaluator: "side B", up: "A to B", down: "B to A" }
    : { garbler: "garbler", evaluator: "evaluator", up: "garbler to evaluator", down: "evaluator to garbler" };
}

/** Draws throughput over time together with the rate of the link. */
export function rateChart(colors, width, { title, series, levels: rates }) {
  return lines(colors, width, { title, series, levels: rates, x: { label: "time since the first packet (s)" }, y: { label: "arrived (Mbit/s)" } });
}

const labelOf = ({ run }, details) => {
  const label = [run.transport === "programs" ? run.circuit_label || run.circuit : run.transport];
  if (isOther(run.used_transport, run.transport)) label[0] += ` (${run.used_transport})`;
  const differs = (key) => new Set(details.map((each) => each.run[key])).size > 1;
  if (differs("circuit")) label.push(run.circuit_label || run.circuit);
  if (differs("scheme")) label.push(run.scheme);
  if (differs("scenario")) label.push(run.scenario);
  label.push(details.filter((each) => each.run.transport === run.transport).length > 1 ? `run ${run.id}` : "");
  return label.filter(Boolean).join(", ");
};

/** Returns the element with the timelines of runs whose details are loaded, and `end()`. */
export function timelineView(details) {
  const figures = [];
  const stem = fileName("runs", ...details.map(({ run }) => run.id));
  const isOne = details.length === 1;
  const failed = details.filter(({ run }) => run.error);
  const stylesOf = (detail, number, colors) => {
    const transports = details.map((each) => each.run.transport);
    return new Set(transports).size === transports.length ? styleOf(detail.run.transport, colors) : styleNumber(number, colors);
  };

  const names = sides(isOne && details[0].run.kind === "programs");
  // Users' programs report only their start and end.
  const withPhases = details.filter((detail) => detail.phases?.some(({ phase, at_ms: at }) => Number.isFinite(at) && phase !== "started" && phase !== "end"));
  if (withPhases.length) {
    figures.push(
      figure({
        title: "Phases of both parties",
        note: "",
        name: () => `${stem}-phases`,
        draw: (colors, width) =>
          phases(colors, width, {
            title: "Phases of both parties",
            groups: withPhases.map((detail) => ({ name: isOne ? "" : labelOf(detail, details), phases: detail.phases })),
          }),
        numbers: () => ({
          head: ["run", "party", "phase", "after"],
          rows: withPhases.flatMap((detail) => detail.phases.map((each) => [labelOf(detail, details), each.party, each.phase.replaceAll("_", " "), duration(each.at_ms ?? NaN)])),
          numeric: [3],
        }),
      }),
    );
  }
  const rates = (colors) =>
    isOne
      ? [
          { name: names.up, points: throughput(details[0], "up"), color: colors.garbler, step: true },
          { name: names.down, points: throughput(details[0], "down"), color: colors.evaluator, dash: "4 2", step: true },
        ]
      : details.map((detail, number) => {
          const style = stylesOf(detail, number, colors);
          return { name: labelOf(detail, details), points: throughput(detail, "up"), color: style.color, dash: style.dash, mark: style.mark, step: true };
        });
  if (details.some((detail) => throughput(detail, "up").length)) {
    figures.push(
      figure({
        title: isOne ? "Throughput" : "Throughput from garbler to evaluator",
        note: "Bytes that arrived, including headers and retransmissions.",
        name: () => `${stem}-throughput`,
        draw: (colors, width) => rateChart(colors, width, { title: "Throughput over time", series: rates(colors), levels: levels(details) }),
      }),
    );
  }
  const sampled = isOne ? within(details[0]) : [];
  if (sampled.length > 1) figures.push(lossFigure(() => sampled, stem), processorFigure(() => sampled, stem, () => names));
  const element = el(
    "div",
    {},
    failed.map(({ run }) => el("p", { class: "notice bad" }, `Run ${run.id} (${run.transport}): ${run.error}`)),
    el("div", { class: "figures" }, figures.map((each) => each.element)),
  );
  return { element, end: () => figures.forEach((each) => each.end()) };
}

/** Returns a chart of the cumulative losses and retransmissions. */
export function lossFigure(samples, stem) {
  const cumulative = (pick) => samples().map((sample) => [sample.at_ms / 1000, pick(sample)]);
  return figure({
    title: "Losses and retransmissions",
    note: "",
    name: () => `${stem}-losses`,
    draw: (colors, width) => {
      const series = [
        { name: "lost by the path", points: cumulative((sample) => sample.up.lost_packets + sample.down.lost_packets), color: styleNumber(0, colors).color, mark: "circle", step: true },
        { name: "dropped at a full queue", points: cumulative((sample) => sample.up.overflowed_packets + sample.down.overflowed_packets), color: styleNumber(1, colors).color, dash: "4 2", mark: "triangle", step: true },
      ];
      if (samples().some((sample) => Number.isFinite(sample.retransmitted_segments))) {
        series.push({ name: "retransmitted by TCP", points: cumulative((sample) => sample.retransmitted_segments ?? 0), color: styleNumber(2, colors).color, dash: "9 3 2 3", mark: "diamond", step: true });
      }
      return lines(colors, width, { title: "Losses and retransmissions so far", series, x: { label: "time since the first packet (s)" }, y: { label: "packets so far, both ways", isCount: true }, height: 190 });
    },
  });
}

/** Returns a chart of the processor use of both parties. */
export function processorFigure(samples, stem, names) {
  const of = (party) => samples().filter((sample) => sample[party]).map((sample) => [sample.at_ms / 1000, sample[party].cpu_percent]);
  return figure({
    title: "Processor",
    note: "",
    name: () => `${stem}-processor`,
    draw: (colors, width) =>
      lines(colors, width, {
        title: "Use of the processor",
        series: [
          { name: names().garbler, points: of("garbler"), color: colors.garbler },
          { name: names().evaluator, points: of("evaluator"), color: colors.evaluator, dash: "4 2" },
        ],
        x: { label: "time since the first packet (s)" },
        y: { label: "CPU (% of one processor)" },
        height: 190,
      }),
  });
}

/** Loads the runs and shows their timelines, or the error, in an element. Returns a function that ends the view. */
export function showTimelines(place, ids) {
  let ended = false;
  let view = null;
  fetchRuns(ids).then(
    (details) => {
      if (ended) return;
      view = timelineView(details);
      fill(place, view.element);
    },
    (error) => fill(place, el("p", { class: "notice bad", role: "alert" }, error.message)),
  );
  return () => {
    ended = true;
    view?.end();
  };
}
