// Several traces on one axis: how much later each of them is drawn. Their beginnings stand below each other, or their
// moments by the clock on the wall, or a chosen call of each.

import { duration } from "./format";
import { Call } from "./model";
import { Stage } from "./stage";

export type Alignment = "begin" | "clock" | "call";

export const ALIGNMENTS: [Alignment, string][] = [["begin", "beginnings aligned"], ["clock", "aligned by clocks"], ["call", "chosen calls aligned"]];

/** Ns by which each trace has to be later; text: why that is not known. */
export function shifts(stage: Stage, by: Alignment, chosen: (Call | undefined)[]): number[] | string {
  const { traces } = stage.info;
  if (by === "clock") {
    const begins = traces.map((trace) => trace.begin_unix_ns);
    if (begins.includes(null)) return "a trace does not say at which time of day it began";
    const first = begins.reduce((least, begin) => (BigInt(begin ?? 0) < BigInt(least ?? 0) ? begin : least));
    return begins.map((begin) => Number(BigInt(begin ?? 0) - BigInt(first ?? 0)));
  }
  if (by === "call") {
    if (traces.some((_, nth) => !chosen[nth])) return "select a call in each trace, then press L";
    const starts = traces.map((trace, nth) => stage.ns(trace, (chosen[nth]?.start ?? 0) - trace.begin));
    const last = Math.max(...starts);
    return starts.map((start) => last - start);
  }
  return traces.map(() => 0);
}

/** How exact the alignment by clocks is, in words. */
export function exactness(stage: Stage): string {
  const { traces } = stage.info;
  const errors = traces.map((trace) => trace.unix_error_ns);
  const sum = errors.reduce((sum: number, error) => sum + (error ?? 0), 0);
  const error = errors.includes(null) ? "a trace does not say how exact its clock is" : `to ${duration(sum)}`;
  const boots = new Set(traces.map((trace) => trace.boot));
  if (boots.size === 1 && !boots.has("")) return `aligned by the clock of one machine, ${error}`;
  return `aligned by clocks that may be of several machines, ${error} and as far as these agree`;
}

/** By what the traces are aligned now. */
export function alignment(stage: Stage): Alignment {
  const is = (other: number[] | string): boolean => typeof other !== "string" && other.every((ns, nth) => Math.abs(ns - (stage.shifts[nth] ?? 0)) < 1);
  if (is(shifts(stage, "begin", []))) return "begin";
  return is(shifts(stage, "clock", [])) ? "clock" : "call";
}
