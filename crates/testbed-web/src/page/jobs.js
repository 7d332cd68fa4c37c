// The list of jobs, newest first.

import { get } from "./api.js";
import { el, empty, fill, table } from "./dom.js";
import { count, moment } from "./format.js";
import { badge } from "./job.js";

const REFRESH_MS = 2000;

export async function show(page, { isShown }) {
  const list = el("div");
  const more = el("button", { type: "button", hidden: true, on: { click: next } }, "Older jobs");
  fill(page, el("h1", {}, "Jobs"), el("p", { class: "lead" }, "One job runs at a time; the others wait in a queue. Jobs continue when this page is closed."), list, more);
  let jobs = [];
  let cursor = null;
  let isPaged = false;

  await refresh();
  const timer = setInterval(() => {
    // Once older pages are shown, the list is no longer refreshed.
    if (isShown() && !document.hidden && !isPaged) refresh().catch(() => {});
  }, REFRESH_MS);
  return () => clearInterval(timer);

  async function refresh() {
    const answer = await get("/api/jobs?limit=30");
    const isSame = JSON.stringify(answer.jobs) === JSON.stringify(jobs);
    jobs = answer.jobs;
    cursor = answer.next;
    if (!isSame || jobs.length === 0) draw();
  }

  async function next() {
    isPaged = true;
    const answer = await get(`/api/jobs?limit=30&cursor=${encodeURIComponent(cursor)}`);
    jobs = [...jobs, ...answer.jobs];
    cursor = answer.next;
    draw();
  }

  function draw() {
    more.hidden = !cursor;
    if (jobs.length === 0) {
      fill(list, empty("Nothing has been run yet.", el("p", {}, el("a", { class: "button", href: "#/new" }, "Start a run"))));
      return;
    }
    const rows = jobs.map((job) => [
      el("a", { href: `#/job/${job.id}` }, job.label),
      badge(job.state),
      `${count(job.done)} of ${count(job.total)}`,
      job.failed ? el("span", { class: "bad-text" }, count(job.failed)) : "0",
      moment(job.started_unix_ms ?? job.created_unix_ms),
    ]);
    fill(list, table("Jobs", ["Job", "State", "Runs", "Failed", "Started"], rows, [2, 3]));
  }
}
