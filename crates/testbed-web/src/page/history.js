// The history: a list of runs, which users filter, compare, export and delete.

import { ApiError, exact, get, query as queryOf, remove } from "./api.js";
import { el, empty, field, fill } from "./dom.js";
import { fileButton } from "./download.js";
import { count, duration, moment, plural, times } from "./format.js";
import { actionsExplained, columnsExplained } from "./glossary.js";
import { transportOf } from "./marks.js";
import { summary } from "./scenario.js";

const PAGE = 50;
const DEBOUNCE_MS = 250;
/**
 * Maximum number of selected runs. Their numbers are part of an address, whose length is limited.
 */
const MAX_SELECTED = 300;

const FACETS = [
  ["circuit", "circuits", "Circuit"],
  ["scheme", "schemes", "Scheme"],
  ["transport", "transports", "Transport"],
  ["scenario", "scenarios", "Network"],
  ["state", "states", "State"],
  ["kind", "kinds", "Kind"],
];
// The unit in which a range is typed, and the factor to the unit of the HTTP interface.
const RANGES = [
  ["rtt", "Round-trip time", "ms", 1],
  ["loss", "Loss", "%", 0.01],
  ["rate", "Rate", "Mbit/s", 1],
];

const COLUMNS = ["Run", "Circuit", "Transport", "Network", "Total", "Run time", "× limit", "State"];

