// The fields that choose network conditions: a preset with sliders, or a scenario file.

import { ApiError, post } from "./api.js";
import { el, field, fill, fresh, select, switcher } from "./dom.js";
import { bytes, digits, duration, percent, rate } from "./format.js";

const STEPS = 1000;

// For each slider: its label, its unit, the factor from the unit of the HTTP interface to this unit
// (`scale`), and the range that the server accepts, in this unit.
const KINDS = {
  rtt_ms: { label: "Round-trip time", unit: "ms", scale: 1, read: duration, range: [0, 120_000] },
  loss: { label: "Loss", unit: "%", scale: 100, read: percent, range: [0, 100] },
  rate_mbit: { label: "Rate", unit: "Mbit/s", scale: 1, read: rate, range: [0.001, 400_000], none: "no bottleneck" },
  queue_bytes: { label: "Queue", unit: "kB", scale: 1e-3, read: (value) => (value === null ? "" : bytes(value)), range: [0.576, 1_048_576], none: "default: one bandwidth-delay product" },
  jitter_ms: { label: "Jitter, either way", unit: "ms", scale: 1, read: duration, range: [0, 60_000] },
};

/** Converts a value to a position of the slider, 0 to STEPS. */
function position(slider, value) {
  const { min, max } = slider;
  if (slider.scale !== "log") return Math.round(((value - min) / (max - min)) * STEPS);
  const low = lowest(slider);
  if (value < low) return 0;
  const first = slider.zero ? 1 : 0;
  return Math.round(first + (Math.log(value / low) / Math.log(max / low)) * (STEPS - first));
}

function valueAt(slider, place) {
  const { min, max } = slider;
  if (slider.scale !== "log") return tidy(min + (place / STEPS) * (max - min));
  if (slider.zero && place <= 0) return 0;
  const low = lowest(slider);
  const first = slider.zero ? 1 : 0;
  return tidy(low * (max / low) ** ((place - first) / (STEPS - first)));
}

/**
 * Returns the smallest value of a logarithmic slider. If it starts at 0, this is a ten-thousandth
 * of its maximum.
 */
function lowest(slider) {
  return slider.min > 0 ? slider.min : slider.max / 1e4;
}

const tidy = (value) => Number(value.toPrecision(2));

/**
 * Returns the element, `value()` for requests, and `problem()`, which returns the error message if
 * the input is invalid. `changed` is called at every change. `start` has the initial values. It may
 * have `preset`, `set` and `toml`.
 */
export function scenarioEditor(options, start, changed) {
  const known = (name) => options.scenarios.find((each) => each.name === name);
  let preset = known(start.preset) ?? known(options.defaults.scenario) ?? options.scenarios[0];
  let set = { ...start.set };
  // The error messages for invalid typed values, by slider.
  const problems = new Map();
  let own = start.toml ?? null;

  const description = el("p", { class: "hint" });
  const extras = el("ul", { class: "hint extras" });
  const sliders = el("div", { class: "sliders" });
  const reset = el("button", { type: "button", class: "quiet", on: { click: () => choose(preset.name) } }, "Back to the preset");
  const presets = select(options.scenarios.map((each) => [each.name, each.name]), preset.name, {
    name: "scenario",
    on: { change: () => choose(presets.value) },
  });

  const text = el("textarea", { rows: "9", spellcheck: "false", on: { input: changed } });
  const check = el("div", { "aria-live": "polite" });
  const byPreset = el("div", {}, field("Preset", presets), description, sliders, extras, reset);
  const byFile = el(
    "div",
    { hidden: true },
    field("Scenario (TOML)", text, "All fields of a scenario file, such as burst loss, cross traffic and changes over time: see docs/scenario-files.md."),
    el("button", { type: "button", class: "quiet", on: { click: inspect } }, "Check"),
    check,
  );
  const element = el(
    "div",
    {},
    switcher("Conditions from", [["preset", "Preset and sliders"], ["file", "File"]], own === null ? "preset" : "file", (way) => {
      own = way === "file" ? text.value || preset.toml : null;
      if (own !== null) text.value = own;
      byFile.hidden = own === null;
      byPreset.hidden = own !== null;
      changed();
    }),
    byPreset,
    byFile,
  );
  if (own !== null) {
    text.value = own;
    byFile.hidden = false;
    byPreset.hidden = true;
  }

  async function inspect() {
    try {
      const found = await post("/api/scenario", value());
      fill(check, el("p", { class: "notice good" }, `Valid: ${summary(found.values)}`, found.extras.length ? `; ${found.extras.join("; ")}` : ""));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(check, el("p", { class: "notice bad", role: "alert" }, error.message));
    }
  }

  function choose(name) {
    preset = known(name) ?? preset;
    set = {};
    problems.clear();
    draw();
    changed();
  }

  function change(key, next, problem) {
    if (problem) {
      problems.set(key, problem);
      reset.hidden = false;
      changed();
      return;
    }
    problems.delete(key);
    if (next === valueOf(preset, key)) delete set[key];
    else set[key] = next;
    reset.hidden = Object.keys(set).length === 0;
    changed();
  }

  function draw() {
    presets.value = preset.name;
    fill(description, preset.description, preset.symmetric ? "" : " The two directions differ; moving a slider sets both.");
    fill(extras, preset.extras.map((each) => el("li", {}, `Also: ${each}`)));
    extras.hidden = preset.extras.length === 0;
    reset.hidden = Object.keys(set).length === 0;
    fill(
      sliders,
      Object.entries(options.sliders).map(([key, slider]) => sliderFor(key, slider, key in set ? set[key] : valueOf(preset, key), (next, problem) => change(key, next, problem))),
      firewall("udp_blocked" in set ? set.udp_blocked : preset.values.udp_blocked === true, (next) => change("udp_blocked", next)),
    );
  }

  function value() {
    if (own !== null) return { toml: text.value, name: "own" };
    return Object.keys(set).length ? { preset: preset.name, set } : { preset: preset.name };
  }

  draw();
  return { element, value, problem: () => (own === null ? ([...problems.values()][0] ?? null) : null) };
}

