// Helpers that build elements. All content is inserted as text and never parsed as HTML.

/**
 * Creates an element. Attributes that are null, undefined or false are omitted. The value true
 * becomes an empty attribute. `on` has listeners and `data` has data-* attributes. Children that
 * are null or false are omitted.
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (name === "data") {
      for (const [key, text] of Object.entries(value)) element.dataset[key] = text;
    } else if (name === "value") {
      element.value = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  put(element, ...children);
  return element;
}

/** Appends children. Strings and numbers become text nodes. */
export function put(parent, ...children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return parent;
}

/** Replaces all children. */
export function fill(parent, ...children) {
  parent.replaceChildren();
  return put(parent, ...children);
}

let identifiers = 0;

/** Returns an id that is unique in the page. */
export function fresh(stem) {
  identifiers += 1;
  return `${stem}-${identifiers}`;
}

/** Returns a field with its label and an optional hint below. */
export function field(label, control, note) {
  control.id ||= fresh("field");
  const hint = note ? el("p", { class: "hint", id: fresh("hint") }, note) : null;
  if (hint) control.setAttribute("aria-describedby", hint.id);
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control, hint);
}

/** Returns a select element. Options are strings or [value, text] pairs. */
export function select(options, chosen, attributes = {}) {
  const control = el("select", attributes);
  for (const option of options) {
    const [value, text] = Array.isArray(option) ? option : [option, option];
    put(control, el("option", { value, selected: String(value) === String(chosen) }, text));
  }
  return control;
}

/** Returns a group of radio buttons that look like a switch. */
export function switcher(legend, options, chosen, pick) {
  const name = fresh("switch");
  return el(
    "fieldset",
    { class: "switcher" },
    el("legend", {}, legend),
    options.map(([value, text]) => {
      const input = el("input", {
        type: "radio",
        name,
        value,
        checked: value === chosen,
        on: { change: () => pick(value) },
      });
      return el("label", {}, input, el("span", {}, text));
    }),
  );
}

/** Returns an error message, with a button if `retry` is given. */
export function failure(message, retry) {
  return el(
    "div",
    { class: "notice bad", role: "alert" },
    el("p", {}, message),
    retry && el("button", { type: "button", on: { click: retry } }, "Try again"),
  );
}

/** Returns the text to show for an empty list. It has a title and suggests what to do. */
export function empty(title, ...more) {
  return el("div", { class: "empty" }, el("p", { class: "empty-title" }, title), more);
}

/** Returns a table with a hint to scroll if it is too wide. `rows` has lists of texts or elements; `numeric` has the indices of number columns. */
export function table(caption, head, rows, numeric = []) {
  const cell = (tag, content, column, more = {}) =>
    el(tag, { class: numeric.includes(column) ? "number" : null, ...more }, content);
  const hint = el("p", { class: "scroll-hint", hidden: true }, "Scroll sideways for more columns →");
  const box = el(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    el(
      "table",
      {},
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, head.map((text, column) => cell("th", text, column, { scope: "col" })))),
      el(
        "tbody",
        {},
        rows.map((row) =>
          el("tr", {}, row.map((content, column) => cell(column === 0 ? "th" : "td", content, column, column === 0 ? { scope: "row" } : {}))),
        ),
      ),
    ),
  );
  new ResizeObserver(() => {
    hint.hidden = box.scrollWidth <= box.clientWidth + 1;
  }).observe(box);
  return el("div", {}, hint, box);
}
