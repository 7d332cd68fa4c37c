// The view of one job: its progress, the current run, the comparison and the list of runs.

import { ApiError, get, listen, remove } from "./api.js";
import { phases } from "./charts.js";
import { comparisonView } from "./comparison.js";
import { linkRates, lossFigure, processorFigure, showTimelines, rateChart, sides, MAX_RUNS } from "./timelines.js";
import { el, empty, fill, table } from "./dom.js";
import { figure } from "./figure.js";
import { bytes, count, digits, duration, moment, plural } from "./format.js";
import { columnsExplained } from "./glossary.js";
import { named, transportOf } from "./marks.js";

const ENDED = ["done", "failed", "cancelled", "interrupted"];
/** Minimum time between two updates of the live charts, in milliseconds. */
const DRAW_MS = 200;
/** Delay between a completed run and the update of the comparison, in milliseconds. */
const COMPARE_MS = 700;

const COLUMNS = ["Run", "Transport", "State", "Total", "Run time", "On the wire, up", "Lost", "Retransmitted (TCP)", "CPU"];

const STATES = {
  queued: "waiting",
  running: "running",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
  interrupted: "interrupted",
};

/** Returns a state as a badge. The text makes it readable without colour. */
export const badge = (state) => el("span", { class: `state ${state}` }, STATES[state] ?? state);

