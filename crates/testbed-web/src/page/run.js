// The view of one run with all of its details.

import { ApiError, get } from "./api.js";
import { timelineView } from "./timelines.js";
import { el, fill, table } from "./dom.js";
import { fileButton } from "./download.js";
import { bytes, count, digits, duration, moment, more, times } from "./format.js";
import { summary } from "./scenario.js";

export async function show(page, { rest }) {
  const id = Number(rest[0]);
  if (!Number.isInteger(id)) throw new ApiError("There is no such run.", 404);
  const detail = await get(`/api/runs/${id}`);
  const { run, row, programs, environment } = detail;
  const view = timelineView([detail]);
  const name = run.circuit_label || run.circuit;
  const title = run.kind === "programs" ? `${name} on ${run.scenario}` : `${name} over ${run.transport} on ${run.scenario}`;
  fill(
    page,
    el("div", { class: "title-row" }, el("h1", {}, title), el("span", { class: `state ${run.state}` }, run.state)),
    el("p", { class: "lead" }, `Run ${run.id}, ${moment(run.started_unix_ms)}. ${summary(run)}.`),
    run.overruns > 0 && el("p", { class: "notice warn" }, `The emulator was too slow for ${count(run.overruns)} packets: this run did not have the conditions of its scenario.`),
    el("h2", { class: "unseen" }, "Timelines of the run"),
    view.element,
    el("div", { class: "columns" }, facts("Result", results(run, row?.measured?.evaluator)), row?.measured && facts("Parties", parties(row.measured)), programs && output(programs), facts("Environment", surroundings(environment ?? row?.environment))),
    el(
      "p",
      { class: "buttons" },
      el("a", { class: "button", href: `#/job/${run.job}` }, "Job of this run"),
      fileButton("JSON", `/api/export.json?ids=${id}`, `run-${id}.json`),
      fileButton("CSV", `/api/export.csv?ids=${id}`, `run-${id}.csv`),
    ),
  );
  return view.end;
}

function facts(title, content) {
  return el("section", { class: "card" }, el("h2", {}, title), content);
}

function pairs(list) {
  return el("dl", { class: "facts" }, list.filter(([, value]) => value !== null && value !== undefined && value !== "").map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function results(run, evaluator) {
  const known = (value, show) => (Number.isFinite(value) ? show(value) : null);
  return pairs([
    ["Total time", known(run.total_ms, duration)],
    ["Predicted", known(run.predicted_s, (value) => `${duration(value * 1e3)}${Number.isFinite(run.predicted_low_s) ? ` (80 %: ${duration(run.predicted_low_s * 1e3)} to ${duration(run.predicted_high_s * 1e3)})` : ""}`)],
    ["Run time", known(run.runtime_ms, duration)],
    ["Physical limit", known(run.limit_ms, duration)],
    ["Lower bound (floor)", known(run.floor_ms, duration)],
    ["Run time / limit", known(run.ratio, times)],
    ["Transport used", run.used_transport],
    ["Cipher", evaluator && (evaluator.cipher?.replaceAll("_", "_\u200b") ?? "none")],
    ["Oblivious transfer", evaluator?.ot],
    ["AND gates", known(run.and_gates, count)],
    ["Payload up / down", known(run.payload_up_bytes, (value) => `${bytes(value)} / ${bytes(run.payload_down_bytes)}`)],
    ["On the wire up / down", known(run.wire_up_bytes, (value) => `${bytes(value)} / ${bytes(run.wire_down_bytes)}`)],
    ["Excess up", run.payload_up_bytes ? known(run.wire_up_bytes / run.payload_up_bytes, more) : null],
    ["Lost by the path", known(run.lost_packets, count)],
    ["Dropped at a full queue", known(run.overflowed_packets, count)],
    ["Retransmitted by TCP", known(run.retransmitted_segments, count)],
    ["Payload rate", run.kind === "programs" ? null : known(run.achieved_mbit, (value) => `${digits(value)} Mbit/s`)],
    ["Error", run.error],
  ]);
}

function parties({ garbler, evaluator }) {
  const entry = (name, show) => [name, show(garbler), show(evaluator)];
  return table(
    "Both parties",
    ["Quantity", "Garbler", "Evaluator"],
    [
      entry("Connecting", (party) => duration(party.connect_ms)),
      entry("Handshake", (party) => duration(party.handshake_ms)),
      entry("CPU, user", (party) => `${digits(party.user_s)} s`),
      entry("CPU, kernel", (party) => `${digits(party.system_s)} s`),
      entry("Peak memory", (party) => bytes(party.peak_rss_bytes)),
      entry("Peak heap", (party) => bytes(party.peak_heap_bytes ?? NaN)),
    ],
    [1, 2],
  );
}

function output(programs) {
  const shown = (title, command, code, text) => [
    el("h3", {}, title),
    el("pre", { class: "command" }, command),
    el("p", { class: "hint" }, code === null || code === undefined ? "ended by a signal" : `exited with code ${code}`),
    text ? el("pre", { tabindex: "0", "aria-label": `${title}: output` }, text) : el("p", { class: "hint" }, "No output."),
  ];
  return facts("Programs", [shown("Side A", programs.a, programs.a_code, programs.a_output), shown("Side B", programs.b, programs.b_code, programs.b_output)]);
}

function surroundings(environment) {
  if (!environment) return el("p", { class: "hint" }, "Not recorded.");
  return pairs([
    ["Processor", environment.cpu && `${environment.cpu}, ${environment.cpus}`],
    ["Kernel", environment.kernel],
    ["Program", environment.transpute],
    ["Congestion control", environment.congestion_control],
    ["TCP buffers, receive", environment.tcp_rmem],
    ["TCP buffers, send", environment.tcp_wmem],
  ]);
}
