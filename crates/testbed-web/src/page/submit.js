// Submission of a job from a form.

import { ApiError, post } from "./api.js";
import { el, fill } from "./dom.js";

/** Submits a job and opens its view. An error of the server is shown in `notice`. */
export async function submit(job, button, notice) {
  button.disabled = true;
  try {
    const { id } = await post("/api/jobs", job);
    window.dispatchEvent(new Event("jobs-changed"));
    location.hash = `#/job/${id}`;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    fill(notice, el("p", { class: "notice bad", role: "alert" }, error.message));
    button.disabled = false;
  }
}
