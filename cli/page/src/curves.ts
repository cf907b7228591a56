// Counters as curves below the threads. A value holds until the next one is set. Where several values share a pixel, a
// line from the least to the greatest shows that they do, so that no spike is lost.

import { clean, count, shorten } from "./format";
import { Curve } from "./model";
import { CounterLane, GUTTER, Stage } from "./stage";

/** Pixels above and below a curve. */
const MARGIN = 5;

/** Gives the colours. */
export interface Pen {
  readonly context: CanvasRenderingContext2D;
  readonly stage: Stage;
  colour(name: string): string;
  fill(of: number): string;
}

/** A number as it was recorded, without digits that nobody reads. */
export function number(value: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value < 0 ? `-${count(-value)}` : count(value);
  return Number(value.toPrecision(6)).toString();
}

/** The bounds of a counter's axis: 0 is always seen. */
const bounds = (lane: CounterLane): [number, number] => {
  const [least, greatest] = [Math.min(lane.counter.least, 0), Math.max(lane.counter.greatest, 0)];
  return greatest > least ? [least, greatest] : [0, 1];
};

/** The place of the values that hold at a tick; -1: none was set by then. */
export function at(curve: Curve, tick: number): number {
  let [low, high] = [0, curve.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((curve.from[middle] ?? 0) <= tick) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** What a counter is at a place of the screen, in words. */
export function words(stage: Stage, lane: CounterLane, x: number): string {
  const { curve } = lane;
  const name = clean(stage.name(lane.trace, lane.counter.id)).slice(0, 400);
  if (!curve) return name;
  const tick = (x: number): number => stage.tick(lane.trace, stage.time(x));
  // Of values that are nearer than a pixel, the pointer means all.
  const [first, last] = [at(curve, tick(x - 1)), at(curve, tick(x + 1))];
  if (last < 0) return `${name}\nno value yet`;
  let [least, greatest, many] = [Infinity, -Infinity, 0];
  for (let nth = Math.max(first, 0); nth <= last; nth++) {
    least = Math.min(least, curve.least[nth] ?? 0);
    greatest = Math.max(greatest, curve.greatest[nth] ?? 0);
    many += curve.count[nth] ?? 0;
  }
  const value = number(curve.last[last] ?? 0);
  if (first === last && (curve.until[last] ?? 0) <= tick(x)) return `${name}: ${value}`;
  return many === 1 || least === greatest ? `${name}: ${value}` : `${name}: ${number(least)} to ${number(greatest)}, then ${value}\n${count(many)} values`;
}

/** What a counter was from one tick to another, in words; null: it had no value yet. */
export function during(curve: Curve, from: number, to: number): string | null {
  const [first, last] = [at(curve, from), at(curve, to)];
  if (last < 0) return null;
  const begin = first < 0 ? null : number(curve.last[first] ?? 0);
  if (first === last) return begin;
  let [least, greatest] = [Infinity, -Infinity];
  for (let nth = first + 1; nth <= last; nth++) {
    [least, greatest] = [Math.min(least, curve.least[nth] ?? 0), Math.max(greatest, curve.greatest[nth] ?? 0)];
  }
  const end = number(curve.last[last] ?? 0);
  const between = least === greatest ? "" : `${number(least)} to ${number(greatest)}, `;
  return `${begin ?? "no value"} at its begin, then ${between}${end} at its end`;
}

export function draw(pen: Pen, lane: CounterLane): void {
  const { context, stage } = pen;
  const top = stage.y(lane);
  const [least, greatest] = bounds(lane);
  const y = (value: number): number => top + lane.height - MARGIN - ((value - least) / (greatest - least)) * (lane.height - 2 * MARGIN);
  context.save();
  context.beginPath();
  context.rect(GUTTER, top, stage.width - GUTTER, lane.height);
  context.clip();
  if (lane.curve) path(pen, lane, lane.curve, stage.scale(lane.trace).x, y);
  context.restore();
  gutter(pen, lane, top);
}

function path(pen: Pen, lane: CounterLane, curve: Curve, x: (tick: number) => number, y: (value: number) => number): void {
  const { context, stage } = pen;
  const end = Math.min(x(stage.trace(lane.trace).end), stage.width + 2);
  const [line, area] = [new Path2D(), new Path2D()];
  const base = y(0);
  let last: number | null = null;
  for (let nth = 0; nth < curve.length; nth++) {
    const from = Math.max(x(curve.from[nth] ?? 0), GUTTER - 2);
    if (from > stage.width) break;
    const next = nth + 1 < curve.length ? x(curve.from[nth + 1] ?? 0) : end;
    const [low, high, value] = [y(curve.least[nth] ?? 0), y(curve.greatest[nth] ?? 0), y(curve.last[nth] ?? 0)];
    const until = Math.max(Math.min(next, stage.width + 2), from);
    if (until >= GUTTER - 2) {
      // From the value before, and over all values of the pixel.
      const [from_y, to_y] = last === null ? [low, high] : [Math.max(low, last), Math.min(high, last)];
      if (from_y - to_y > 0.5) {
        line.moveTo(from, from_y);
        line.lineTo(from, to_y);
      }
      line.moveTo(from, value);
      line.lineTo(until, value);
      area.rect(from, Math.min(value, base), until - from, Math.abs(base - value));
      if (high < low) area.rect(from - 0.5, high, 1, low - high);
    }
    last = value;
  }
  const colour = pen.fill(lane.counter.id);
  const found = stage.found_events[lane.trace];
  const strength = found && !found.has(lane.counter.id) ? 0.25 : 1;
  context.fillStyle = colour;
  context.globalAlpha = 0.3 * strength;
  context.fill(area);
  context.globalAlpha = strength;
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.stroke(line);
  context.globalAlpha = 1;
  context.lineWidth = 1;
}

function gutter(pen: Pen, lane: CounterLane, top: number): void {
  const { context, stage } = pen;
  context.fillStyle = pen.colour("raised");
  context.fillRect(0, top, GUTTER, lane.height);
  context.fillStyle = pen.colour("line");
  for (const y of [top - 1, top + lane.height - 1]) context.fillRect(0, y, stage.width, 1);
  context.save();
  context.beginPath();
  context.rect(0, top, GUTTER - 4, lane.height - 1);
  context.clip();
  context.fillStyle = pen.colour("text");
  context.font = "600 12px system-ui, sans-serif";
  context.fillText(shorten(clean(stage.name(lane.trace, lane.counter.id)), 60), 8, top + 14);
  context.fillStyle = pen.colour("soft");
  context.font = "11px system-ui, sans-serif";
  context.fillText(`counter, ${number(lane.counter.least)} to ${number(lane.counter.greatest)}`, 8, top + 30);
  context.restore();
}
