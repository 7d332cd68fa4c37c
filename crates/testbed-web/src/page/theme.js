// Colours, marks and the theme. The palette of Okabe and Ito (2008) can be read with colour vision
// deficiencies. In addition, each transport has its own mark and dash pattern.

export const LIGHT = {
  name: "light",
  ink: "#16202a",
  muted: "#4d5965",
  grid: "#dfe4e8",
  frame: "#8a949d",
  paper: "#ffffff",
  limit: "#16202a",
  garbler: "#0072b2",
  evaluator: "#d55e00",
};

export const DARK = {
  name: "dark",
  ink: "#e9eef2",
  muted: "#a9b4be",
  grid: "#2c353d",
  frame: "#6b7680",
  paper: "#161c22",
  limit: "#e9eef2",
  garbler: "#56b4e9",
  evaluator: "#e69f00",
};

const BLACK = { light: "#16202a", dark: "#f2f5f7" };

const KNOWN = {
  auto: { color: BLACK, mark: "star", dash: "", letter: "A" },
  tcp: { color: { light: "#0072b2", dark: "#3f9bd4" }, mark: "circle", dash: "", letter: "T" },
  "tcp-striped": { color: { light: "#56b4e9", dark: "#8fd0f5" }, mark: "square", dash: "7 3", letter: "S" },
  quic: { color: { light: "#d55e00", dark: "#ec7a24" }, mark: "triangle", dash: "2 3", letter: "Q" },
  rudp: { color: { light: "#009e73", dark: "#1fbd90" }, mark: "diamond", dash: "9 3 2 3", letter: "R" },
  udp: { color: { light: "#cc79a7", dark: "#dd93bb" }, mark: "down", dash: "4 2 1 2", letter: "U" },
};

const OTHERS = [
  { color: { light: "#e69f00", dark: "#f0b43c" }, mark: "cross", dash: "5 5" },
  { color: { light: "#8c6d00", dark: "#f0e442" }, mark: "plus", dash: "1 4" },
  { color: { light: "#6b4ba1", dark: "#b59ae0" }, mark: "square", dash: "12 4" },
];

/** Returns the colour and mark of a transport. They do not depend on its settings (`tcp-striped,flows=8`). */
export function styleOf(transport, theme) {
  const name = String(transport);
  const base = name.split(/[,+:]/)[0];
  let style = KNOWN[base];
  if (!style) {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
    style = { ...OTHERS[hash % OTHERS.length], letter: (name[0] ?? "?").toUpperCase() };
  }
  return { ...style, color: style.color[theme.name] };
}

/** Returns the colour and mark of the n-th series of a chart. */
export function styleNumber(number, theme) {
  const styles = [KNOWN.tcp, KNOWN.quic, KNOWN.rudp, KNOWN.udp, ...OTHERS, KNOWN["tcp-striped"]];
  const style = styles[number % styles.length];
  return { ...style, color: style.color[theme.name] };
}

// The phases of a party, in order. The phase of the tables overlaps others, because tables are
// streamed. Lightness increases with the order, so that neighbours can be distinguished without
// colour.
export const PHASES = {
  setup: { name: "connecting, handshake", light: "#4d5965", dark: "#7d8a96" },
  agree: { name: "agreement", light: "#0072b2", dark: "#3f9bd4" },
  labels: { name: "labels by oblivious transfer", light: "#e69f00", dark: "#f0b43c" },
  rest: { name: "up to the output", light: "#f0e442", dark: "#f5ec7a" },
  tables: { name: "first to last table", light: "#009e73", dark: "#1fbd90" },
};

const listeners = new Set();
const system = window.matchMedia("(prefers-color-scheme: dark)");
const KEY = "transpute-theme";

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

const CHOICES = ["light", "dark"];
let chosen = CHOICES.find((choice) => choice === stored()) ?? "system";

/** Returns the chosen theme: `light`, `dark` or `system`. */
export function themeChoice() {
  return chosen;
}

export function theme() {
  const choice = themeChoice();
  const dark = choice === "dark" || (choice === "system" && system.matches);
  return dark ? DARK : LIGHT;
}

export function setTheme(choice) {
  chosen = choice;
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // If the browser allows no storage, the choice lasts until the page is closed.
  }
  document.documentElement.dataset.theme = choice;
  for (const listener of listeners) listener();
}

/** Calls `listener` whenever the theme changes. Returns a function that removes it. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

document.documentElement.dataset.theme = themeChoice();
system.addEventListener("change", () => {
  for (const listener of listeners) listener();
});
