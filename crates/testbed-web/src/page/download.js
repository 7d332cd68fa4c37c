// Downloads: saving files on the user's machine.

import { file } from "./api.js";
import { el } from "./dom.js";

/** Saves a blob as a file. */
export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  // The address must stay valid until the browser has started the download. 10 s are enough.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Returns a button that downloads a file of the server, and an element for its errors. */
export function fileButton(label, path, name, attributes = {}) {
  const button = el("button", { type: "button", ...attributes, on: { click: run } }, label);
  const notice = el("span", { class: "bad-text", role: "alert" });
  return [button, notice];

  async function run() {
    button.disabled = true;
    notice.textContent = "";
    try {
      save(name, await file(path));
    } catch (error) {
      // This also shows the error of a connection that breaks during the download.
      notice.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  }
}

/** Joins parts to a file name that is valid on all file systems. */
export function fileName(...parts) {
  return parts
    .join("-")
    .replace(/[^\w.+=-]+/g, "-")
    .replace(/^[-.]+|-+$/g, "")
    .slice(0, 80);
}
