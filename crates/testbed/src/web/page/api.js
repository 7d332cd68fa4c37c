// Talking to the server; docs/testbed-http.md says what it answers.

export class ApiError extends Error {
  constructor(message, status, body = {}) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** Called when the server asks for the token. */
let signIn = () => {};
export function onSignIn(callback) {
  signIn = callback;
}

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Is “transpute testbed serve” still running?", 0);
  }
  if (answer.status === 204) return null;
  const text = await answer.text();
  let body = {};
  try {
    body = text ? JSON.parse(text) : {};
  } catch {
    body = { error: text.slice(0, 300) };
  }
  if (answer.ok) return body;
  if (answer.status === 401 && path !== "/api/session") signIn();
  throw new ApiError(body.error || `The server answers ${answer.status}.`, answer.status, body);
}

export const get = (path, signal) => ask(path, { signal });
export const post = (path, body, signal) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
export const remove = (path, body) =>
  ask(path, body === undefined ? { method: "DELETE" } : { method: "DELETE", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
export const upload = (path, blob) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: blob });

/** A query string of what is not empty; lists have their commas escaped. */
export function query(fields) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === "") continue;
    parameters.set(name, value);
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

/** A value of a filter: the comma stands between several, so one within a name is escaped. */
export const exact = (value) => value.replaceAll("\\", "\\\\").replaceAll(",", "\\,");

/**
 * Listens to a job. `listeners` has a function for each kind of event, and `lost(isGone)` for
 * connections that break; the browser connects again by itself unless it is gone. Returns how to stop.
 */
export function listen(job, listeners) {
  const source = new EventSource(`/api/jobs/${job}/events`);
  const kinds = ["job", "run-start", "phase", "sample", "run", "gap", "end"];
  for (const kind of kinds) {
    source.addEventListener(kind, (event) => {
      if (kind === "end") source.close();
      listeners[kind]?.(JSON.parse(event.data));
    });
  }
  source.addEventListener("open", () => listeners.open?.());
  source.addEventListener("error", () => listeners.lost?.(source.readyState === EventSource.CLOSED));
  return () => source.close();
}
