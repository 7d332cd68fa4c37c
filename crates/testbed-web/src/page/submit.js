// Starting a job from a form.

import { ApiError, post } from "./api.js";
import { el, fill } from "./dom.js";

/** Starts a job and goes to its page; what the server refuses is shown in `said`. */
export async function submit(job, button, said) {
  button.disabled = true;
  try {
    const { id } = await post("/api/jobs", job);
    window.dispatchEvent(new Event("jobs-changed"));
    location.hash = `#/job/${id}`;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    fill(said, el("p", { class: "notice bad", role: "alert" }, error.message));
    button.disabled = false;
  }
}