export async function show(page, { query, isShown }) {
  const filters = Object.fromEntries([...query].filter(([name]) => name !== "order"));
  let order = query.get("order") === "oldest" ? "oldest" : "newest";
  const chosen = new Set();
  // The cursors of the earlier pages.
  let before = [];
  let cursor = null;
  let answer = { runs: [], next: null, total: 0 };
  let timer = 0;
  let turn = 0;

  const facets = el("div", { class: "filters" });
  const ranges = el("details", { class: "more-filters" }, el("summary", {}, "More filters"), rangeFields());
  const chips = el("p", { class: "chips" });
  const text = el("input", { type: "search", value: filters.q ?? "", placeholder: "part of a name or an error", on: { input: () => set("q", text.value.trim()) } });
  const total = el("p", { class: "total", role: "status" });
  const notice = el("div", { "aria-live": "assertive" });
  const list = el("div", { class: "history" });
  const actions = el("div", { class: "toolbar", role: "toolbar", "aria-label": "Actions for these runs" });
  const charts = el("div");
  const pager = el("div", { class: "pager" });
  const dialog = el("dialog", { "aria-label": "Delete runs" });

  fill(page, el("h1", {}, "History"), el("div", { class: "card" }, el("div", { class: "search" }, field("Search", text)), facets, ranges, chips), notice, el("div", { class: "list-head" }, total, actions), actionsExplained(), charts, list, pager, dialog);
  await load();
  return () => clearTimeout(timer);

  function set(name, value) {
    if (value === "" || value === null) delete filters[name];
    else filters[name] = value;
    clearTimeout(timer);
    timer = setTimeout(restart, DEBOUNCE_MS);
  }

  function restart() {
    before = [];
    cursor = null;
    fill(charts);
    // The filters are put into the address without a new entry. So a reload keeps them, and the
    // back button leaves this view.
    window.history.replaceState(null, "", `#/history${queryOf({ ...filters, order: order === "newest" ? "" : order })}`);
    load();
  }

  async function load() {
    turn += 1;
    const mine = turn;
    try {
      const [found, of] = await Promise.all([
        get(`/api/runs${queryOf({ ...filters, limit: PAGE, order, cursor })}`),
        get(`/api/facets${queryOf(filters)}`),
      ]);
      if (mine !== turn || !isShown()) return;
      answer = found;
      fill(notice);
      drawFacets(of);
      draw();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(notice, el("p", { class: "notice bad", role: "alert" }, error.message));
    }
  }

  function drawFacets(of) {
    // The filter that has the focus is replaced, so its successor gets the focus.
    const focused = document.activeElement?.name;
    fill(
      facets,
      FACETS.map(([name, list, label]) => {
        const entries = of[list] ?? [];
        const value = filters[name] ?? "";
        const control = el("select", { name, on: { change: () => set(name, control.value) } }, el("option", { value: "" }, "any"));
        if (value && !entries.some((each) => exact(each.value) === value)) control.append(el("option", { value }, value));
        for (const each of entries) control.append(el("option", { value: exact(each.value) }, `${each.label ?? each.value} (${count(each.runs)})`));
        control.value = value;
        return field(label, control);
      }),
    );
    if (focused) facets.querySelector(`select[name="${CSS.escape(focused)}"]`)?.focus();
    fill(chips, filters.job && el("button", { type: "button", class: "chip", on: { click: () => set("job", "") } }, `Job ${filters.job} ×`));
  }

  function rangeFields() {
    const number = (name, label, factor) => {
      const start = filters[name] === undefined ? "" : String(Number((Number(filters[name]) / factor).toPrecision(6)));
      const control = el("input", {
        type: "number",
        step: "any",
        min: "0",
        value: start,
        "aria-label": label,
        on: { input: () => set(name, control.value === "" ? "" : String(Number((Number(control.value) * factor).toPrecision(6)))) },
      });
      return control;
    };
    const day = (name, label, add) => {
      const start = filters[name] ? new Date(Number(filters[name]) - add) : null;
      const control = el("input", {
        type: "date",
        value: start ? `${start.getFullYear()}-${String(start.getMonth() + 1).padStart(2, "0")}-${String(start.getDate()).padStart(2, "0")}` : "",
        on: { change: () => set(name, control.value ? String(new Date(`${control.value}T00:00`).getTime() + add) : "") },
      });
      return field(label, control);
    };
    return el(
      "div",
      { class: "filters" },
      RANGES.map(([name, label, unit, factor]) =>
        el("fieldset", { class: "range" }, el("legend", {}, `${label} (${unit})`), number(`${name}_min`, `${label}, at least`, factor), " to ", number(`${name}_max`, `${label}, at most`, factor)),
      ),
      day("since", "From day", 0),
      day("until", "To day", 86_399_999),
    );
  }

  function draw() {
    fill(total, Object.keys(filters).length ? plural(answer.total, "matching run") : plural(answer.total, "run"));
    drawActions();
    const button = (label, isPossible, go) => el("button", { type: "button", disabled: !isPossible, on: { click: go } }, label);
    const isPaged = before.length > 0 || answer.next;
    fill(
      pager,
      isPaged && [
        button("Newer", before.length > 0, () => turnTo(before.pop() ?? null)),
        el("span", {}, `Page ${before.length + 1} of ${count(Math.ceil(answer.total / PAGE))}`),
        button("Older", Boolean(answer.next), () => {
          before.push(cursor);
          turnTo(answer.next);
        }),
      ],
    );
    if (order === "oldest" && isPaged) [pager.firstChild.textContent, pager.lastChild.textContent] = ["Older", "Newer"];
    if (answer.runs.length === 0) {
      fill(
        list,
        Object.keys(filters).length
          ? empty("No run matches these filters.", el("p", {}, el("a", { class: "button", href: "#/history", on: { click: clear } }, "Show all runs")))
          : empty("Nothing has been run yet.", el("p", {}, el("a", { class: "button", href: "#/new" }, "Start a run"))),
      );
      return;
    }
    fill(list, runList(), columnsExplained(COLUMNS));
  }

  function clear(event) {
    event.preventDefault();
    for (const name of Object.keys(filters)) delete filters[name];
    text.value = "";
    for (const input of ranges.querySelectorAll("input")) input.value = "";
    restart();
  }

  function turnTo(next) {
    cursor = next;
    load().then(() => list.scrollIntoView({ block: "start" }));
  }

  function runList() {
    const all = el("input", { type: "checkbox", "aria-label": "Select all runs of this page", checked: answer.runs.every((run) => chosen.has(run.id)) });
    all.addEventListener("change", () => {
      for (const run of answer.runs) {
        if (all.checked) chosen.add(run.id);
        else chosen.delete(run.id);
      }
      for (const box of list.querySelectorAll("tbody input")) box.checked = all.checked;
      drawActions();
    });
    const sort = el(
      "button",
      {
        type: "button",
        class: "sort",
        on: {
          click: () => {
            order = order === "newest" ? "oldest" : "newest";
            restart();
          },
        },
      },
      order === "newest" ? "Started ↓" : "Started ↑",
    );
    const head = [all, ...COLUMNS].map((content, column) =>
      el("th", { scope: "col", class: column >= 5 && column <= 7 ? "number" : null }, content),
    );
    head.splice(2, 0, el("th", { scope: "col", "aria-sort": order === "newest" ? "descending" : "ascending" }, sort));
    return el("table", {}, el("caption", { class: "unseen" }, "Runs"), el("thead", {}, el("tr", {}, head)), el("tbody", {}, answer.runs.map(line)));
  }

  function line(run) {
    const box = el("input", {
      type: "checkbox",
      "aria-label": `Select run ${run.id}`,
      checked: chosen.has(run.id),
      on: {
        change: () => {
          if (box.checked) chosen.add(run.id);
          else chosen.delete(run.id);
          drawActions();
        },
      },
    });
    const cell = (label, content, number) => el("td", { data: { label }, class: number ? "number" : null }, content);
    return el(
      "tr",
      {},
      el("td", { class: "choose" }, box),
      el("th", { scope: "row" }, el("a", { href: `#/run/${run.id}` }, `Run ${run.id}`)),
      cell("Started", moment(run.started_unix_ms)),
      cell("Circuit", [run.circuit_label || run.circuit, el("span", { class: "aside" }, ` ${run.scheme ?? ""}${run.batch > 1 ? ` ×${count(run.batch)}` : ""}`)]),
      cell("Transport", transportOf(run)),
      cell("Network", el("span", { title: summary(run) }, run.scenario)),
      cell("Total", duration(run.total_ms ?? NaN), true),
      cell("Run time", duration(run.runtime_ms ?? NaN), true),
      cell("× limit", times(run.ratio ?? NaN), true),
      cell("State", run.state === "ok" ? "ok" : el("span", { class: "bad-text", title: run.error }, run.state)),
    );
  }

  /** Returns the filters of the actions: the selected runs, or all that match. */
  function scope() {
    return chosen.size ? { ids: [...chosen].sort((a, b) => a - b).join(",") } : filters;
  }

  function drawActions() {
    const isTooMany = chosen.size > MAX_SELECTED;
    const of = chosen.size ? `${count(chosen.size)} chosen` : `all ${count(answer.total)}`;
    const nothing = answer.total === 0 && chosen.size === 0;
    const button = (label, run, attributes = {}) => el("button", { type: "button", disabled: nothing || isTooMany, on: { click: run }, ...attributes }, label);
    const exported = (label, kind, attributes) => fileButton(label, `/api/export.${kind}${queryOf(scope())}`, `runs.${kind}`, { disabled: nothing || isTooMany, ...attributes });
    const focused = actions.contains(document.activeElement) ? document.activeElement.textContent : null;
    fill(
      actions,
      el("span", { class: "scope" }, `${of}:`),
      button("Overlay", () => (location.hash = `#/compare${queryOf(scope())}`)),
      exported("JSON", "json"),
      exported("CSV", "csv"),
      exported("Records", "jsonl", { title: "JSON Lines for “transpute testbed report”: one object per run" }),
      button("Charts", listCharts, { title: "The charts of “transpute testbed report”, as SVG and PNG" }),
      button("Delete", confirmDeletion, { class: "danger" }),
      chosen.size > 0 &&
        button(
          "Clear selection",
          () => {
            chosen.clear();
            for (const box of list.querySelectorAll("input")) box.checked = false;
            drawActions();
          },
          { class: "quiet", disabled: false },
        ),
      isTooMany && el("span", { class: "bad-text" }, `At most ${MAX_SELECTED} can be selected; use filters for more.`),
    );
    if (focused) [...actions.querySelectorAll("button")].find((each) => each.textContent === focused)?.focus();
  }

  async function listCharts() {
    fill(charts, el("p", { class: "waiting" }, "Drawing …"));
    try {
      const { figures } = await get(`/api/figures${queryOf(scope())}`);
      const link = (name, kind) => fileButton(kind.toUpperCase(), `/api/figure.${kind}${queryOf({ name, ...scope() })}`, `${name}.${kind}`);
      fill(
        charts,
        el(
          "section",
          { class: "card" },
          el("h2", {}, "Charts of the report"),
          figures.length === 0 && el("p", {}, "No chart can be drawn from these runs."),
          el("ul", { class: "chart-list" }, figures.map(({ name, title }) => el("li", {}, el("span", {}, title), link(name, "svg"), link(name, "png")))),
        ),
      );
    } catch (error) {
      fill(charts, el("p", { class: "notice bad", role: "alert" }, error.message));
    }
  }

  function confirmDeletion() {
    const isOfChosen = chosen.size > 0;
    const number = isOfChosen ? chosen.size : answer.total;
    const error = el("div", { "aria-live": "assertive" });
    const yes = el("button", { type: "button", class: "danger", on: { click: carryOut } }, `Delete ${plural(number, "run")}`);
    const no = el("button", { type: "button", autofocus: true, on: { click: () => dialog.close() } }, "Keep them");
    const which = isOfChosen ? `the ${plural(number, "run")} that you selected` : Object.keys(filters).length ? `all ${plural(number, "run")} that match the filters` : `all ${plural(number, "run")}, the whole history`;
    fill(dialog, el("h2", {}, "Delete runs"), el("p", {}, `This deletes ${which}. This cannot be undone. Export runs that you may need.`), error, el("div", { class: "buttons" }, no, yes));
    dialog.showModal();

    async function carryOut() {
      yes.disabled = true;
      try {
        await remove("/api/runs", isOfChosen ? { ids: [...chosen] } : { filter: filters, expect: answer.total });
        chosen.clear();
        dialog.close();
        restart();
      } catch (problem) {
        yes.disabled = false;
        fill(error, el("p", { class: "notice bad", role: "alert" }, problem.message));
        if (problem.status === 409) load();
      }
    }
  }
}
