// Waits for locks: a line above the calls of the thread that waited, and an arrow to the lane of the thread that held the
// lock when the wait began.

import { Pen } from "./curves";
import { clean, duration, things } from "./format";
import { Picture, place, Waits } from "./model";
import { GUTTER, Lane, Scale, Stage } from "./stage";

/** Pixels of the line, and of its distance from the calls. */
const LINE = 3;
/** Waits that are narrower have no arrow, px. */
const ARROW = 16;

/** The top of the line. */
const top_of = (stage: Stage, lane: Lane): number => stage.y(lane) + stage.head(stage.trace(lane.trace)) - LINE - 1;

export function draw(pen: Pen, lane: Lane, { waits }: Picture, { first, x }: Scale): void {
  const { context, stage } = pen;
  context.fillStyle = pen.colour("wait");
  for (let nth = place(waits.to, first); nth < waits.length; nth++) {
    const from = x(waits.from[nth] ?? 0);
    if (from > stage.width) break;
    // Whole pixels: a part of a pixel would be pale.
    const left = Math.floor(from);
    context.fillRect(left, top_of(stage, lane), Math.max(Math.round(x(waits.to[nth] ?? 0)) - left, 1), LINE);
  }
}

/** The arrows of a lane, over all lanes. They end at the edge if the holder's lane is not on the screen. */
export function arrows(pen: Pen, lane: Lane): void {
  const { context, stage } = pen;
  const waits = lane.picture?.waits;
  if (!waits || waits.length === 0) return;
  const { first, x } = stage.scale(lane.trace);
  context.strokeStyle = context.fillStyle = pen.colour("wait");
  context.lineWidth = 1.5;
  const y = top_of(stage, lane) + 1;
  for (let nth = place(waits.to, first); nth < waits.length; nth++) {
    const [from, to] = [x(waits.from[nth] ?? 0), x(waits.to[nth] ?? 0)];
    if (from > stage.width) break;
    const holder = stage.lanes.find((other) => other.trace === lane.trace && other.thread + 1 === waits.holder[nth]);
    if (!holder || to - from < ARROW || from < GUTTER) continue;
    const there = top_of(stage, holder) + (holder.top > lane.top ? 0 : LINE + 1);
    const down = there > y ? 1 : -1;
    context.beginPath();
    context.moveTo(from + 0.75, y);
    context.lineTo(from + 0.75, there - down * 5);
    context.stroke();
    context.beginPath();
    context.moveTo(from + 0.75, there);
    context.lineTo(from - 3.25, there - down * 6);
    context.lineTo(from + 4.75, there - down * 6);
    context.fill();
  }
  context.lineWidth = 1;
}

/** The wait below a point. */
export function wait_at(stage: Stage, x: number, y: number): { lane: Lane; waits: Waits; nth: number } | null {
  const lane = x < GUTTER ? null : stage.strip_at(stage.lanes, y);
  const waits = lane?.picture?.waits;
  if (!lane || !waits) return null;
  const below = y - top_of(stage, lane);
  if (below < -1 || below > LINE) return null;
  const tick = (x: number): number => stage.tick(lane.trace, stage.time(x));
  const nth = place(waits.to, tick(x - 1));
  return nth < waits.length && (waits.from[nth] ?? Infinity) <= tick(x + 1) ? { lane, waits, nth } : null;
}

/** What is told of the wait below a point. */
export function words(stage: Stage, x: number, y: number): string | null {
  const found = wait_at(stage, x, y);
  if (!found) return null;
  const { lane, waits, nth } = found;
  const trace = stage.trace(lane.trace);
  const time = duration(stage.ns(trace, (waits.to[nth] ?? 0) - (waits.from[nth] ?? 0)));
  const name = (of: number | undefined, none: string): string => (of ? clean(stage.name(lane.trace, of)).slice(0, 200) : none);
  const lock = name(waits.name[nth], "a lock without a name");
  const count = waits.count[nth] ?? 1;
  if (count > 1) return `${things(count, "wait")} for locks in ${time}, too short to draw; the longest: ${lock}`;
  const holder = trace.threads[(waits.holder[nth] ?? 0) - 1];
  const held = holder ? `held by ${clean(holder.name).slice(0, 100)} (thread ${holder.id}), in ${name(waits.function[nth], "no recorded function")}: a click shows it` : "its holder is not known";
  return `waited ${time} for ${lock}\n${held}`;
}
