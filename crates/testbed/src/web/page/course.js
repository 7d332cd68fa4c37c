// The course of runs that are over: phases of both parties, throughput, losses, processor.

import { get } from "./api.js";
import { lines, phases } from "./charts.js";
import { el, fill } from "./dom.js";
import { fileName } from "./download.js";
import { figure } from "./figure.js";
import { digits, duration } from "./format.js";
import { lookNumber, lookOf } from "./look.js";
import { isOther } from "./marks.js";

/** So many runs are drawn at once at most: more lines than these are not told apart. */
export const MOST = 8;

const INTERVAL_MS = 10;
const MOST_POINTS = 300;

/** Fetches the details of runs. */
export const fetchRuns = (ids) => Promise.all(ids.slice(0, MOST).map((id) => get(`/api/runs/${id}`)));

/** What arrived, as points of seconds and Mbit/s, from intervals of 10 ms. */
function fromTimeline(bytes) {
  const merged = Math.max(1, Math.ceil(bytes.length / MOST_POINTS));
  const step = (INTERVAL_MS * merged) / 1000;
  const points = [];
  for (let start = 0; start < bytes.length; start += merged) {
    const sum = bytes.slice(start, start + merged).reduce((total, each) => total + each, 0);
    points.push([(start / merged) * step, (sum * 8) / 1e6 / step]);
  }
  if (points.length) points.push([points.length * step, points[points.length - 1][1]]);
  return points;
}

/** Throughput of one direction, from the timeline of a run or else from its samples. */
export function throughput(detail, way) {
  const timeline = detail.row?.measured?.timeline ?? detail.programs?.timeline;
  if (timeline?.[way]?.length) return fromTimeline(timeline[way]);
  return (detail.samples ?? []).map((sample) => [sample.at_ms / 1000, sample[way].mbit]);
}

/** The rate of the bottleneck up, if all runs have the same. */
function levels(details) {
  const rates = [...new Set(details.map(({ run }) => run.rate_mbit ?? null))];
  return rates.length === 1 && rates[0] !== null ? [{ name: `link rate ${digits(rates[0])} Mbit/s`, at: rates[0], dash: "7 4" }] : [];
}

/** Throughput over time, beside the rate of the link. */
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

/** Shows the course of runs of which the details are there: `element` and `end()`. */
export function courseView(details) {
  const figures = [];
  const stem = fileName("runs", ...details.map(({ run }) => run.id));
  const isOne = details.length === 1;
  const failed = details.filter(({ run }) => run.error);
  const looksOf = (detail, number, colors) => {
    const names = details.map((each) => each.run.transport);
    return new Set(names).size === names.length ? lookOf(detail.run.transport, colors) : lookNumber(number, colors);
  };

  if (details.some((detail) => detail.phases?.length)) {
    figures.push(
      figure({
        title: "Phases of both parties",
        note: "",
        name: () => `${stem}-phases`,
        draw: (colors, width) =>
          phases(colors, width, {
            title: "Phases of both parties",
            groups: details.filter((detail) => detail.phases?.length).map((detail) => ({ name: isOne ? "" : labelOf(detail, details), phases: detail.phases })),
          }),
        numbers: () => ({
          head: ["run", "party", "phase", "after"],
          rows: details.flatMap((detail) => (detail.phases ?? []).map((each) => [labelOf(detail, details), each.party, each.phase.replaceAll("_", " "), duration(each.at_ms ?? NaN)])),
          numeric: [3],
        }),
      }),
    );
  }
  const rates = (colors) =>
    isOne
      ? [
          { name: "garbler to evaluator", points: throughput(details[0], "up"), color: colors.garbler, step: true },
          { name: "evaluator to garbler", points: throughput(details[0], "down"), color: colors.evaluator, dash: "4 2", step: true },
        ]
      : details.map((detail, number) => {
          const look = looksOf(detail, number, colors);
          return { name: labelOf(detail, details), points: throughput(detail, "up"), color: look.color, dash: look.dash, mark: look.mark, step: true };
        });
  if (details.some((detail) => throughput(detail, "up").length)) {
    figures.push(
      figure({
        title: isOne ? "Throughput" : "Throughput from garbler to evaluator",
        note: "Bytes that arrived, with headers and retransmissions.",
        name: () => `${stem}-throughput`,
        draw: (colors, width) => rateChart(colors, width, { title: "Throughput in the course of the run", series: rates(colors), levels: levels(details) }),
      }),
    );
  }
  const sampled = isOne && details[0].samples?.length > 1 ? details[0].samples : [];
  if (sampled.length) figures.push(lossFigure(() => sampled, stem), processorFigure(() => sampled, stem));
  const element = el(
    "div",
    {},
    failed.map(({ run }) => el("p", { class: "notice bad" }, `Run ${run.id} (${run.transport}): ${run.error}`)),
    el("div", { class: "figures" }, figures.map((each) => each.element)),
  );
  return { element, end: () => figures.forEach((each) => each.end()) };
}

/** Losses and retransmissions so far. */
export function lossFigure(samples, stem) {
  const cumulative = (pick) => samples().map((sample) => [sample.at_ms / 1000, pick(sample)]);
  return figure({
    title: "Losses and retransmissions",
    note: "",
    name: () => `${stem}-losses`,
    draw: (colors, width) => {
      const series = [
        { name: "lost by the path", points: cumulative((sample) => sample.up.lost_packets + sample.down.lost_packets), color: lookNumber(0, colors).color, mark: "circle", step: true },
        { name: "dropped at a full queue", points: cumulative((sample) => sample.up.overflowed_packets + sample.down.overflowed_packets), color: lookNumber(1, colors).color, dash: "4 2", mark: "triangle", step: true },
      ];
      if (samples().some((sample) => Number.isFinite(sample.retransmitted_segments))) {
        series.push({ name: "retransmitted by TCP", points: cumulative((sample) => sample.retransmitted_segments ?? 0), color: lookNumber(2, colors).color, dash: "9 3 2 3", mark: "diamond", step: true });
      }
      return lines(colors, width, { title: "Losses and retransmissions so far", series, x: { label: "time since the first packet (s)" }, y: { label: "packets so far, both ways" }, height: 190 });
    },
  });
}

/** How busy the parties are. */
export function processorFigure(samples, stem) {
  const of = (party) => samples().filter((sample) => sample[party]).map((sample) => [sample.at_ms / 1000, sample[party].cpu_percent]);
  return figure({
    title: "Processor",
    note: "",
    name: () => `${stem}-processor`,
    draw: (colors, width) =>
      lines(colors, width, {
        title: "Use of the processor",
        series: [
          { name: "garbler", points: of("garbler"), color: colors.garbler },
          { name: "evaluator", points: of("evaluator"), color: colors.evaluator, dash: "4 2" },
        ],
        x: { label: "time since the first packet (s)" },
        y: { label: "CPU (% of one processor)" },
        height: 190,
      }),
  });
}

/** Puts the course of runs into a place, or what is wrong; returns how to end it. */
export function putCourse(place, ids) {
  let ended = false;
  let view = null;
  fetchRuns(ids).then(
    (details) => {
      if (ended) return;
      view = courseView(details);
      fill(place, view.element);
    },
    (error) => fill(place, el("p", { class: "notice bad", role: "alert" }, error.message)),
  );
  return () => {
    ended = true;
    view?.end();
  };
}
