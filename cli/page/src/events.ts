// Events: what is told of them at the pointer, and the tab that tells of the selected event, or of a counter at a moment.

import { at as value_at, number } from "./curves";
import { el } from "./dom";
import { clean, count, moment, things } from "./format";
import { Host } from "./host";
import { place } from "./model";
import { GUTTER, has_band, Lane, Stage } from "./stage";

/** Pixels around a sign that mean it. */
const NEAR = 5;

/** The event nearest to a point: its lane, its name and its tick. */
export function event_at(stage: Stage, x: number, y: number): { lane: Lane; name: number; tick: number } | null {
  const lane = x < GUTTER ? null : stage.strip_at(stage.lanes, y);
  const signs = lane?.picture?.signs;
  if (!lane || !signs) return null;
  const below = y - stage.y(lane) - (has_band(stage.trace(lane.trace)) ? 8 : 2);
  if (below < 0 || below > 8) return null;
  const tick = (x: number): number => stage.tick(lane.trace, stage.time(x));
  let best: { lane: Lane; name: number; tick: number } | null = null;
  for (let nth = place(signs.from, tick(x - NEAR)); nth < signs.length && (signs.from[nth] ?? 0) <= tick(x + NEAR); nth++) {
    const at = signs.from[nth] ?? 0;
    const is_nearer = !best || Math.abs(at - tick(x)) < Math.abs(best.tick - tick(x));
    if (signs.kind[nth] === 2 && is_nearer) best = { lane, name: signs.what[nth] ?? 0, tick: at };
  }
  return best;
}

/** What is told of the event at a point. */
export function words(stage: Stage, x: number, y: number): string | null {
  const found = event_at(stage, x, y);
  if (!found) return null;
  const { lane, name, tick } = found;
  const trace = stage.trace(lane.trace);
  const at = stage.ns(trace, tick - trace.begin);
  return `event ${clean(stage.name(lane.trace, name)).slice(0, 400)}\nat ${moment(at, at / 1e6)}: a click shows its values`;
}

/** The tab. */
export async function event(host: Host): Promise<Node[]> {
  const { stage, source } = host;
  const selected = stage.view.event;
  if (!selected) return [el("p", { class: "soft" }, "No event is selected: click on one, or on the curve of a counter.")];
  const { trace: nth, thread, counter, time } = selected;
  const trace = stage.trace(nth);
  const at = stage.ns(trace, time - trace.begin);
  const list = (facts: [string, string | null][]): HTMLElement =>
    el("dl", {}, ...facts.filter(([, value]) => value !== null).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value ?? "")]));
  const when = `${moment(at, at / 1e6)} after the trace's first record`;
  if (counter !== null) {
    const known = trace.counters.find((known) => known.id === counter);
    const [curve] = (await source.curves(nth, time, time, 0)).filter((curve) => curve.id === counter);
    const last = curve ? value_at(curve, time) : -1;
    const since = curve && last >= 0 ? stage.ns(trace, (curve.until[last] ?? 0) - trace.begin) : null;
    return [el("h2", { tabindex: -1 }, `counter ${clean(stage.name(nth, counter)).slice(0, 300)}`), list([
      ["value", curve && last >= 0 ? number(curve.last[last] ?? 0) : "no value yet"],
      ["at", when],
      ["set", since === null ? null : `${moment(since, since / 1e6)} after the trace's first record`],
      ["of the whole trace", known ? `${number(known.least)} to ${number(known.greatest)}, ${things(known.values, "value")} of ${things(known.threads, "thread")}` : null],
    ])];
  }
  const names = [...(stage.found_events[nth] ?? [])];
  const found = await source.events(nth, thread, time, names);
  const of = trace.threads[thread];
  const go = (text: string, to: { thread: number; time: number } | null): HTMLElement =>
    el("button", { disabled: to === null, "data-key": text, onclick: () => to && host.show_event(nth, to.thread, to.time) }, text);
  const title = names.length > 0 ? ` of ${count(names.length)} searched` : "";
  return [
    el("h2", { tabindex: -1 }, "event"),
    el("div", { class: "buttons" }, go("← previous event", found.previous), go("next event →", found.next), el("span", { class: "soft" }, title)),
    list([
      [found.events.length > 1 ? "events" : "event", found.events.length > 0 ? found.events.map(clean).join("\n") : "this file has no values of events"],
      ["thread", `${clean(of?.name ?? "")} (thread ${of?.id})`],
      ["at", when],
    ]),
  ];
}