export async function show(page, { rest }) {
  const id = Number(rest[0]);
  if (!Number.isInteger(id)) throw new ApiError("There is no such job.", 404);
  let job = await get(`/api/jobs/${id}`);
  const isRuns = job.kind === "runs";
  const runs = new Map();
  let stop = () => {};

  const state = el("span");
  const progress = el("progress", { max: "1", value: "0", "aria-label": "Completed runs" });
  const words = el("p", { class: "progress-words", role: "status" });
  const cancel = el("button", { type: "button", class: "danger", on: { click: cancelJob } }, "Cancel");
  const again = el("a", { class: "button", hidden: true }, "Change and run again");
  const notice = el("div", { "aria-live": "assertive" });
  const connection = el("div", { "aria-live": "polite" });
  const live = liveView();
  const liveSection = el("section", { class: "card", hidden: true }, live.heading, live.element);
  const comparison = comparisonView();
  const comparisonNotice = el("div", { "aria-live": "polite" });
  const comparisonSection = el("section", { class: "results" }, el("h2", { hidden: !isRuns }, "Comparison"), comparisonNotice, comparison.element);
  const timelines = el("div");
  const timelineSection = el("section", { hidden: true }, el("h2", {}, "Timelines of the first runs"), timelines);
  const list = el("div");
  fill(
    page,
    el("div", { class: "title-row" }, el("h1", {}, job.label), state),
    el("div", { class: "progress-row" }, progress, words, el("div", { class: "buttons" }, cancel, again)),
    notice,
    connection,
    liveSection,
    comparisonSection,
    timelineSection,
    el("section", {}, el("h2", {}, "Runs"), list, columnsExplained(COLUMNS)),
  );
  showJob();
  if (ENDED.includes(job.state)) await fetchRunsOfJob();
  showRuns();
  if (isRuns) await compare();

  let timer = 0;
  let endTimelines = () => {};
  const close = listen(id, {
    open: () => fill(connection),
    lost: (isGone) => {
      if (ENDED.includes(job.state)) return;
      fill(connection, el("p", { class: "notice warn" }, isGone ? "The connection to the server is lost. Reload the page to continue watching; the job continues." : "The connection to the server is interrupted; trying again …"));
    },
    job: (news) => {
      job = news;
      showJob();
    },
    "run-start": (news) => {
      liveSection.hidden = false;
      live.start(news);
    },
    phase: (news) => live.phase(news),
    sample: (news) => live.sample(news),
    run: ({ number, run }) => {
      runs.set(run.id, run);
      live.over(number, run);
      showRuns();
      if (!timer) timer = setTimeout(compareLater, COMPARE_MS);
    },
    gap: () => fetchRunsOfJob().then(showRuns, () => {}),
    end: finish,
  });
  stop = () => {
    close();
    clearTimeout(timer);
    endTimelines();
    live.end();
    comparison.end();
  };
  return stop;

  async function compareLater() {
    await compare();
    timer = 0;
  }

  async function finish() {
    clearTimeout(timer);
    window.dispatchEvent(new Event("jobs-changed"));
    try {
      job = await get(`/api/jobs/${id}`);
      await fetchRunsOfJob();
    } catch (error) {
      fill(notice, el("p", { class: "notice bad", role: "alert" }, error.message));
    }
    showJob();
    showRuns();
    if (isRuns) await compare();
    live.finish();
    liveSection.hidden = true;
    const firsts = new Map();
    for (const run of [...runs.values()].sort((a, b) => a.id - b.id)) {
      if (run.state === "ok" && !firsts.has(run.transport)) firsts.set(run.transport, run.id);
    }
    timelineSection.hidden = firsts.size === 0;
    if (firsts.size) endTimelines = showTimelines(timelines, [...firsts.values()].slice(0, MAX_RUNS));
  }

  async function fetchRunsOfJob() {
    const found = await get(`/api/runs?job=${id}&limit=200&order=oldest`);
    for (const run of found.runs) runs.set(run.id, run);
  }

  async function compare() {
    try {
      const answer = await get(`/api/jobs/${id}/comparison`);
      fill(comparisonNotice);
      if (answer.groups.length) comparison.show(answer);
      else fill(comparison.element, empty(ENDED.includes(job.state) ? "No results." : "The comparison appears after the first run."));
    } catch (error) {
      // The last comparison remains visible. An error occurs, for example, if there are too many
      // runs to compare.
      fill(comparisonNotice, el("p", { class: "notice warn" }, error.message));
    }
  }

  function showJob() {
    const isOver = ENDED.includes(job.state);
    fill(state, badge(job.state));
    progress.max = Math.max(job.total, 1);
    progress.value = job.done;
    progress.hidden = isOver;
    cancel.hidden = isOver;
    again.hidden = !isOver;
    again.href = againLink(job.request);
    const failed = job.failed ? `, ${plural(job.failed, "run")} failed` : "";
    const took = isOver && job.started_unix_ms && job.ended_unix_ms ? `, in ${duration(job.ended_unix_ms - job.started_unix_ms)}` : "";
    const left = Number.isFinite(job.remaining_s) && !isOver ? `, about ${duration(job.remaining_s * 1e3)} left` : "";
    const waiting = job.state === "queued" ? ` Waiting: number ${job.position} in the queue.` : "";
    const when = isOver ? ` Started ${moment(job.started_unix_ms ?? job.created_unix_ms)}.` : "";
    fill(words, `${count(job.done)} of ${plural(job.total, "run")} completed${failed}${took}${left}.${waiting}${when}`);
    fill(notice, job.error && el("p", { class: "notice bad" }, job.error));
  }

  function showRuns() {
    const all = [...runs.values()].sort((a, b) => a.id - b.id);
    if (all.length === 0) {
      fill(list, empty(ENDED.includes(job.state) ? "No run has completed." : "No run has completed yet."));
      return;
    }
    const most = 200;
    fill(list, runTable(all.slice(0, most)), job.total > most && el("p", {}, el("a", { href: `#/history?job=${id}` }, "All runs in the history")));
  }

  async function cancelJob() {
    cancel.disabled = true;
    try {
      job = await remove(`/api/jobs/${id}`);
      showJob();
    } catch (error) {
      cancel.disabled = false;
      fill(notice, el("p", { class: "notice bad", role: "alert" }, error.message));
    }
  }
}

/** Returns the address of the form, filled in with the request of a job. */
function againLink(request) {
  const { preset, set = {}, toml } = request.scenario ?? {};
  if (request.kind === "programs") return `#/programs?${new URLSearchParams({ a: request.a, b: request.b, label: request.label ?? "", ...(preset && { preset }) })}`;
  const fields = new URLSearchParams({
    circuit: request.circuit,
    scheme: request.scheme ?? "",
    batch: request.batch ?? 1,
    encrypted: request.encrypted ?? true,
    repetitions: request.repetitions ?? 1,
    transports: (request.transports ?? []).join(" "),
  });
  if (preset) fields.set("preset", preset);
  if (toml) fields.set("toml", toml);
  for (const [key, value] of Object.entries(set)) fields.set(key, value ?? "none");
  return `#/new?${fields}`;
}

/** Returns a table of runs with links to them. */
export function runTable(runs) {
  const rows = runs.map((run) => [
    el("a", { href: `#/run/${run.id}` }, `Run ${run.id}`),
    transportOf(run),
    run.state === "ok" ? "ok" : el("span", { class: "bad-text" }, run.state, run.error && `: ${run.error}`),
    duration(run.total_ms ?? NaN),
    duration(run.runtime_ms ?? NaN),
    bytes(run.wire_up_bytes ?? NaN),
    count((run.lost_packets ?? NaN) + (run.overflowed_packets ?? 0)),
    count(run.retransmitted_segments ?? NaN),
    `${digits((run.garbler_cpu_s ?? NaN) + (run.evaluator_cpu_s ?? 0))} s`,
  ]);
  return table("Runs", COLUMNS, rows, [3, 4, 5, 6, 7, 8]);
}

