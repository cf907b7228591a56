// The lanes of all threads and counters under one axis: what is there of them, and where a call is on the screen. What is
// not there is asked for in asking.ts, and drawn in draw.ts.

import { Call, CALLS, Counter, Curve, Info, Picture, place, Row, Trace } from "./model";
import { View } from "./view";

export const GUTTER = 180;
/** Pixels of the sign that pins a thread, at the right of its name. */
export const PIN = 22;
export const AXIS = 64;
export const ROW = 16;
/** Functions that pictures are asked for: their numbers have to stand in an address. */
const MOST_LOOKED_FOR = 500;
/** Pixels of a counter. */
const CURVE = 44;
const MOST_ROWS = 24;
/** Pixels of the heading above the tasks, and of a lane of tasks. */
const HEADING = 22;
export const TASK = 18;
/** Lanes of tasks that are drawn. */
const MOST_LANES = 2000;

/** What has a place on the screen. */
export interface Strip {
  trace: number;
  /** From the top of the first lane. */
  top: number;
  height: number;
}

/** Of which part of a trace a picture is, in ticks. */
export interface Part {
  from: number;
  to: number;
  pixel: number;
  /** How much of the trace was read then. */
  progress: number;
  /** The functions that were looked for then. */
  found?: number[] | undefined;
}

/** A thread on the screen. */
export interface Lane extends Strip, Part {
  thread: number;
  rows: number;
  is_open: boolean;
  picture: Picture | null;
}

/** The heading of a trace's tasks. */
export interface Heading extends Strip {
  tasks: number;
  lanes: number;
  is_open: boolean;
}

/** Tasks that follow each other, in a row. */
export interface TaskLane extends Strip {
  lane: number;
  picture: Picture | null;
  part?: Part;
}

/** A counter on the screen. */
export interface CounterLane extends Strip {
  counter: Counter;
  curve: Curve | null;
  part?: Part;
}

/** Where ticks are on the screen. */
export interface Scale {
  /** The tick at the left edge. */
  first: number;
  /** Pixels of a tick. */
  per_tick: number;
  x: (tick: number) => number;
}

export class Stage {
  lanes: Lane[] = [];
  headings: Heading[] = [];
  tasks: TaskLane[] = [];
  counters: CounterLane[] = [];
  /** Pixels of the lanes that are pinned. */
  private pinned = 0;
  /** Pixels of all lanes. */
  bottom = 0;
  readonly gutter = GUTTER;
  /** Whole threads, for the overview. */
  overview = new Map<string, Picture>();
  /** How often the overview has changed. */
  surveys = 0;
  width = 100;
  height = 100;
  /** Functions that the search found, by trace. */
  found: Set<number>[] = [];
  /** Events and counters that it found. */
  found_events: Set<number>[] = [];
  /** By trace: the call that was selected last. */
  readonly chosen: (Call | undefined)[] = [];
  /** Names of functions by trace and number. */
  names: Map<number, string>[] = [];

  constructor(
    public info: Info,
    readonly view: View,
    private readonly changed: () => void,
  ) {
    this.update(info);
  }

