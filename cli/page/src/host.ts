// What the tabs of the panel share: what they may do to the page, and the stretch of time that is marked. It knows no tab.

import { Causes } from "./causes";
import { duration } from "./format";
import { Call, Marked, Source } from "./model";
import { Stage } from "./stage";

/** What a tab may do. */
export interface Host {
  readonly stage: Stage;
  readonly source: Source;
  readonly causes: Causes;
  search(text: string): void;
  select(trace: number, call: Call): void;
  /** Selects a call of which only function and time are known. */
  locate(trace: number, thread: number, of: number, since_first_ns: number): void;
  /** Selects the call of a thread that fills most of a stretch, in ticks: of a function, or of any. */
  go(trace: number, thread: number, name: string | null, from: number, to: number): void;
  /** Selects a task by its number; the tick is of one of its polls. */
  show_task(trace: number, task: string, at: number): void;
  /** Selects the event of a thread at a tick. */
  show_event(trace: number, thread: number, time: number): void;
  /** Shows the tab anew. */
  refresh(): void;
  /** Gives up what is asked for content that nobody wants any more. */
  readonly signal: AbortSignal;
  /** Whether the content that is being made is still wanted. */
  is_current(): boolean;
}

/** What is marked, of a trace; `null`: that time is not in it. */
export function marked(stage: Stage, trace: number): Marked | null {
  const { mark } = stage.view;
  if (!mark) return {};
  const shift = stage.shifts[trace] ?? 0;
  const [from, to] = [Math.round(mark[0] - shift), Math.round(mark[1] - shift)];
  if (to < 0) return null;
  return { from_ns: Math.max(from, 0), to_ns: to };
}

/** The stretch in words, and as options of a command. */
export function stretch(marked: Marked, whole: string): { words: string; options: string } {
  const { from_ns, to_ns } = marked;
  if (from_ns === undefined || to_ns === undefined) return { words: "the whole trace", options: whole };
  return { words: `${duration(to_ns - from_ns)} from ${duration(from_ns)} on`, options: `--since +${from_ns}ns --until +${to_ns}ns ` };
}
