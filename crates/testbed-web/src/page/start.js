// The form that starts a run, with the predicted times.

import { ApiError, post } from "./api.js";
import { bars } from "./charts.js";
import { circuitPicker } from "./circuit.js";
import { el, empty, field, fill, select } from "./dom.js";
import { figure } from "./figure.js";
import { count, duration, bytes, digits } from "./format.js";
import { SCHEMES, TRANSPORTS } from "./glossary.js";
import { styleOf } from "./theme.js";
import { markOf } from "./marks.js";
import { scenarioEditor } from "./scenario.js";
import { submit } from "./submit.js";

const DEBOUNCE_MS = 250;

export async function show(page, { options, query }) {
  const { defaults, limits } = options;
  // Parts of the form call `changed` while they are created. It must do nothing until all parts
  // exist.
  let isReady = false;
  const start = fromQuery(query, options);

  const circuit = circuitPicker(options, start.circuit, changed);
  const schemeLabel = ({ name, label }) => (SCHEMES[name] ? `${label}: ${SCHEMES[name]}` : label);
  const scheme = select(options.schemes.map((each) => [each.name, schemeLabel(each)]), start.scheme ?? defaults.scheme, { name: "scheme", on: { change: changed } });
  const scenario = scenarioEditor(options, start.scenario, changed);
  const transports = transportList(options, start.transports ?? defaults.transports, changed);
  const number = (name, value, most) => el("input", { type: "number", name, value, min: "1", max: String(most), step: "1", required: true, on: { input: changed } });
  const repetitions = number("repetitions", start.repetitions ?? defaults.repetitions, limits.repetitions);
  const batch = number("batch", start.batch ?? defaults.batch, limits.batch);
  const timeout = number("timeout", Math.min(300, limits.timeout_s), limits.timeout_s);
  const encrypted = el("input", { type: "checkbox", checked: start.encrypted ?? defaults.encrypted });

  const button = el("button", { type: "submit", class: "primary big", disabled: !options.can_run }, "Run");
  const what = el("p", { class: "what" });
  const notice = el("div", { "aria-live": "assertive" });
  const forecast = prediction();

  const form = el(
    "form",
    { class: "start", on: { submit: run } },
    el(
      "div",
      { class: "columns" },
      el(
        "div",
        { class: "column" },
        card("Computation", circuit.element, field("Garbling scheme", scheme)),
        card("Network", scenario.element),
      ),
      el(
        "div",
        { class: "column" },
        card("Transports", transports.element),
        card("Predicted time", forecast.element),
        card(
          "Repetitions",
          el("div", { class: "row" }, field("Repetitions per transport", repetitions), field("Evaluations in a run", batch, "The evaluations of a batch share round trips.")),
          el("details", {}, el("summary", {}, "More"), field("Timeout of a run (s)", timeout), el("label", { class: "check" }, encrypted, " Encrypt and authenticate (TLS)")),
        ),
      ),
    ),
    el("div", { class: "go" }, what, notice, button),
  );
  fill(page, el("h1", {}, "New run"), el("p", { class: "lead" }, "Two parties run on this machine over an emulated network. Choose the conditions and run; predicted times are shown first."), form);

  let timer = 0;
  let asking = null;
  isReady = true;
  changed();
  return () => {
    clearTimeout(timer);
    asking?.abort();
    forecast.end();
  };

  function changed() {
    if (!isReady) return;
    clearTimeout(timer);
    timer = setTimeout(predict, DEBOUNCE_MS);
    const [chosen, repeated] = [transports.value().length, Number(repetitions.value) || 0];
    fill(what, chosen ? `${count(chosen * repeated)} runs: ${count(chosen)} transports, ${count(repeated)} each` : "Choose at least one transport.");
    button.disabled = !options.can_run || chosen === 0 || scenario.problem() !== null;
  }

  function conditions() {
    return { circuit: circuit.value(), scheme: scheme.value, batch: Math.max(1, Number(batch.value) || 1), scenario: scenario.value() };
  }

  async function predict() {
    asking?.abort();
    asking = new AbortController();
    const problem = scenario.problem();
    if (problem) {
      forecast.fail(problem);
      transports.predicted(null);
      return;
    }
    forecast.wait();
    try {
      const answer = await post("/api/predict", conditions(), asking.signal);
      forecast.show(answer, transports.value());
      transports.predicted(answer);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof ApiError)) throw error;
      forecast.fail(error.message);
      transports.predicted(null);
    }
  }

  async function run(event) {
    event.preventDefault();
    const job = {
      kind: "runs",
      ...conditions(),
      encrypted: encrypted.checked,
      repetitions: Number(repetitions.value),
      timeout_s: Number(timeout.value),
      transports: transports.value(),
    };
    await submit(job, button, notice);
  }
}

function card(title, ...content) {
  return el("section", { class: "card" }, el("h2", {}, title), content);
}

