// The lanes of all threads under one axis: which part of which thread is wanted, what is there of it, and where a call is
// on the screen. Drawing itself is in draw.ts.

import { Call, CALLS, Info, Picture, place, Source, Trace } from "./model";
import { View } from "./view";

export const GUTTER = 180;
export const AXIS = 64;
export const ROW = 16;
const MOST_ROWS = 24;

/** A thread on the screen. */
export interface Lane {
  trace: number;
  thread: number;
  /** From the top of the first lane. */
  top: number;
  height: number;
  rows: number;
  is_open: boolean;
  picture: Picture | null;
  /** Of which part the picture is, in ticks. */
  from: number;
  to: number;
  pixel: number;
  /** How much of the trace was read then. */
  progress: number;
}

export class Stage {
  lanes: Lane[] = [];
  /** Whole threads, for the overview. */
  overview = new Map<string, Picture>();
  width = 100;
  height = 100;
  /** Ns by which a trace is later on the axis. */
  shifts: number[] = [];
  /** Functions that the search found, by trace. */
  found: Set<number>[] = [];
  /** Names of functions by trace and number. */
  names: Map<number, string>[] = [];
  private busy = false;
  private again = false;

  constructor(
    public info: Info,
    readonly view: View,
    private readonly source: Source,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
  ) {
    this.update(info);
  }

  /** What is known of the traces has grown. */
  update(info: Info): void {
    this.info = info;
    const known = new Map(this.lanes.map((lane) => [`${lane.trace}/${lane.thread}`, lane]));
    this.lanes = [];
    let top = 0;
    info.traces.forEach((trace, nth) => {
      this.shifts[nth] ??= 0;
      this.names[nth] ??= new Map(trace.functions.map((of) => [of.id, of.name]));
      // The one that failed, then those with calls, in the order of the trace.
      const order = trace.threads.map((_, thread) => thread);
      order.sort((one, other) => Number(trace.threads[other]?.has_failed) - Number(trace.threads[one]?.has_failed) || one - other);
      for (const thread of order) {
        const lane: Lane = known.get(`${nth}/${thread}`) ?? {
          trace: nth, thread, top, height: 0, rows: 0, is_open: false, picture: null, from: 0, to: 0, pixel: 0, progress: 0,
        };
        const depth = Math.max(trace.threads[thread]?.depth ?? 0, 1);
        lane.rows = lane.is_open ? depth : Math.min(depth, MOST_ROWS);
        lane.top = top;
        lane.height = this.head(trace) + lane.rows * ROW + 8;
        top += lane.height;
        this.lanes.push(lane);
      }
    });
  }

  /** The traces are others; which rows are open is kept by thread. */
  replace(info: Info): void {
    const open = new Set(this.lanes.filter((lane) => lane.is_open).map((lane) => this.trace(lane.trace).threads[lane.thread]?.id));
    this.lanes = [];
    this.names = [];
    this.overview.clear();
    this.update(info);
    for (const lane of this.lanes) lane.is_open = open.has(this.trace(lane.trace).threads[lane.thread]?.id);
    this.update(info);
  }

  /** Pixels of a lane above its calls: states and events. */
  head(trace: Trace): number {
    return (trace.has_states ? 6 : 0) + 10;
  }

  trace(nth: number): Trace {
    const trace = this.info.traces[nth];
    if (!trace) throw new Error(`no trace ${nth}`);
    return trace;
  }

  name(trace: number, of: number): string {
    return this.names[trace]?.get(of) || `#${of}`;
  }

  /** The end of all traces on the axis. */
  get end(): number {
    const ends = this.info.traces.map((trace, nth) => (this.shifts[nth] ?? 0) + this.ns(trace, trace.end - trace.begin));
    return Math.max(1, ...ends);
  }

  ns(trace: Trace, ticks: number): number {
    return (ticks * 1e9) / trace.frequency;
  }

  /** Ns on the axis of a tick of a trace. */
  at(nth: number, tick: number): number {
    const trace = this.trace(nth);
    return (this.shifts[nth] ?? 0) + this.ns(trace, tick - trace.begin);
  }

  /** The tick of a trace at a place of the axis. */
  tick(nth: number, ns: number): number {
    const trace = this.trace(nth);
    return trace.begin + ((ns - (this.shifts[nth] ?? 0)) * trace.frequency) / 1e9;
  }

  x(ns: number): number {
    return GUTTER + ((ns - this.view.from) / (this.view.to - this.view.from)) * (this.width - GUTTER);
  }

  time(x: number): number {
    return this.view.from + ((x - GUTTER) / (this.width - GUTTER)) * (this.view.to - this.view.from);
  }

  /** Zooms: what is at that time stays where it is. */
  zoom(factor: number, at: number): void {
    const { view } = this;
    const most = this.end * 1.5 + 1000;
    const width = Math.min(Math.max((view.to - view.from) * factor, 10), most);
    const share = (at - view.from) / (view.to - view.from);
    this.show(at - share * width, at + (1 - share) * width);
  }

  show(from: number, to: number): void {
    const margin = (to - from) / 2;
    const shift = Math.min(0, this.end + margin - to) + Math.max(0, -margin - from);
    [this.view.from, this.view.to] = [from + shift, to + shift];
    this.changed();
  }

  fit(): void {
    this.show(0, this.end);
  }

  scroll(by: number): void {
    const last = this.lanes.at(-1);
    const all = last ? last.top + last.height : 0;
    const most = Math.max(0, all - (this.height - AXIS));
    this.view.scroll = Math.min(Math.max(this.view.scroll + by, 0), most);
    this.changed();
  }

