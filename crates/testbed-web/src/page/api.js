// Requests to the server; docs/testbed-http.md describes its interface.

export class ApiError extends Error {
  constructor(message, status, body = {}) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** Called when the server requires the token. */
let signIn = () => {};
export function onSignIn(callback) {
  signIn = callback;
}

const SESSION = "transpute-session";

/**
 * The identifier of the session. It is stored for this origin, so that other tabs and reloads can
 * use it. It is not a cookie, because the browser would send a cookie to every port of this host.
 */
let session = stored();

function stored() {
  try {
    return localStorage.getItem(SESSION);
  } catch {
    return null;
  }
}

function keep(id) {
  session = id;
  try {
    if (id === null) localStorage.removeItem(SESSION);
    else localStorage.setItem(SESSION, id);
  } catch {
    // If the browser allows no storage, the session ends when the page is closed.
  }
}

/** Exchanges the token for a session. */
export async function openSession(token) {
  const answer = await post("/api/session", { token });
  keep(answer?.session ?? null);
}

/** Ends the session, in all tabs. */
export async function closeSession() {
  try {
    await remove("/api/session");
  } catch (error) {
    // Status 401: the session had already ended.
    if (error.status !== 401) throw error;
  }
  keep(null);
}

/** Sends a request with the credential of the session. */
async function send(path, { headers, ...options } = {}) {
  try {
    return await fetch(path, { credentials: "omit", headers: session ? { ...headers, Authorization: `Bearer ${session}` } : headers, ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not respond. Is “transpute testbed serve” still running?", 0);
  }
}

/** Returns the error of an answer with an error status. */
async function failed(path, answer) {
  const text = await answer.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    body = { error: text.slice(0, 300) };
  }
  if (answer.status === 401 && path !== "/api/session") signIn();
  return new ApiError(body.error || `The server answered with status ${answer.status}.`, answer.status, body);
}

async function ask(path, options) {
  const answer = await send(path, options);
  if (!answer.ok) throw await failed(path, answer);
  return answer.status === 204 ? null : answer.json();
}

/**
 * Downloads a file of the server. It uses a request, because a plain link would not send the
 * session.
 */
export async function file(path) {
  const answer = await send(path);
  if (!answer.ok) throw await failed(path, answer);
  return answer.blob();
}

export const get = (path, signal) => ask(path, { signal });
export const post = (path, body, signal) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal });
export const remove = (path, body) =>
  ask(path, body === undefined ? { method: "DELETE" } : { method: "DELETE", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
export const upload = (path, blob) =>
  ask(path, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: blob });

/** Returns a query string of the fields that are not empty. */
export function query(fields) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) {
    if (value === null || value === undefined || value === "") continue;
    parameters.set(name, value);
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

/** Escapes the commas in a value of a filter. Commas separate values there. */
export const exact = (value) => value.replaceAll("\\", "\\\\").replaceAll(",", "\\,");

/** Pause before reconnecting to the events of a job, in milliseconds. */
const RECONNECT_MS = 2000;

/**
 * Subscribes to the events of a job. `listeners` has a function for each kind of event. It may have
 * `open()`, called after connecting, and `lost(isGone)`, called when the connection breaks. The
 * connection is restored unless `isGone`. Returns a function that unsubscribes. No EventSource is
 * used, because it would not send the session.
 */
export function listen(job, listeners) {
  const stopping = new AbortController();
  const { signal } = stopping;
  follow();
  return () => stopping.abort();

  async function follow() {
    let after = "";
    while (!signal.aborted) {
      const path = `/api/jobs/${job}/events${query({ after })}`;
      let isGone = false;
      try {
        const answer = await send(path, { signal });
        if (!answer.ok) {
          isGone = true;
          throw await failed(path, answer);
        }
        listeners.open?.();
        for await (const { id, name, data } of eventsOf(answer.body)) {
          after = id || after;
          dispatch(name, data);
          if (name === "end") return;
        }
      } catch (error) {
        if (error.status === 401) return;
        // Any other error is handled by reconnecting.
      }
      if (signal.aborted) return;
      listeners.lost?.(isGone);
      if (isGone) return;
      await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
    }
  }

  function dispatch(name, data) {
    try {
      listeners[name]?.(JSON.parse(data));
    } catch (error) {
      reportError(error);
    }
  }
}

/** Parses server-sent events. An empty line ends each event. */
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (text + value).split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const fields = Object.fromEntries(part.split("\n").map((line) => line.split(/: ?(.*)/s)));
      if (fields.data) yield { id: fields.id, name: fields.event, data: fields.data };
    }
  }
}
