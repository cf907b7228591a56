// The band above a thread's calls: its states, and a thin tick where it came to another CPU.

import { duration, things } from "./format";
import { Pen } from "./curves";
import { Picture, place, Spans } from "./model";
import { AXIS, GUTTER, has_band, Lane, Stage } from "./stage";

const STATES = ["running", "preempted", "waiting", "unknown"];
const WORDS = ["running", "preempted", "waiting", "its state is not known"];
/** Pixels of the band. */
const BAND = 5;

export function draw(pen: Pen, picture: Picture, x: (tick: number) => number, y: number): void {
  const { context, stage } = pen;
  const { states, cpus } = picture;
  const zero = x(0);
  const first = (GUTTER - zero) / (x(1) - zero);
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
  const below = y - AXIS + stage.view.scroll - lane.top;
  if (!picture || !has_band(trace) || below < 0 || below > BAND + 5) return null;
  const tick = stage.tick(lane.trace, stage.time(x));
  const at = (spans: Spans): number => place(spans.to, tick);
  const time = (spans: Spans, nth: number): number => stage.ns(trace, (spans.to[nth] ?? 0) - (spans.from[nth] ?? 0));
  const found: string[] = [];
  const state = at(picture.states);
  if ((picture.states.from[state] ?? Infinity) <= tick) found.push(`${WORDS[picture.states.kind[state] ?? 3]} for ${duration(time(picture.states, state))}`);
  const cpu = at(picture.cpus);
  if ((picture.cpus.from[cpu] ?? Infinity) <= tick) {
    const changes = picture.cpus.kind[cpu] ?? 0;
    const ns = time(picture.cpus, cpu);
    found.push(`CPU ${picture.cpus.what[cpu]}${Number.isFinite(ns) ? ` for ${duration(ns)}` : ""}${changes > 1 ? `, after ${things(changes, "change")} near to each other` : ""}`);
  }
  return found.length > 0 ? found.join("\n") : null;
}
