// The field that chooses a circuit: a built-in one with its parameters, or an uploaded Bristol
// file.

import { ApiError, get, post, query, upload } from "./api.js";
import { el, field, fill, put } from "./dom.js";
import { bytes, count } from "./format.js";

/**
 * Returns the element, `value()` for requests and `isRight()`, which returns false for an invalid
 * specification. `changed` is called when the choice changes.
 */
export function circuitPicker(options, start, changed) {
  let circuits = [...options.circuits];
  let value = start ?? options.defaults.circuit;
  let isRight = true;

  const list = el("select", { name: "circuit", on: { change: () => pick(list.value) } });
  const specification = el("input", { type: "text", spellcheck: "false", autocomplete: "off", on: { change: () => inspect(specification.value.trim()) } });
  const parameters = field("Parameters", specification);
  const about = el("div", { class: "about", "aria-live": "polite" });
  const file = el("input", { type: "file", on: { change: () => file.files[0] && send(file.files[0]) } });
  const notice = el("div", { "aria-live": "polite", class: "upload-said" });
  const element = el(
    "div",
    {},
    field("Circuit", list),
    parameters,
    about,
    el("details", { class: "upload" }, el("summary", {}, "Upload a circuit"), field("Bristol file", file, `Bristol Fashion or old Bristol, at most ${bytes(options.limits.upload_bytes)}. It is stored on the server's machine.`), notice),
  );

  function entryOf(spec) {
    return circuits.find((each) => each.example === spec) ?? circuits.find((each) => each.kind === "builtin" && each.parameters && each.name === spec.split(":")[0]);
  }

  function draw() {
    const group = (label, kind) => {
      const of = circuits.filter((each) => each.kind === kind);
      return of.length > 0 && el("optgroup", { label }, of.map((each) => el("option", { value: each.example }, each.parameters ? `${each.name}:${each.parameters}` : each.label)));
    };
    fill(list, group("Built in", "builtin"), group("Uploaded", "upload"));
    const entry = entryOf(value);
    if (entry) list.value = entry.example;
    show(entry);
  }

  function show(entry) {
    parameters.hidden = !entry?.parameters;
    if (entry?.parameters) specification.value = value;
    fill(about, entry && facts(entry.example === value ? entry : { ...entry, and_gates: null, xor_gates: null }));
  }

  function pick(spec) {
    value = spec;
    isRight = true;
    show(entryOf(spec));
    changed();
  }

  async function inspect(spec) {
    try {
      const found = await post("/api/circuits/inspect", { circuit: spec });
      value = spec;
      isRight = true;
      specification.removeAttribute("aria-invalid");
      fill(about, facts(found));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      isRight = false;
      value = spec;
      specification.setAttribute("aria-invalid", "true");
      fill(about, el("p", { class: "notice bad", role: "alert" }, error.message));
    }
    changed();
  }

  async function send(chosen) {
    if (chosen.size > options.limits.upload_bytes) {
      fill(notice, el("p", { class: "notice bad", role: "alert" }, `${chosen.name} has ${bytes(chosen.size)}; at most ${bytes(options.limits.upload_bytes)} are allowed.`));
      return;
    }
    fill(notice, el("p", { class: "hint" }, `Reading ${chosen.name} …`));
    try {
      const circuit = await upload(`/api/circuits${query({ name: chosen.name.slice(0, 80) })}`, chosen);
      circuits = [...circuits.filter((each) => each.example !== circuit.example), circuit];
      options.circuits = circuits;
      value = circuit.example;
      isRight = true;
      draw();
      fill(notice, el("p", { class: "notice good" }, `${circuit.label} is selected: ${count(circuit.and_gates)} AND gates.`));
      changed();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(notice, el("p", { class: "notice bad", role: "alert" }, `${chosen.name}: ${error.message}`));
    }
    file.value = "";
  }

  draw();
  if (!entryOf(value) || entryOf(value).example !== value) inspect(value);
  // Another browser may have uploaded circuits since this page was opened.
  get("/api/circuits").then((found) => {
    circuits = found.circuits;
    options.circuits = circuits;
    draw();
  }, () => {});
  return { element, value: () => value, isRight: () => isRight };
}

function facts(entry) {
  const gates = [];
  if (Number.isFinite(entry.and_gates)) gates.push(`${count(entry.and_gates)} AND`);
  if (Number.isFinite(entry.xor_gates)) gates.push(`${count(entry.xor_gates)} XOR`);
  const values = (list, widths) => (list.length ? list.join("; ") : widths.length ? widths.map((width) => `${count(width)} bits`).join("; ") : "");
  const [inputs, outputs] = [values(entry.inputs ?? [], entry.input_widths ?? []), values(entry.outputs ?? [], entry.output_widths ?? [])];
  const items = el("dl", { class: "facts" });
  if (gates.length) put(items, el("dt", {}, "Gates"), el("dd", {}, gates.join(", ")));
  if (inputs) put(items, el("dt", {}, "Inputs"), el("dd", {}, inputs));
  if (outputs) put(items, el("dt", {}, "Outputs"), el("dd", {}, outputs));
  return [el("p", { class: "hint" }, entry.summary), items];
}
