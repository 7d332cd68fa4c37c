// The frame of the page: signing in, loading the options and switching views.

import { ApiError, closeSession, get, onSignIn, openSession } from "./api.js";
import { el, failure, fill } from "./dom.js";
import { setTheme, themeChoice } from "./theme.js";
import { plural } from "./format.js";
import * as start from "./start.js";
import * as job from "./job.js";
import * as jobs from "./jobs.js";
import * as run from "./run.js";
import * as compare from "./compare.js";
import * as history from "./history.js";
import * as map from "./map.js";
import * as programs from "./programs.js";

const VIEWS = { new: start, jobs, job, run, compare, history, map, programs };
const main = document.getElementById("main");
const signOut = document.getElementById("sign-out");
let options = null;
let leave = () => {};
let showing = 0;

/** Parses an address like `#/job/17?a=b` into the name of the view, the rest of the path and the query. */
function route() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [name, ...rest] = path.split("/").map((part) => decodeURIComponent(part));
  return { name: VIEWS[name] ? name : "new", rest, query: new URLSearchParams(search) };
}

async function show() {
  showing += 1;
  const turn = showing;
  leave();
  leave = () => {};
  const { name, rest, query } = route();
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.views.split(" ").includes(name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  fill(main, el("p", { class: "waiting" }, "Loading …"));
  const page = el("div", { class: `view ${name}` });
  try {
    const ended = await VIEWS[name].show(page, { rest, query, options, isShown: () => turn === showing });
    if (turn !== showing) {
      ended?.();
      return;
    }
    leave = ended ?? (() => {});
  } catch (error) {
    if (turn !== showing) return;
    if (error instanceof ApiError && error.status === 401) return;
    if (!(error instanceof ApiError)) console.error(error);
    fill(page, el("h1", {}, "This view cannot be shown"), failure(error.message, show));
  }
  fill(main, page);
  const heading = main.querySelector("h1");
  document.title = heading ? `${heading.textContent} – Transpute testbed` : "Transpute testbed";
  // Focus moves to the new view for keyboards and screen readers, except when the page opens.
  if (turn > 1 && heading) {
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }
}

async function begin() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token) window.history.replaceState(null, "", location.pathname);
  try {
    const session = await get("/api/session");
    if (session.token_required && !session.signed_in) {
      if (!token) return askForToken();
      try {
        await openSession(decodeURIComponent(token));
      } catch (error) {
        return askForToken(error.message);
      }
    }
    signOut.hidden = !session.token_required;
    options = await get("/api/options");
  } catch (error) {
    if (error.status !== 401) fill(main, failure(error.message, begin));
    return;
  }
  document.getElementById("programs-link").hidden = !options.programs_allowed;
  fill(document.getElementById("machine"), machine());
  if (!options.can_run) {
    fill(
      document.getElementById("banner"),
      el("p", { class: "notice warn" }, `This machine cannot run the testbed: ${options.cannot_run}. Predictions, map and history are available.`),
    );
  }
  window.addEventListener("hashchange", show);
  show();
  watch();
}

function machine() {
  const { cpu, cpus, kernel } = options.machine;
  return `Transpute ${options.version} on ${plural(cpus, "processor")} (${cpu}), ${kernel}`;
}

function askForToken(message) {
  showing += 1;
  leave();
  const token = el("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const notice = el("div", { "aria-live": "polite" }, message && failure(message));
  const form = el(
    "form",
    {
      class: "card narrow",
      on: {
        submit: async (event) => {
          event.preventDefault();
          try {
            await openSession(token.value.trim());
            location.reload();
          } catch (error) {
            fill(notice, failure(error.message));
            token.select();
          }
        },
      },
    },
    el("h1", {}, "Sign in"),
    el("p", {}, "This testbed requires the token that “transpute testbed serve” printed when it started."),
    el("div", { class: "field" }, el("label", { for: "token" }, "Token"), token),
    notice,
    el("button", { class: "primary", type: "submit" }, "Sign in"),
  );
  fill(main, form);
  token.focus();
}

/** Keeps the number of running and waiting jobs in the header up to date. */
async function watch() {
  const place = document.getElementById("running");
  const refresh = async () => {
    if (document.hidden) return;
    try {
      const { jobs_running: running, jobs_queued: queued } = await get("/api/health");
      place.hidden = running + queued === 0;
      fill(place, queued ? `${running} running, ${queued} waiting` : `${running} running`);
    } catch {
      place.hidden = true;
    }
  };
  document.addEventListener("visibilitychange", refresh);
  window.addEventListener("jobs-changed", refresh);
  setInterval(refresh, 5000);
  refresh();
}

signOut.addEventListener("click", async () => {
  try {
    await closeSession();
    location.reload();
  } catch (error) {
    fill(document.getElementById("banner"), failure(error.message));
  }
});
const toggle = document.getElementById("theme");
toggle.value = themeChoice();
toggle.addEventListener("change", () => setTheme(toggle.value));
// The default action is prevented, because the address of the link would be parsed as a view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
onSignIn(() => askForToken());
begin();
