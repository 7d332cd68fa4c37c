// The form that runs two users' programs on an emulated path.

import { el, empty, field, fill } from "./dom.js";
import { scenarioEditor } from "./scenario.js";
import { submit } from "./submit.js";

export async function show(page, { options, query }) {
  if (!options.programs_allowed) {
    fill(
      page,
      el("h1", {}, "Own programs"),
      empty("This server does not run programs of users.", el("p", {}, "Every user of this page could run any command on the server's machine. To allow that, start the server with ", el("code", {}, "transpute testbed serve --allow-programs"), ".")),
    );
    return null;
  }
  const scenario = scenarioEditor(options, { preset: query.get("preset") ?? "eu-us", set: {} }, () => {
    const problem = scenario.problem();
    fill(notice, problem && el("p", { class: "notice bad" }, problem));
    button.disabled = !options.can_run || problem !== null;
  });
  const label = el("input", { type: "text", value: query.get("label") ?? "", maxlength: "80" });
  const command = (name) => el("textarea", { name, rows: "3", spellcheck: "false", required: true, maxlength: "4096", value: query.get(name) ?? "" });
  const [a, b] = [command("a"), command("b")];
  const number = (value, most) => el("input", { type: "number", value, min: "1", max: String(most), step: "1", required: true });
  const repetitions = number(1, options.limits.repetitions);
  const timeout = number(Math.min(300, options.limits.timeout_s), options.limits.timeout_s);
  const notice = el("div", { "aria-live": "assertive" });
  const button = el("button", { type: "submit", class: "primary big", disabled: !options.can_run }, "Run");
  fill(
    page,
    el("h1", {}, "Own programs"),
    el("p", { class: "lead" }, "Two commands at the ends of an emulated path, measured like the parties of a computation. They run on the server's machine as the server's user."),
    el(
      "form",
      { class: "start", on: { submit: run } },
      el(
        "div",
        { class: "columns" },
        el(
          "section",
          { class: "card" },
          el("h2", {}, "Commands"),
          field("Name", label, "The name in the history."),
          field("Side A, for example a server; it starts first", a),
          field("Side B", b, "The run ends when this command ends."),
          el("p", { class: "hint" }, "/bin/sh runs both commands. The addresses of the sides are in ", el("code", {}, "$TRANSPUTE_A"), " and ", el("code", {}, "$TRANSPUTE_B"), ". Traffic on port 7700 is counted as the parties' traffic. For example ", el("code", {}, "nc -l $TRANSPUTE_A 7700 > /dev/null"), " and ", el("code", {}, "head -c 1000000 /dev/zero | nc -N $TRANSPUTE_A 7700"), "."),
          el("div", { class: "row" }, field("Repetitions", repetitions), field("Timeout of a run (s)", timeout)),
        ),
        el("section", { class: "card" }, el("h2", {}, "Network"), scenario.element),
      ),
      el("div", { class: "go" }, notice, button),
    ),
  );
  return null;

  async function run(event) {
    event.preventDefault();
    const job = {
      kind: "programs",
      label: label.value.trim() || "own programs",
      a: a.value,
      b: b.value,
      repetitions: Number(repetitions.value),
      timeout_s: Number(timeout.value),
      scenario: scenario.value(),
    };
    await submit(job, button, notice);
  }
}
