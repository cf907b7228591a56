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
  /** An event or a counter. */
  is_event: boolean;
  untimed: boolean;
}

/** A counter as a whole. */
export interface Counter {
  /** Its name, among the functions. */
  id: number;
  values: number;
  least: number;
  greatest: number;
  threads: number;
}

/** Values of a counter; those within a pixel are joined. */
export interface Curve {
  id: number;
  length: number;
  /** When the first of the joined values was set, and the last. */
  from: Float64Array;
  until: Float64Array;
  least: Float64Array;
  greatest: Float64Array;
  last: Float64Array;
  count: Float64Array;
  /** Values within so many ticks are joined, for want of memory. */
  coarse: number;
}

/** A poll of a task: a call. */
export interface TaskPoll extends Call {
  /** From 1. */
  number: number;
}

/** A task. Its number is text, because 53 bits are too few. */
export interface Task {
  task: string;
  function: number;
  parent: string | null;
  state: string;
  lane: number;
  /** Its first poll, and its end or that of the trace. */
  start: number;
  end: number;
  elapsed_ns: number;
  busy_ns: number;
  polls: number;
  /** Polls that are in the trace, or some of them; how many there are, and how many before the list. */
  list: TaskPoll[];
  known: number;
  before: number;
}

/** What ended the recording of a trace. */
export interface Ending {
  kind: "panic" | "crash" | "signal" | "trigger";
  /** Among the threads. */
  thread: number | null;
  /** The signal, the trigger with its event, or the message of the panic; empty in a file. */
  what: string;
  /** File, line and column of a panic. */
  place: string;
  /** The call that was too slow: its function, begin and end. */
  call: [string, number, number] | null;
}

/** A trace. Times are ticks since a moment near its beginning. */
export interface Trace {
  file: string;
  word: string;
  format: string;
  program: string;
  process: number | null;
  reason: string;
  ending: Ending | null;
  frequency: number;
  base: string;
  begin: number;
  end: number;
  /** As text: 53 bits are too few. */
  begin_unix_ns: string | null;
  /** By how much that may be wrong, by the trace's own clock. Null: it does not say. */
  unix_error_ns: number | null;
  /** The boot of the machine; empty: not known. */
  boot: string;
  has_times: boolean;
  has_states: boolean;
  has_cpus: boolean;
  progress: number;
  threads: Thread[];
  functions: Function[];
  moments: { name: string; time: number }[];
  counters: Counter[];
  /** Null: not all of the trace was read yet. */
  tasks: { tasks: number; lanes: number } | null;
  notes: string[];
}

export interface Info {
  version: string;
  /** Of a process that runs: the number of the snapshot. */
  snapshot: number | null;
  traces: Trace[];
}

/** Nothing. */
export const NO_SPANS = (): Spans => ({ length: 0, from: new Float64Array(), to: new Float64Array(), kind: new Uint32Array(), what: new Uint32Array() });

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
  /** Until when. */
  to: Float64Array;
  /** The state (3: not known); of a sign 0 gap, 1 break, 2 event. */
  kind: Uint32Array;
  /** CPU + 1; of a sign a name, or how many records are missing. */
  what: Uint32Array;
}

/** Waits for locks. */
export interface Waits {
  length: number;
  from: Float64Array;
  to: Float64Array;
  /** Place of the holder + 1; 0: not known. */
  holder: Uint32Array;
  /** Of the lock, and of the function that the holder was in; 0: not known. */
  name: Uint32Array;
  function: Uint32Array;
  /** How many are joined. */
  count: Uint32Array;
}

export const NO_WAITS = (): Waits => ({ length: 0, from: new Float64Array(), to: new Float64Array(), holder: new Uint32Array(), name: new Uint32Array(), function: new Uint32Array(), count: new Uint32Array() });

/** The events of one moment of a thread in words, and the neighbours in time. */
export interface Events {
  events: string[];
  previous: { thread: number; time: number } | null;
  next: { thread: number; time: number } | null;
}

