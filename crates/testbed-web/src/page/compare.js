// Runs of the user's choice, side by side and one upon the other.

import { get } from "./api.js";
import { comparisonView } from "./comparison.js";
import { MOST, putCourse } from "./course.js";
import { el, empty, fill } from "./dom.js";
import { plural } from "./format.js";

export async function show(page, { query }) {
  const search = query.toString();
  const answer = await get(search ? `/api/compare?${search}` : "/api/compare");
  const view = comparisonView();
  const course = el("div");
  const ids = query.get("ids")?.split(",").map(Number).filter(Number.isInteger) ?? [];
  fill(
    page,
    el("h1", {}, "Comparison"),
    el("p", { class: "lead" }, `${plural(answer.runs, "run")} in ${plural(answer.groups.length, "group")} of equal conditions.`),
    answer.groups.length === 0 && empty("None of these runs can be compared.", el("p", {}, el("a", { class: "button", href: "#/history" }, "Back to the history"))),
    view.element,
    ids.length > 0 && el("section", {}, el("h2", {}, ids.length > MOST ? `Course of the first ${MOST} runs` : "Course of the runs"), course),
  );
  view.show(answer);
  const end = ids.length ? putCourse(course, ids) : () => {};
  return () => {
    view.end();
    end();
  };
}