/** Returns the conditions that another view has put into the address, to fill in the form. */
function fromQuery(query, options) {
  const number = (name) => (query.has(name) ? Number(query.get(name)) : undefined);
  const set = {};
  for (const key of ["rtt_ms", "loss", "rate_mbit", "queue_bytes", "jitter_ms"]) {
    if (!query.has(key)) continue;
    const value = query.get(key) === "none" ? null : Number(query.get(key));
    if (value === null || Number.isFinite(value)) set[key] = value;
  }
  if (query.has("udp_blocked")) set.udp_blocked = query.get("udp_blocked") === "true";
  const known = new Set(options.transports.map((each) => each.name));
  const transports = query.get("transports")?.split(" ").filter((name) => known.has(name));
  return {
    circuit: query.get("circuit") ?? undefined,
    scheme: query.get("scheme") ?? undefined,
    batch: number("batch"),
    repetitions: number("repetitions"),
    encrypted: query.has("encrypted") ? query.get("encrypted") === "true" : undefined,
    transports: transports?.length ? transports : undefined,
    scenario: { preset: query.get("preset") ?? undefined, set, toml: query.get("toml") ?? undefined },
  };
}

function transportList(options, chosen, changed) {
  const boxes = new Map();
  const times = new Map();
  const list = el("ul", { class: "transports" });
  for (const { name, label } of options.transports) {
    const box = el("input", { type: "checkbox", name: "transport", value: name, checked: chosen.includes(name), on: { change: changed } });
    const time = el("span", { class: "time" });
    boxes.set(name, box);
    times.set(name, time);
    list.append(el("li", {}, el("label", { class: "check" }, box, markOf(name), el("span", { class: "name" }, label, TRANSPORTS[name] && el("span", { class: "meaning" }, TRANSPORTS[name])), time)));
  }
  const all = (isChosen) => {
    for (const box of boxes.values()) box.checked = isChosen;
    changed();
  };
  return {
    element: el(
      "fieldset",
      { class: "plain" },
      el("legend", { class: "unseen" }, "Transports to run"),
      list,
      el(
        "div",
        { class: "buttons" },
        el("button", { type: "button", class: "quiet", on: { click: () => all(true) } }, "All"),
        el("button", { type: "button", class: "quiet", on: { click: () => all(false) } }, "None"),
      ),
    ),
    value: () => [...boxes].filter(([, box]) => box.checked).map(([name]) => name),
    predicted(answer) {
      for (const [name, time] of times) {
        if (!answer) {
          fill(time, "");
          continue;
        }
        const found = answer.predictions.find((each) => each.transport === name);
        const without = answer.excluded.find((each) => each.transport === name);
        const pick = answer.predictions.find((each) => each.transport === answer.pick);
        if (found) fill(time, duration(found.seconds * 1e3), name === answer.pick && el("span", { class: "pick" }, "pick"));
        else if (name === "auto" && pick) fill(time, `takes ${answer.pick}`);
        else fill(time, without ? without.reason : "not predicted");
      }
    },
  };
}

function prediction() {
  let answer = null;
  let chosen = [];
  const rows = () => {
    if (!answer) return [];
    const ofChosen = answer.predictions.filter((each) => chosen.includes(each.transport));
    return ofChosen.length ? ofChosen : answer.predictions;
  };
  const drawn = figure({
    title: "From the first packet to the output",
    name: () => "predicted-time",
    note: "",
    draw: (colors, width) =>
      bars(colors, width, {
        title: "Predicted time of each transport",
        label: "predicted time",
        rows: rows().map((each) => ({
          name: each.transport,
          style: styleOf(each.transport, colors),
          predicted: { low: each.low_s * 1e3, mid: each.seconds * 1e3, high: each.high_s * 1e3 },
        })),
      }),
    numbers: () => ({
      head: ["transport", "time", "80 % interval", "set-up", "round trips", "slow start", "transfer", "losses", "computing", "bound by"],
      rows: rows().map((each) => [
        each.transport,
        duration(each.seconds * 1e3),
        `${duration(each.low_s * 1e3)} to ${duration(each.high_s * 1e3)}`,
        ...["setup_s", "rounds_s", "growth_s", "transfer_s", "loss_s", "compute_s"].map((part) => duration(each.parts[part] * 1e3)),
        each.bound ?? "",
      ]),
      numeric: [1, 2, 3, 4, 5, 6, 7, 8],
    }),
  });
  const words = el("p", { class: "reason" });
  const limit = el("p", { class: "hint" });
  const element = el("div", { class: "forecast", "aria-live": "polite" }, el("p", { class: "waiting" }, "Predicting …"));
  return {
    element,
    end: drawn.end,
    wait: () => element.classList.add("stale"),
    fail(message) {
      element.classList.remove("stale");
      fill(element, el("p", { class: "notice bad", role: "alert" }, message));
    },
    show(found, transports) {
      element.classList.remove("stale");
      answer = found;
      chosen = transports;
      if (found.predictions.length === 0) {
        fill(element, empty("No transport can be used on this path.", el("ul", {}, found.excluded.map((each) => el("li", {}, `${each.transport}: ${each.reason}`)))));
        return;
      }
      fill(words, el("strong", {}, `${found.pick} would be picked`), `: ${found.reason} (${Math.round(found.confidence * 100)} % confidence).`);
      const { workload, limit: bound } = found;
      fill(
        limit,
        `Physical limit of the run time: ${duration(bound.limit_ms)} for ${digits(bound.round_trips)} ${bound.round_trips === 1 ? "round trip" : "round trips"} and ${bytes(workload.garbler_bytes)} from the garbler` +
          ` (${bytes(workload.evaluator_bytes)} from the evaluator); lower bound ${duration(bound.floor_ms)}.`,
      );
      fill(element, words, drawn.element, limit);
      drawn.update();
    },
  };
}
