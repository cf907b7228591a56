// What the page knows of traces, and whom it asks: a server, or the data inside the page itself.

export interface Thread {
  id: number;
  name: string;
  process: number | null;
  depth: number;
  calls: number;
  first: number | null;
  last: number;
  overwritten: number;
  dropped: number;
  has_failed: boolean;
}

export interface Function {
  id: number;
  name: string;
  file: string;
  line: number;
  is_called: boolean;
  untimed: boolean;
}

/** A trace. Times are ticks since a moment near its beginning. */
export interface Trace {
  file: string;
  word: string;
  format: string;
  program: string;
  process: number | null;
  reason: string;
  frequency: number;
  base: string;
  begin: number;
  end: number;
  begin_unix_ns: number | null;
  has_times: boolean;
  has_states: boolean;
  progress: number;
  threads: Thread[];
  functions: Function[];
  moments: { name: string; time: number }[];
  notes: string[];
}

export interface Info {
  version: string;
  /** Of a process that runs: the number of the snapshot. */
  snapshot: number | null;
  traces: Trace[];
}

/** Calls of one depth, as arrays. */
export interface Row {
  length: number;
  start: Float64Array;
  end: Float64Array;
  function: Uint32Array;
  /** How many calls, and the flags. */
  count: Uint32Array;
}

export const CLIPPED = 0x8000_0000;
export const OPEN = 0x4000_0000;
export const CALLS = 0x3fff_ffff;
/** The function of calls that left no records. */
export const SHORT = 0xffff_ffff;

export interface Spans {
  length: number;
  from: Float64Array;
  /** Until when; of a counter its value. */
  to: Float64Array;
  /** The state (3: not known); of a sign 0 gap, 1 break, 2 event, 3 counter. */
  kind: Uint32Array;
  /** CPU + 1; of a sign a name, or how many records are missing. */
  what: Uint32Array;
}

/** What is drawn of a thread. */
export interface Picture {
  thread: number;
  rows: Row[];
  states: Spans;
  signs: Spans;
  /** Until when the thread was read; NaN: all of it. */
  until: number;
  /** Calls of fewer ticks are joined, for want of memory. */
  coarse: number;
}

export interface RowOfTable {
  id: number;
  name: string;
  calls: number;
  clipped: number;
  total_ns: number | null;
  self_ns: number | null;
  min_ns: number | null;
  mean_ns: number | null;
  p50_ns: number | null;
  p99_ns: number | null;
  max_ns: number | null;
}

export interface Report {
  functions: RowOfTable[];
  duration_ns: number;
  records: number;
  diagnostics: unknown[];
  /** What has to be said of the figures, if they are not those of `fdr report`. */
  note?: string;
}

/** A stretch of a trace, in ns since its first record; threads by their places, none: all. */
export interface Marked {
  from_ns?: number;
  to_ns?: number;
  threads?: number[];
}

/** One call. */
export interface Call {
  thread: number;
  depth: number;
  start: number;
  end: number;
  function: number;
  flags: number;
}

/** What is known of a call beside its place. */
export interface Details {
  total_ns: number;
  self_ns: number | null;
  calls_inside: number;
  states: { running_ns: number; preempted_ns: number; waiting_ns: number; unknown_ns: number } | null;
  cpu: number | null;
  cpu_changes: number;
  arguments: string[];
}

/** Calls of some functions, and where one of them is among them. */
export interface Survey {
  calls: number;
  /** Calls with both edges in the trace. */
  measured: number;
  /** Those before the call that is asked about, in time. */
  before: number;
  longer: number;
  equal: number;
  /** Upper and lower bound in ns, and calls. */
  buckets: [number, number, number][];
  previous: Call | null;
  next: Call | null;
  slowest: Call[];
}

/** Paths of calls; the first is the root, and a caller comes before what it calls. */
export interface Flame {
  paths: { name: string; caller: number; own: number; total: number }[];
  left_out: number;
}

/** What `fdr slow --json` says. */
export interface Slow {
  calls: { function: string; id: number; thread: number; since_first_ns: number | null; total_ns: number; sentence: string; usual: { p50_ns: number }; path: { function: string; total_ns: number; usual_ns: number; calls: number }[] }[];
}

/** Who answers the page's questions. */
export interface Source {
  readonly is_served: boolean;
  info(): Promise<Info>;
  /** A new snapshot of the process. */
  snapshot(): Promise<Info>;
  lanes(trace: number, threads: number[], from: number, to: number, pixel: number): Promise<Picture[]>;
  table(trace: number, marked: Marked): Promise<Report>;
  flame(trace: number, marked: Marked, by: string): Promise<Flame>;
  slow(trace: number, marked: Marked): Promise<Slow>;
  details(trace: number, call: Call): Promise<Details>;
  survey(trace: number, functions: number[], at: Call | null): Promise<Survey>;
  why(trace: number, call: Call): Promise<Slow>;
}

/** The pictures in an answer; `put` of the server's `api.rs` has the order. */
export function pictures(bytes: ArrayBuffer): Picture[] {
  const view = new DataView(bytes);
  let at = 0;
  const u32 = (): number => ((at += 4), view.getUint32(at - 4, true));
  const f64 = (): number => ((at += 8), view.getFloat64(at - 8, true));
  const list = (): [number, Float64Array, Float64Array, Uint32Array, Uint32Array] => {
    const length = u32();
    const [one, other] = [new Float64Array(length), new Float64Array(length)];
    const [third, fourth] = [new Uint32Array(length), new Uint32Array(length)];
    for (let nth = 0; nth < length; nth++) {
      one[nth] = f64();
      other[nth] = f64();
      third[nth] = u32();
      fourth[nth] = u32();
    }
    return [length, one, other, third, fourth];
  };
  const spans = (): Spans => {
    const [length, from, to, kind, what] = list();
    return { length, from, to, kind, what };
  };
  const found: Picture[] = [];
  while (at < view.byteLength) {
    const thread = u32();
    const depths = u32();
    const until = f64();
    const coarse = f64();
    const rows: Row[] = [];
    for (let depth = 0; depth < depths; depth++) {
      const [length, start, end, of, count] = list();
      rows.push({ length, start, end, function: of, count });
    }
    found.push({ thread, until, coarse, rows, states: spans(), signs: spans() });
  }
  return found;
}

/** The first place of a sorted list that is not below a value. */
export function place(list: Float64Array, value: number): number {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((list[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