  /** What is known of the traces has grown. */
  update(info: Info): void {
    this.info = info;
    const known = new Map(this.lanes.map((lane) => [`${lane.trace}/${lane.thread}`, lane]));
    const curves = new Map(this.counters.map((lane) => [`${lane.trace}/${lane.counter.id}`, lane]));
    const opened = new Set(this.headings.filter((heading) => heading.is_open).map((heading) => heading.trace));
    const tasks = new Map(this.tasks.map((lane) => [`${lane.trace}/${lane.lane}`, lane]));
    [this.lanes, this.counters, this.headings, this.tasks] = [[], [], [], []];
    let top = 0;
    /** The places of the first trace's threads by name. Threads of other traces with the same names keep that order. */
    const places = new Map<string, number>();
    const orders: number[][] = [];
    info.traces.forEach((trace, nth) => {
      this.shifts[nth] ??= 0;
      this.names[nth] ??= new Map(trace.functions.map((of) => [of.id, of.name]));
      // The one that failed, then by name as people count, and threads of one name in the order of the trace.
      const order = trace.threads.map((_, thread) => thread);
      const name = (thread: number): string => trace.threads[thread]?.name ?? "";
      const at = (thread: number): number => places.get(name(thread)) ?? Infinity;
      const failed = (thread: number): number => Number(trace.threads[thread]?.has_failed);
      order.sort((one, other) => failed(other) - failed(one) || (nth > 0 ? compare(at(one), at(other)) : 0) || NAMES.compare(name(one), name(other)) || one - other);
      if (nth === 0) order.forEach((thread, place) => places.set(name(thread), place));
      orders.push(order);
    });
    const place_lanes = (is_pinned: boolean, nth: number): void => {
      const trace = this.trace(nth);
      for (const thread of orders[nth] ?? []) {
        if (this.is_pinned(nth, thread) !== is_pinned) continue;
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
    };
    info.traces.forEach((_, nth) => place_lanes(true, nth));
    this.pinned = top;
    info.traces.forEach((trace, nth) => {
      place_lanes(false, nth);
      if (trace.tasks && trace.tasks.tasks > 0) {
        const is_open = opened.has(nth);
        this.headings.push({ trace: nth, top, height: HEADING, ...trace.tasks, is_open });
        top += HEADING;
        for (let lane = 0; is_open && lane < Math.min(trace.tasks.lanes, MOST_LANES); lane++) {
          this.tasks.push({ picture: null, ...tasks.get(`${nth}/${lane}`), trace: nth, lane, top, height: TASK });
          top += TASK;
        }
      }
      for (const counter of trace.counters) {
        const known = curves.get(`${nth}/${counter.id}`);
        this.counters.push({ trace: nth, top, height: CURVE, counter, curve: known?.curve ?? null, part: known?.part });
        top += CURVE;
      }
    });
    this.bottom = top;
  }

  /** Shows other traces. A thread whose rows are open keeps them open. */
  replace(info: Info): void {
    const open = new Set(this.lanes.filter((lane) => lane.is_open).map((lane) => this.trace(lane.trace).threads[lane.thread]?.id));
    [this.lanes, this.counters, this.names] = [[], [], []];
    for (const lane of this.tasks) [lane.picture, lane.part] = [null, undefined];
    this.surveys += 1;
    this.overview.clear();
    this.update(info);
    for (const lane of this.lanes) lane.is_open = open.has(this.trace(lane.trace).threads[lane.thread]?.id);
    this.update(info);
  }

  /** Whether a thread stays at the top. */
  is_pinned(trace: number, thread: number): boolean {
    return this.view.pins.includes(`${trace}/${this.trace(trace).threads[thread]?.id}`);
  }

  /** Pins a thread, or takes its pin away. */
  pin(trace: number, thread: number): void {
    const key = `${trace}/${this.trace(trace).threads[thread]?.id}`;
    const { pins } = this.view;
    this.view.pins = pins.includes(key) ? pins.filter((pin) => pin !== key) : [...pins, key];
    this.update(this.info);
    this.scroll(0);
  }

  /** Pixels of pinned lanes, which do not scroll. If they take most of the screen, they do. */
  get fixed(): number {
    return this.pinned <= (this.height - AXIS) * 0.6 ? this.pinned : 0;
  }

  /** Where a strip is on the screen. */
  y(strip: Strip): number {
    return AXIS + strip.top - (this.is_fixed(strip) ? 0 : this.view.scroll);
  }

  is_fixed(strip: Strip): boolean {
    return strip.top + strip.height <= this.fixed;
  }

  /** Pixels of a lane above its calls: states and CPUs, and events. */
  head(trace: Trace): number {
    return (has_band(trace) ? 6 : 0) + 10;
  }

  trace(nth: number): Trace {
    const trace = this.info.traces[nth];
    if (!trace) throw new Error(`no trace ${nth}`);
    return trace;
  }

  name(trace: number, of: number): string {
    return this.names[trace]?.get(of) || `#${of}`;
  }

  /** Ns by which a trace is later on the axis. */
  get shifts(): number[] {
    return this.view.shifts;
  }

  /** Draws traces later; what is seen of the first one, and the mark, stay where they are. */
  align(shifts: number[]): void {
    const { view } = this;
    const by = (shifts[0] ?? 0) - (this.shifts[0] ?? 0);
    const was_all = view.from <= 0 && view.to >= this.end * 0.999;
    [view.shifts, view.mark] = [shifts, view.mark && [view.mark[0] + by, view.mark[1] + by]];
    this.surveys += 1;
    if (was_all) this.fit();
    else this.show(view.from + by, view.to + by);
  }

  /** The functions that are looked for in a trace, if they are few. */
  looked_for(nth: number): number[] | undefined {
    const found = this.found[nth];
    if (found !== this.kept_of[nth]) {
      const is_few = found && found.size > 0 && found.size <= MOST_LOOKED_FOR;
      [this.kept_of[nth], this.kept[nth]] = [found, is_few ? [...found] : undefined];
    }
    return this.kept[nth];
  }

  private readonly kept_of: (Set<number> | undefined)[] = [];
  private readonly kept: (number[] | undefined)[] = [];

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

  /** Where the ticks of a trace are on the screen. They count from the tick at the left edge: the first tick of a long trace is
   * so many pixels away that a number has no digits left for the difference of two calls. */
  scale(nth: number): Scale {
    const { view } = this;
    const per_tick = ((this.width - GUTTER) / (view.to - view.from)) * (1e9 / this.trace(nth).frequency);
    const first = this.tick(nth, view.from);
    return { first, per_tick, x: (tick) => GUTTER + (tick - first) * per_tick };
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
    const most = this.end * 1.1 + 10;
    const width = Math.min(Math.max((view.to - view.from) * factor, 10), most);
    const share = (at - view.from) / (view.to - view.from);
    this.show(at - share * width, at + (1 - share) * width);
  }

  show(from: number, to: number): void {
    // A little beyond the ends, so that they are seen to be the ends.
    const margin = (to - from) / 20;
    const shift = to - from > this.end ? (this.end - from - to) / 2 : Math.min(0, this.end + margin - to) + Math.max(0, -margin - from);
    [this.view.from, this.view.to] = [from + shift, to + shift];
    this.changed();
  }

  fit(): void {
    this.show(0, this.end);
  }

  scroll(by: number): void {
    const most = Math.max(0, this.bottom - (this.height - AXIS));
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
    if (!this.is_fixed(lane) && y < this.view.scroll + this.fixed) this.view.scroll = Math.max(0, lane.top - this.fixed);
    if (!this.is_fixed(lane) && y + ROW > this.view.scroll + this.height - AXIS) this.view.scroll = y + ROW * 2 - (this.height - AXIS);
    this.into_view(this.at(trace, call.start), this.at(trace, call.end));
    this.changed();
  }

  /** Brings a tick of a thread to where it is seen. */
  reveal_tick(trace: number, thread: number, tick: number): void {
    const lane = this.lanes.find((lane) => lane.trace === trace && lane.thread === thread);
    if (lane && !this.is_fixed(lane) && this.seen([lane]).length === 0) this.view.scroll = Math.max(0, lane.top - this.fixed);
    const at = this.at(trace, tick);
    const half = (this.view.to - this.view.from) / 2;
    if (at < this.view.from || at > this.view.to) this.show(at - half, at + half);
    this.changed();
  }

  /** Moves and zooms until a stretch of the axis is seen. */
  private into_view(from: number, to: number): void {
    const width = this.view.to - this.view.from;
    const is_seen = to > this.view.from && from < this.view.to;
    const is_wide = to - from > width / 200;
    if (!is_seen || !is_wide) {
      const wanted = is_wide && is_seen ? width : Math.min(Math.max((to - from) * 20, 10), is_wide ? Math.max(width, (to - from) * 1.2) : width);
      const middle = (from + Math.min(to, from + wanted)) / 2;
      this.show(middle - wanted / 2, middle + wanted / 2);
    }
  }

  visible(): Lane[] {
    return this.seen(this.lanes);
  }

  /** Those that are on the screen. */
  seen<T extends Strip>(strips: T[]): T[] {
    const [top, bottom] = [this.view.scroll, this.view.scroll + this.height - AXIS];
    return strips.filter((strip) => this.is_fixed(strip) || (strip.top + strip.height > top + this.fixed && strip.top < bottom));
  }

  /** What is at a height of the screen. */
  strip_at<T extends Strip>(strips: T[], y: number): T | null {
    const is_of_fixed = y - AXIS < this.fixed;
    const is_at = (strip: Strip): boolean => this.is_fixed(strip) === is_of_fixed && y >= this.y(strip) && y < this.y(strip) + strip.height;
    return y < AXIS ? null : (strips.find(is_at) ?? null);
  }

  /** The lane at a height of the screen, and the depth of its calls. */
  lane_at(y: number): { lane: Lane; depth: number } | null {
    const lane = this.strip_at(this.lanes, y);
    if (!lane) return null;
    const depth = Math.floor((y - this.y(lane) - this.head(this.trace(lane.trace))) / ROW);
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

  /** The task, or the tasks, under a point; and the poll of it. */
  task_at(x: number, y: number): { lane: TaskLane; task: Call; tasks: number; poll: Call | null; polls: number; tick: number } | null {
    const lane = x < GUTTER ? null : this.strip_at(this.tasks, y);
    if (!lane?.picture) return null;
    const tick = this.tick(lane.trace, this.time(x));
    const slack = this.tick(lane.trace, this.time(x + 1)) - tick;
    const at = (depth: number): ReturnType<typeof item_in> => item_in(lane.picture?.rows[depth], lane.lane, depth, tick - slack, tick + slack);
    const [task, poll] = [at(0), at(1)];
    return task ? { lane, task: task.call, tasks: task.calls, poll: poll?.call ?? null, polls: poll?.calls ?? 0, tick } : null;
  }

  /** Shows or hides the lanes of a trace's tasks. */
  open_tasks(trace: number, is_open: boolean): void {
    for (const heading of this.headings) if (heading.trace === trace) heading.is_open = is_open;
    this.update(this.info);
    this.scroll(0);
  }

  /** Brings a task to where it is seen. */
  reveal_task(trace: number, task: { lane: number; start: number; end: number }): void {
    this.open_tasks(trace, true);
    const lane = this.tasks.find((lane) => lane.trace === trace && lane.lane === task.lane);
    if (lane && this.seen([lane]).length === 0) this.view.scroll = Math.max(0, lane.top - 60);
    this.into_view(this.at(trace, task.start), this.at(trace, task.end));
    this.scroll(0);
  }

  /** The call of a depth that overlaps a stretch. */
  call_in(lane: Lane, depth: number, from: number, to: number): { lane: Lane; call: Call; calls: number } | null {
    const found = item_in(lane.picture?.rows[depth], lane.thread, depth, from, to);
    return found && { lane, ...found };
  }
}

/** Names as people count: worker-2 is before worker-10. */
const NAMES = new Intl.Collator("en", { numeric: true });

/** Infinity is behind all, and equal to itself. */
const compare = (one: number, other: number): number => (one === other ? 0 : one < other ? -1 : 1);

/** Whether its lanes have a band of states and CPUs. */
export const has_band = (trace: Trace): boolean => trace.has_states || trace.has_cpus;

/** The call of a row, or the run of calls, that overlaps a stretch. */
function item_in(row: Row | undefined, thread: number, depth: number, from: number, to: number): { call: Call; calls: number } | null {
  if (!row) return null;
  const nth = place(row.end, from);
  const start = row.start[nth] ?? Infinity;
  if (nth >= row.length || start > to) return null;
  const count = row.count[nth] ?? 0;
  const call: Call = { thread, depth, start, end: row.end[nth] ?? start, function: row.function[nth] ?? 0, flags: (count & ~CALLS) >>> 0 };
  return { call, calls: count & CALLS };
}
