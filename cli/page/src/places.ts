// Finds calls of which only a thread, a time and perhaps a function are known.

import { Call, CALLS, Picture, SHORT, Source } from "./model";
import { Stage } from "./stage";

/** What a call has to be. */
interface Wanted {
  trace: number;
  thread: number;
  from: number;
  to: number;
}

/** All calls of a picture that are drawn alone. */
function* calls(picture: Picture | undefined): Generator<Call> {
  for (const [depth, row] of (picture?.rows ?? []).entries()) {
    for (let nth = 0; nth < row.length; nth++) {
      const count = row.count[nth] ?? 0;
      const of = row.function[nth] ?? 0;
      if ((count & CALLS) !== 1 || of === SHORT) continue;
      yield { thread: picture?.thread ?? 0, depth, start: row.start[nth] ?? 0, end: row.end[nth] ?? 0, function: of, flags: (count & ~CALLS) >>> 0 };
    }
  }
}

/** The call of a function that begins then. */
export async function beginning(stage: Stage, source: Source, trace: number, thread: number, of: number, since_first_ns: number): Promise<Call | null> {
  const { begin, frequency } = stage.trace(trace);
  const tick = begin + (since_first_ns * frequency) / 1e9;
  const slack = Math.max(frequency / 1e9, 1) * 2;
  const [picture] = await source.lanes(trace, [thread], tick - slack, tick + slack, 0);
  for (const call of calls(picture)) if (call.function === of && Math.abs(call.start - tick) <= slack) return call;
  return null;
}

/** The call that fills most of a stretch: the innermost of those that fill nearly as much. */
export async function filling(stage: Stage, source: Source, wanted: Wanted, name: string | null): Promise<Call | null> {
  const { trace, thread, from, to } = wanted;
  const [picture] = await source.lanes(trace, [thread], from, to, (to - from) / 20_000);
  const part = (call: Call): number => Math.min(call.end, to) - Math.max(call.start, from);
  const found = [...calls(picture)].filter((call) => part(call) > 0 && (name === null || stage.name(trace, call.function) === name));
  const most = Math.max(...found.map(part));
  const near = found.filter((call) => part(call) >= most * 0.9);
  return near.reduce<Call | null>((best, call) => (best && best.depth >= call.depth ? best : call), null);
}

/** The longest call that a call made. */
export async function longest_inside(source: Source, trace: number, around: Call): Promise<Call | null> {
  const { thread, start, end, depth } = around;
  const [picture] = await source.lanes(trace, [thread], start, end, (end - start) / 20_000);
  let best: Call | null = null;
  for (const call of calls(picture)) {
    const is_inside = call.depth === depth + 1 && call.start >= start && call.end <= end;
    if (is_inside && (!best || call.end - call.start > best.end - best.start)) best = call;
  }
  return best;
}
