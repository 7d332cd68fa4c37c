// Scales that map values to positions on a chart, with their ticks.

import { digits } from "./format.js";

/**
 * Returns a linear scale that maps `low..high` to `from..to`. Its ends are widened to round values
 * unless `exact`.
 */
export function linear(low, high, from, to, most = 6, exact = false) {
  if (!(high > low)) high = low + (Math.abs(low) || 1);
  const step = roundStep((high - low) / most);
  if (!exact) {
    low = Math.floor(low / step + 1e-9) * step;
    high = Math.ceil(high / step - 1e-9) * step;
  }
  const place = (value) => from + ((value - low) / (high - low)) * (to - from);
  const ticks = [];
  for (let n = Math.ceil(low / step - 1e-9); n * step <= high + step * 1e-9; n += 1) ticks.push(n * step);
  return { place, ticks, low, high, text: (value) => digits(tidy(value, step), 4) };
}

/** Returns a logarithmic scale. Values at or below 0 are placed at its start. */
export function logarithmic(low, high, from, to) {
  low = Math.max(low, 1e-9);
  high = Math.max(high, low * 1.0001);
  let [bottom, top] = [Math.floor(Math.log10(low) + 1e-9), Math.ceil(Math.log10(high) - 1e-9)];
  if (top === bottom) top += 1;
  const decades = top - bottom;
  // A range of up to two decades has ticks at 1, 2 and 5.
  const marks = [];
  for (let decade = bottom; decade <= top; decade += 1) {
    for (const digit of decades <= 2 ? [1, 2, 5] : [1]) marks.push(digit * 10 ** decade);
  }
  const start = Math.max(...marks.filter((mark) => mark <= low * 1.0001), marks[0]);
  const end = Math.min(...marks.filter((mark) => mark >= high * 0.9999), marks[marks.length - 1]);
  const span = Math.log10(end / start) || 1;
  const place = (value) => from + (Math.log10(Math.max(value, start) / start) / span) * (to - from);
  const ticks = marks.filter((mark) => mark >= start && mark <= end);
  return { place, ticks, low: start, high: end, text: (value) => digits(value, 3) };
}

function roundStep(rough) {
  const decade = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((digit) => digit * decade).find((step) => step >= rough * 0.9999);
}

function tidy(value, step) {
  const decimals = Math.max(0, -Math.floor(Math.log10(step)));
  return Number(value.toFixed(Math.min(decimals, 12)));
}
