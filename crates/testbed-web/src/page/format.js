// Formatting of numbers with their units.

/** Formats a number with three significant digits, grouped and without an exponent. */
export function digits(value, significant = 3) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const decimals = size === 0 ? 0 : Math.max(0, significant - 1 - Math.floor(Math.log10(size)));
  return value.toLocaleString("en", { maximumFractionDigits: Math.min(decimals, 6) });
}

export function count(value) {
  return Number.isFinite(value) ? Math.round(value).toLocaleString("en") : "–";
}

/** Formats milliseconds as µs, ms, s, min or h. */
export function duration(ms) {
  if (!Number.isFinite(ms)) return "–";
  if (ms !== 0 && ms < 0.1) return `${digits(ms * 1000)} µs`;
  if (ms < 1000) return `${digits(ms)} ms`;
  if (ms < 120_000) return `${digits(ms / 1000)} s`;
  if (ms < 7_200_000) return `${digits(ms / 60_000)} min`;
  return `${digits(ms / 3_600_000)} h`;
}

export function bytes(value) {
  if (!Number.isFinite(value)) return "–";
  if (value < 1000) return `${count(value)} B`;
  if (value < 1e6) return `${digits(value / 1e3)} kB`;
  if (value < 1e9) return `${digits(value / 1e6)} MB`;
  return `${digits(value / 1e9)} GB`;
}

/** Formats Mbit/s as kbit/s, Mbit/s or Gbit/s. A null rate means no bottleneck. */
export function rate(mbit) {
  if (mbit === null || mbit === undefined) return "no limit";
  if (mbit < 1) return `${digits(mbit * 1e3)} kbit/s`;
  if (mbit < 1000) return `${digits(mbit)} Mbit/s`;
  return `${digits(mbit / 1e3)} Gbit/s`;
}

/** Formats a probability in percent. */
export function percent(fraction) {
  return `${digits(fraction * 100)} %`;
}

/** Formats by how many percent a ratio exceeds 1. */
export function more(ratio) {
  return `${digits((ratio - 1) * 100, 2)} %`;
}

export function times(ratio) {
  return Number.isFinite(ratio) ? `${digits(ratio)} ×` : "–";
}

/** Formats a Unix time in milliseconds as local date and time. */
export function moment(ms) {
  const date = new Date(ms);
  const two = (number) => String(number).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}`;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

export function median(values) {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (sorted.length === 0) return NaN;
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
