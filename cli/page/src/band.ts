// The band above a thread's calls: its states, and a thin tick where it came to another CPU.

import { duration, moment, things } from "./format";
import { Pen } from "./curves";
import { Picture, place, Spans } from "./model";
import { GUTTER, has_band, Lane, Scale, Stage } from "./stage";

const STATES = ["running", "preempted", "waiting", "unknown"];
const WORDS = ["running", "preempted", "waiting", "its state is not known"];
/** Pixels of the band. */
const BAND = 5;

export function draw(pen: Pen, picture: Picture, { first, x }: Scale, y: number): void {
  const { context, stage } = pen;
  const { states, cpus } = picture;
  for (let nth = place(states.to, first); nth < states.length; nth++) {
    const from = x(states.from[nth] ?? 0);
    if (from > stage.width) break;
    const to = x(states.to[nth] ?? 0);
    context.fillStyle = pen.colour(STATES[states.kind[nth] ?? 3] ?? "unknown");
    context.fillRect(from, y, Math.max(to - from, 0.5), BAND);
  }
  context.font = "9px system-ui, sans-serif";
  for (let nth = Math.max(place(cpus.from, first) - 1, 0); nth < cpus.length; nth++) {
    const from = x(cpus.from[nth] ?? 0);
    if (from > stage.width) break;
    const to = Math.min(x(cpus.to[nth] ?? 0), stage.width);
    // A thin line: also where no state is known, a CPU is seen.
    context.fillStyle = pen.colour("line");
    context.fillRect(from, y + BAND, Math.max(to - from, 1), 1);
    context.fillStyle = pen.colour("text");
    if ((cpus.kind[nth] ?? 0) > 0) context.fillRect(from - 0.5, y - 1, 1, BAND + 2);
    // The number stays where it can be read while the stay is on the screen.
    if (to - Math.max(from, GUTTER) > 44) {
      context.fillStyle = pen.colour("soft");
      context.fillText(`CPU ${cpus.what[nth]}`, Math.max(from, GUTTER) + 6, y + BAND + 5);
    }
  }
}

/** What the band says at a place of the screen, in words. */
export function words(stage: Stage, lane: Lane, x: number, y: number): string | null {
  const trace = stage.trace(lane.trace);
  const { picture } = lane;
  const below = y - stage.y(lane);
  if (!picture || !has_band(trace) || below < 0 || below > BAND + 5) return null;
  const tick = stage.tick(lane.trace, stage.time(x));
  const at = (spans: Spans): number => place(spans.to, tick);
  const time = (spans: Spans, nth: number): number => stage.ns(trace, (spans.to[nth] ?? 0) - (spans.from[nth] ?? 0));
  const found: string[] = [];
  const state = state_at(stage, lane, tick);
  if (state) found.push(state);
  const is_off = /waiting|preempted/.test(state ?? "");
  const cpu = at(picture.cpus);
  if ((picture.cpus.from[cpu] ?? Infinity) <= tick) {
    const changes = picture.cpus.kind[cpu] ?? 0;
    const ns = time(picture.cpus, cpu);
    found.push(is_off ? `last on CPU ${picture.cpus.what[cpu]}` : `CPU ${picture.cpus.what[cpu]}${Number.isFinite(ns) ? ` for ${duration(ns)}` : ""}${changes > 1 ? `, after ${things(changes, "change")} near to each other` : ""}`);
  }
  return found.length > 0 ? found.join("\n") : null;
}

/** The state of a thread at a tick, in words: for how long, and since when. */
export function state_at(stage: Stage, lane: Lane, tick: number): string | null {
  const states = lane.picture?.states;
  if (!states) return null;
  const nth = place(states.to, tick);
  const from = states.from[nth] ?? Infinity;
  if (from > tick) return null;
  const trace = stage.trace(lane.trace);
  const ticks = (states.to[nth] ?? from) - from;
  const since = stage.ns(trace, from - trace.begin);
  // States that are shorter than a pixel are joined, and the longest gives its name.
  const is_joined = ticks < lane.pixel;
  return `${is_joined ? "mostly " : ""}${WORDS[states.kind[nth] ?? 3]} for ${duration(stage.ns(trace, ticks))}, since ${moment(since, since / 1e4)}`;
}