/** Returns the live view of the current run. */
function liveView() {
  let current = null;
  let samples = [];
  let moments = [];
  let until = 0;
  let timer = 0;
  const names = () => sides(current?.transport === "programs");
  const heading = el("h2");
  const numbers = el("dl", { class: "counters" });
  const rates = figure({
    title: "Throughput",
    note: "",
    name: () => "throughput",
    draw: (colors, width) =>
      rateChart(colors, width, {
        title: "Throughput of the current run",
        series: [
          { name: names().up, points: samples.map((sample) => [sample.at_ms / 1000, sample.up.mbit]), color: colors.garbler },
          { name: names().down, points: samples.map((sample) => [sample.at_ms / 1000, sample.down.mbit]), color: colors.evaluator, dash: "4 2" },
        ],
        levels: linkRates(current?.rate_up_mbit, current?.rate_down_mbit),
      }),
  });
  const timeline = figure({
    title: "Phases of both parties",
    note: "",
    name: () => "phases",
    draw: (colors, width) => phases(colors, width, { title: "Phases of both parties in the current run", groups: [{ name: "", phases: moments, until }] }),
  });
  const losses = lossFigure(() => samples, "live");
  const processor = processorFigure(() => samples, "live", names);
  const all = [timeline, rates, losses, processor];
  const element = el("div", {}, numbers, el("div", { class: "figures" }, all.map((each) => each.element)));

  // Samples arrive more often than the charts need to be drawn, so a redraw is delayed and covers
  // several samples.
  const later = () => {
    if (timer) return;
    timer = setTimeout(() => {
      timer = 0;
      redraw();
    }, DRAW_MS);
  };
  const redraw = () => {
    for (const each of all) each.update();
    const last = samples[samples.length - 1];
    const entry = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
    fill(
      numbers,
      entry("Time", duration(until)),
      entry("Predicted", duration((current?.predicted_s ?? NaN) * 1e3)),
      entry(`Sent by ${names().garbler}`, bytes(last?.up.bytes_in ?? NaN)),
      entry(`Sent by ${names().evaluator}`, bytes(last?.down.bytes_in ?? NaN)),
      entry("Lost by the path", count((last?.up.lost_packets ?? NaN) + (last?.down.lost_packets ?? 0))),
      entry("Dropped at a full queue", count((last?.up.overflowed_packets ?? NaN) + (last?.down.overflowed_packets ?? 0))),
      entry("Retransmitted by TCP", count(last?.retransmitted_segments ?? NaN)),
      entry(`CPU, ${names().garbler}`, last?.garbler ? `${digits(last.garbler.cpu_percent)} %` : "–"),
      entry(`CPU, ${names().evaluator}`, last?.evaluator ? `${digits(last.evaluator.cpu_percent)} %` : "–"),
    );
  };
  return {
    heading,
    element,
    start(run) {
      current = run;
      samples = [];
      moments = [];
      until = 0;
      // Users' programs have no phases.
      timeline.element.hidden = run.transport === "programs";
      fill(heading, `Run ${run.number}: `, run.transport === "programs" ? "programs" : named(run.transport), run.repetition ? `, repetition ${run.repetition + 1}` : "");
      later();
    },
    phase(news) {
      if (news.number !== current?.number) return;
      moments.push(news);
      if (news.phase !== "end") until = Math.max(until, news.at_ms ?? 0);
      later();
    },
    sample(news) {
      if (news.number !== current?.number) return;
      // The evaluator has computed the output and ended. Samples after that show only the shutdown
      // of the garbler.
      if (!news.evaluator && moments.some((each) => each.party === "evaluator" && each.phase === "output")) return;
      samples.push(news);
      until = Math.max(until, news.at_ms);
      later();
    },
    over(number, run) {
      if (number === current?.number && Number.isFinite(run.total_ms)) until = Math.max(until, run.total_ms);
      later();
    },
    finish() {
      clearTimeout(timer);
      timer = 0;
      redraw();
    },
    end() {
      clearTimeout(timer);
      for (const each of all) each.end();
    },
  };
}