/** What is drawn of a thread. */
export interface Picture {
  thread: number;
  rows: Row[];
  states: Spans;
  signs: Spans;
  /** On which CPU (what) it was, and how often it changed to come there (kind). */
  cpus: Spans;
  waits: Waits;
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
  /** Of a whole trace: the figures of the whole run, also of calls that are not in the trace any more. Null: not known. */
  whole_run: RowOfTable[] | null;
  duration_ns: number;
  records: number;
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
  /** The task of which it is a poll. */
  task: string | null;
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
  /** Of the calls with both edges in the trace. */
  shortest_ns: number | null;
  longest_ns: number | null;
  /** Lower and upper bound in ns, and calls. */
  buckets: [number, number, number][];
  previous: Call | null;
  next: Call | null;
  slowest: Call[];
}

export interface FlamePath {
  name: string;
  caller: number;
  own: number;
  total: number;
}

/** Paths of calls; the first is the root, and a caller comes before what it calls. */
export interface Flame {
  paths: FlamePath[];
  left_out: number;
}

/** A path of the call tree, behind its caller. */
export interface TreePath {
  name: string;
  /** Its place in the list. */
  caller: number | null;
  depth: number;
  /** 0: it stands for no function. */
  calls: number;
  total_ns: number;
  self_ns: number;
  /** Of all time. */
  share: number;
}

/** What `fdr report --tree --json` says. */
export interface Tree {
  all_ns: number;
  min_share: number;
  paths: TreePath[];
  paths_not_shown: number;
  not_shown_ns: number;
}

/** What `fdr slow --json` says of a call. */
export interface Finding {
  function: string;
  id: number;
  thread: number;
  since_first_ns: number | null;
  total_ns: number;
  /** Slow calls of the function. */
  slow_calls: number | null;
  /** Slow calls that this one stands for, with all their times. */
  same_cause: { calls: number; or_more: boolean; total_ns: number; times: number } | null;
  sentence: string;
  usual: { p50_ns: number };
  path: { function: string; total_ns: number; usual_ns: number; calls: number }[];
  wait: { waited_for: string; reason: string; waited_ns: number; holder: number | null; holder_function: string | null } | null;
  meanwhile: { thread: number; function: string } | null;
}

/** What `fdr slow --json` says. */
export interface Slow {
  calls: Finding[];
  /** Functions in which threads wait for work: their slow calls are left out. */
  waits_for_work: { function: string; calls: number; total_ns: number }[];
  /** What has to be said of the list. */
  note?: string;
}

/** Who answers the page's questions. */
export interface Source {
  readonly is_served: boolean;
  info(): Promise<Info>;
  /** A new snapshot of the process. */
  snapshot(): Promise<Info>;
  /** Pictures of threads. `found`: functions that are looked for give their colour to bars of joined calls. */
  lanes(trace: number, threads: number[], from: number, to: number, pixel: number, signal?: AbortSignal, found?: number[]): Promise<Picture[]>;
  /** The curves of all counters. */
  curves(trace: number, from: number, to: number, pixel: number, signal?: AbortSignal): Promise<Curve[]>;
  /** Lanes of tasks: the first row has the tasks, the second their polls. */
  tasks(trace: number, lanes: number[], from: number, to: number, pixel: number, signal?: AbortSignal): Promise<Picture[]>;
  /** A task: one with that number, or the one in a lane at a tick. Its list has the polls around the tick. */
  task(trace: number, wanted: string | number, at: number): Promise<Task>;
  /** The events of a thread at a tick. The neighbours are of those names; none: of all. */
  events(trace: number, thread: number, at: number, names: number[]): Promise<Events>;
  table(trace: number, marked: Marked, signal?: AbortSignal): Promise<Report>;
  flame(trace: number, marked: Marked, by: string, signal?: AbortSignal): Promise<Flame>;
  tree(trace: number, marked: Marked, signal?: AbortSignal): Promise<Tree>;
  slow(trace: number, marked: Marked, signal?: AbortSignal): Promise<Slow>;
  details(trace: number, call: Call): Promise<Details>;
  /** The slowest are those within what is marked. */
  survey(trace: number, functions: number[], at: Call | null, marked?: Marked, signal?: AbortSignal): Promise<Survey>;
  why(trace: number, call: Call): Promise<Slow>;
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
