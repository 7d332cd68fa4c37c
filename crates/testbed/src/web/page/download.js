// Files for the user.

import { el } from "./dom.js";

/** Saves what the page made. */
export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  follow(address, name);
  // The browser has taken it up by then.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Saves what the server sends as an attachment. */
export function follow(address, name = "") {
  const link = el("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
}

/** A name that every file system takes. */
export function fileName(...parts) {
  return parts
    .join("-")
    .replace(/[^\w.+=-]+/g, "-")
    .replace(/^[-.]+|-+$/g, "")
    .slice(0, 80);
}
