// Files for the user.

import { file } from "./api.js";
import { el } from "./dom.js";

/** Saves a blob as a file. */
export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  // The browser has taken it up by then.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A button that saves a file of the server; an error is shown beside it. */
export function fileButton(label, path, name, attributes = {}) {
  const button = el("button", { type: "button", ...attributes, on: { click: run } }, label);
  const said = el("span", { class: "bad-text", role: "alert" });
  return [button, said];

  async function run() {
    button.disabled = true;
    said.textContent = "";
    try {
      save(name, await file(path));
    } catch (error) {
      // A connection that breaks while the file arrives has an error of its own.
      said.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  }
}

/** A name that every file system takes. */
export function fileName(...parts) {
  return parts
    .join("-")
    .replace(/[^\w.+=-]+/g, "-")
    .replace(/^[-.]+|-+$/g, "")
    .slice(0, 80);
}