/** Returns a value of a preset, or null. A queue of one bandwidth-delay product is null, so that it follows rate and round-trip time. */
function valueOf({ values }, key) {
  const value = values[key] ?? null;
  if (key !== "queue_bytes" || value === null) return value;
  const product = Math.ceil(((values.rate_mbit ?? 0) * 1e6 * values.rtt_ms) / 8e3);
  return Math.abs(value - Math.max(product, 262_144)) <= 1 ? null : value;
}

function firewall(isBlocked, pick) {
  const box = el("input", { type: "checkbox", checked: isBlocked, on: { change: () => pick(box.checked) } });
  return el("label", { class: "check" }, box, " A firewall drops UDP");
}

function sliderFor(key, slider, value, pick) {
  const kind = KINDS[key] ?? { label: key, unit: slider.unit, scale: 1, read: digits };
  const id = fresh("slider");
  // The value that the slider gets when the user clears the box “none”.
  let number = value ?? (key === "rate_mbit" ? 1000 : 262_144);
  let isNone = value === null;
  const [low, high] = kind.range ?? [slider.min, slider.max];
  const typed = el("input", { type: "number", id, step: "any", min: low, max: high });
  const range = el("input", { type: "range", min: "0", max: String(STEPS), step: "1", "aria-label": `${kind.label}, slider` });
  const notice = el("span", { class: "said" });
  const none = el("input", { type: "checkbox", checked: isNone });
  const show = (isTyping) => {
    range.value = String(position(slider, number));
    range.setAttribute("aria-valuetext", isNone ? kind.none : kind.read(number));
    if (!isTyping) typed.value = isNone ? "" : String(Number((number * kind.scale).toPrecision(6)));
    range.disabled = typed.disabled = isNone;
    typed.setAttribute("aria-invalid", "false");
    fill(notice, isNone ? "" : kind.read(number));
  };
  const tell = () => pick(isNone ? null : number);
  range.addEventListener("input", () => {
    number = valueAt(slider, Number(range.value));
    show();
    tell();
  });
  typed.addEventListener("input", () => {
    const value = typed.value === "" ? NaN : Number(typed.value);
    const isRight = value >= low && value <= high;
    if (!isRight) {
      typed.setAttribute("aria-invalid", "true");
      const given = Number.isFinite(value) ? `${typed.value} ${kind.unit}` : "nothing";
      pick(null, `${kind.label}: expected a number from ${low.toLocaleString("en")} to ${high.toLocaleString("en")} ${kind.unit}, found ${given}`);
      return;
    }
    // Rounding removes errors of the division: 0.05 % becomes 0.0005, not 0.0005000000000000001.
    number = Number((value / kind.scale).toPrecision(12));
    show(true);
    tell();
  });
  none.addEventListener("change", () => {
    isNone = none.checked;
    show();
    tell();
  });
  show();
  const canBeNone = slider.unlimited || slider.default;
  return el(
    "div",
    { class: "slider" },
    el("label", { for: id }, kind.label),
    el("div", { class: "typed" }, typed, el("span", { class: "unit" }, kind.unit)),
    range,
    notice,
    canBeNone && el("label", { class: "check none" }, none, " ", kind.none),
  );
}

/** Returns the conditions of a path on one line. */
export function summary(values) {
  const parts = [`RTT ${duration(values.rtt_ms)}`, rate(values.rate_mbit)];
  parts.push(values.loss ? `${percent(values.loss)} loss` : "no loss");
  if (values.jitter_ms) parts.push(`jitter ${duration(values.jitter_ms)}`);
  if (values.queue_bytes) parts.push(`queue ${bytes(values.queue_bytes)}`);
  if (values.udp_blocked) parts.push("UDP blocked");
  return parts.join(", ");
}
