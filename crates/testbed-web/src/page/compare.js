// The view that compares selected runs, in tables and in common charts.

import { get } from "./api.js";
import { comparisonView } from "./comparison.js";
import { MAX_RUNS, showTimelines } from "./timelines.js";
import { el, empty, fill } from "./dom.js";
import { plural } from "./format.js";

export async function show(page, { query }) {
  const search = query.toString();
  const answer = await get(search ? `/api/compare?${search}` : "/api/compare");
  const view = comparisonView(true);
  const timelines = el("div");
  const ids = query.get("ids")?.split(",").map(Number).filter(Number.isInteger) ?? [];
  fill(
    page,
    el("h1", {}, "Comparison"),
    el("p", { class: "lead" }, `${plural(answer.runs, "run")} in ${plural(answer.groups.length, "group")} of equal conditions.`),
    answer.groups.length === 0 && empty("No run can be compared.", el("p", {}, el("a", { class: "button", href: "#/history" }, "Back to the history"))),
    view.element,
    ids.length > 0 && el("section", {}, el("h2", {}, ids.length > MAX_RUNS ? `Timelines of the first ${MAX_RUNS} runs` : "Timelines of the runs"), timelines),
  );
  view.show(answer);
  const end = ids.length ? showTimelines(timelines, ids) : () => {};
  return () => {
    view.end();
    end();
  };
}