  /** Brings a call to where it is seen. */
  reveal(trace: number, call: Call): void {
    const lane = this.lanes.find((lane) => lane.trace === trace && lane.thread === call.thread);
    if (!lane) return;
    if (call.depth >= lane.rows) {
      lane.is_open = true;
      this.update(this.info);
    }
    const y = lane.top + this.head(this.trace(trace)) + call.depth * ROW;
    if (y < this.view.scroll) this.view.scroll = Math.max(0, lane.top);
    if (y + ROW > this.view.scroll + this.height - AXIS) this.view.scroll = y + ROW * 2 - (this.height - AXIS);
    const [from, to] = [this.at(trace, call.start), this.at(trace, call.end)];
    const width = this.view.to - this.view.from;
    const is_seen = to > this.view.from && from < this.view.to;
    const is_wide = to - from > width / 200;
    if (!is_seen || !is_wide) {
      const wanted = is_wide && is_seen ? width : Math.min(Math.max((to - from) * 20, 10), is_wide ? Math.max(width, (to - from) * 1.2) : width);
      const middle = (from + Math.min(to, from + wanted)) / 2;
      this.show(middle - wanted / 2, middle + wanted / 2);
    }
    this.changed();
  }

  visible(): Lane[] {
    const [top, bottom] = [this.view.scroll, this.view.scroll + this.height - AXIS];
    return this.lanes.filter((lane) => lane.top + lane.height > top && lane.top < bottom);
  }

  /** The lane at a height of the screen, and the depth of its calls. */
  lane_at(y: number): { lane: Lane; depth: number } | null {
    if (y < AXIS) return null;
    const below = y - AXIS + this.view.scroll;
    const lane = this.lanes.find((lane) => below >= lane.top && below < lane.top + lane.height);
    if (!lane) return null;
    const depth = Math.floor((below - lane.top - this.head(this.trace(lane.trace))) / ROW);
    return { lane, depth };
  }

  /** The call, or the run of calls, under a point. */
  call_at(x: number, y: number): { lane: Lane; call: Call; calls: number } | null {
    const at = this.lane_at(y);
    if (!at || at.depth < 0 || x < GUTTER) return null;
    const { lane, depth } = at;
    const near = (this.view.to - this.view.from) / (this.width - GUTTER);
    const tick = this.tick(lane.trace, this.time(x));
    const slack = this.tick(lane.trace, this.time(x) + near) - tick;
    return this.call_in(lane, depth, tick - slack, tick + slack);
  }

  /** The call of a depth that overlaps a stretch. */
  call_in(lane: Lane, depth: number, from: number, to: number): { lane: Lane; call: Call; calls: number } | null {
    const row = lane.picture?.rows[depth];
    if (!row) return null;
    const nth = place(row.end, from);
    const start = row.start[nth] ?? Infinity;
    if (nth >= row.length || start > to) return null;
    const count = row.count[nth] ?? 0;
    const call: Call = {
      thread: lane.thread, depth, start, end: row.end[nth] ?? start, function: row.function[nth] ?? 0, flags: (count & ~CALLS) >>> 0,
    };
    return { lane, call, calls: count & CALLS };
  }

  /** Asks for what is seen and not there yet. */
  async want(): Promise<void> {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      do {
        this.again = false;
        await this.fetch();
      } while (this.again);
    } catch (error) {
      this.failed(error);
    } finally {
      this.busy = false;
    }
  }

  private async fetch(): Promise<void> {
    const { view } = this;
    const pixel_ns = (view.to - view.from) / Math.max(this.width - GUTTER, 1);
    for (const [nth, trace] of this.info.traces.entries()) {
      const pixel = Math.max((pixel_ns * trace.frequency) / 1e9, 0);
      const [from, to] = [this.tick(nth, view.from), this.tick(nth, view.to)];
      const wanted = this.visible().filter((lane) => lane.trace === nth && !covers(lane, from, to, pixel, trace));
      if (wanted.length === 0) continue;
      const margin = (to - from) / 2;
      const threads = wanted.map((lane) => lane.thread);
      const found = await this.source.lanes(nth, threads, from - margin, to + margin, pixel);
      const by_thread = new Map(found.map((picture) => [picture.thread, picture]));
      for (const lane of wanted) {
        const picture = by_thread.get(lane.thread);
        if (!picture) continue;
        Object.assign(lane, { picture, from: from - margin, to: to + margin, pixel, progress: trace.progress });
      }
      this.changed();
    }
  }

  /** Asks for the overview. */
  async survey(): Promise<void> {
    for (const [nth, trace] of this.info.traces.entries()) {
      const threads = trace.threads.map((_, thread) => thread).slice(0, 64);
      const pixel = (trace.end - trace.begin) / 1000;
      const found = await this.source.lanes(nth, threads, trace.begin, trace.end, pixel);
      for (const picture of found) this.overview.set(`${nth}/${picture.thread}`, picture);
    }
    this.changed();
  }
}

/** Whether what is there of a lane is what is seen, and as sharp. */
function covers(lane: Lane, from: number, to: number, pixel: number, trace: Trace): boolean {
  if (!lane.picture) return false;
  // What was not read yet when the picture was made may be there now.
  if (trace.progress > lane.progress) return false;
  const is_within = lane.from <= from && lane.to >= to;
  return is_within && lane.pixel <= pixel * 1.3 && lane.pixel >= pixel / 4;
}
