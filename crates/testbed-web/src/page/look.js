// Colours and marks. The palette of Okabe and Ito (2008) stays distinct for people who do not see
// all colours; every transport has a mark, a dash and a hatch of its own besides.

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

/** Returns how a transport looks: the same everywhere, settings included (`tcp-striped,flows=8`). */
export function lookOf(transport, theme) {
  const name = String(transport);
  const base = name.split(/[,+:]/)[0];
  let look = KNOWN[base];
  if (!look) {
    let hash = 0;
    for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
    look = { ...OTHERS[hash % OTHERS.length], letter: (name[0] ?? "?").toUpperCase() };
  }
  return { ...look, color: look.color[theme.name] };
}

/** Returns how the n-th of any series looks. */
export function lookNumber(number, theme) {
  const looks = [KNOWN.tcp, KNOWN.quic, KNOWN.rudp, KNOWN.udp, ...OTHERS, KNOWN["tcp-striped"]];
  const look = looks[number % looks.length];
  return { ...look, color: look.color[theme.name] };
}

// What a party does, in order; the tables stream beside it. Lightness rises with the order, so that
// neighbours are told apart in grey, too.
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

/** What was chosen: `light`, `dark`, or `system`. */
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
    // Without storage the choice lasts until the page is left.
  }
  document.documentElement.dataset.theme = choice;
  for (const listener of listeners) listener();
}

/** Calls back whenever the colours change; returns how to stop that. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

document.documentElement.dataset.theme = themeChoice();
system.addEventListener("change", () => {
  for (const listener of listeners) listener();
});
