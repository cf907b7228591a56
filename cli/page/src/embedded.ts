// The data inside the page itself: what `fdr view -o` put there. Short calls may be joined, so that the file stays small;
// then figures of a stretch say that they leave those out. Figures of the whole trace are those of `fdr report`.

import { duration, things } from "./format";
import { Call, CALLS, CLIPPED, Curve, Details, Events, Flame, FlamePath, Info, Marked, NO_SPANS, NO_WAITS, OPEN, Picture, place, Report, Row, RowOfTable, SHORT, Slow, Source, Spans, Survey, Task, TaskPoll, Trace, Tree, TreePath, Waits } from "./model";
import { curves, pictures } from "./wire";

/** Polls in the list of a task. */
const MOST_LISTED = 200;

interface Head {
  info: Info;
  reports: Report[];
  /** Null: the calls have no times. */
  slow: (Slow | null)[];
  /** By trace: calls of fewer ticks are joined. */
  joined: number[];
  tasks: Task[][];
  /** By trace: polls of tasks that are left out. */
  left_out: number[];
}

/** The text of the element that has the data, unpacked. */
export async function open(text: string): Promise<Embedded> {
  const packed = Uint8Array.from(atob(text.trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length))) as Head;
  let at = 4 + length;
  const counters = head.info.traces.map(() => {
    const begin = at + 4;
    at = begin + new DataView(bytes).getUint32(at, true);
    return curves(bytes.slice(begin, at));
  });
  const all = pictures(bytes.slice(at));
  const found = head.info.traces.map((trace) => all.splice(0, trace.threads.length));
  return new Embedded(head, found, counters);
}

/** A call with what is inside of it. */
interface Visit {
  call: Call;
  calls: number;
  /** Ticks in the stretch, and those of the calls inside. */
  ticks: number;
  inside: number;
  caller: Visit | null;
  is_clipped: boolean;
}

export class Embedded implements Source {
  readonly is_served = false;
  private readonly levels = new WeakMap<Row, Row[]>();

  constructor(
    private readonly head: Head,
    private readonly traces: Picture[][],
    private readonly counters: Curve[][],
  ) {}

  async info(): Promise<Info> {
    const info = structuredClone(this.head.info);
    info.traces.forEach((trace, nth) => {
      const joined = this.head.joined[nth] ?? 0;
      const left_out = this.head.left_out[nth] ?? 0;
      if (left_out > 0) trace.notes.push(`${things(left_out, "short poll")} of tasks left out of this file, so that it stays small`);
      if (joined > 0) trace.notes.push(`calls shorter than ${duration((joined * 1e9) / trace.frequency)} are joined in this file, so that it stays small; fdr view ${trace.file} has them all`);
    });
    return info;
  }

  snapshot(): Promise<Info> {
    return this.info();
  }

  async lanes(trace: number, threads: number[], from: number, to: number, pixel: number, _?: AbortSignal, found?: number[]): Promise<Picture[]> {
    const wanted = found && new Set(found);
    const all = this.traces[trace] ?? [];
    return threads.flatMap((thread) => {
      const whole = all.find((picture) => picture.thread === thread);
      if (!whole) return [];
      const rows = whole.rows.map((row) => cut(wanted ? row : this.level(row, pixel), from, to, pixel, wanted));
      const span = (spans: Spans): Spans => part(spans, Math.max(place(spans.from, from) - 1, 0), place(spans.from, to));
      return [{ ...whole, rows, states: joined_states(span(whole.states), from, to, pixel), signs: span(whole.signs), cpus: joined(span(whole.cpus), pixel), waits: part_of(whole.waits, place(whole.waits.to, from), place(whole.waits.from, to)) }];
    });
  }

  /** The calls of a row, short ones joined from level to level, as the server's `pyramid.rs` does. */
  private level(row: Row, pixel: number): Row {
    const levels = this.levels.get(row) ?? [row];
    this.levels.set(row, levels);
    let nth = 0;
    for (let least = 64; least <= pixel && nth < 26; least *= 4) {
      nth += 1;
      levels[nth] ??= cut(levels[nth - 1] ?? row, -Infinity, Infinity, least);
    }
    return levels[nth] ?? row;
  }

  async curves(trace: number, from: number, to: number, pixel: number): Promise<Curve[]> {
    return (this.counters[trace] ?? []).map((curve) => thin(curve, from, to, pixel));
  }

  async tasks(trace: number, lanes: number[], from: number, to: number, pixel: number): Promise<Picture[]> {
    const all = this.head.tasks[trace] ?? [];
    return lanes.map((lane) => {
      const seen = all.filter((task) => task.lane === lane && task.start <= to && task.end >= from);
      // What is not known of a beginning or an end is told by the flags, as of calls.
      const flags = (task: Task): number => ((task.state === "not ended" ? OPEN : 0) | (task.list[0]?.number === 1 ? 0 : CLIPPED)) >>> 0;
      const bars = seen.map((task) => ({ ...task, flags: flags(task) }));
      const rows = [bars, seen.flatMap((task) => task.list)].map((list) => cut(row(list), from, to, pixel));
      return { thread: lane, rows, states: NO_SPANS(), signs: NO_SPANS(), cpus: NO_SPANS(), waits: NO_WAITS(), until: NaN, coarse: 0 };
    });
  }

  async task(trace: number, wanted: string | number, at: number): Promise<Task> {
    const all = this.head.tasks[trace] ?? [];
    const in_lane = all.filter((task) => task.lane === wanted);
    const found = typeof wanted === "string" ? all.find((task) => task.task === wanted) : (in_lane.find((task) => task.end >= at) ?? in_lane.at(-1));
    if (!found) throw new Error("no such task");
    const near = found.list.findIndex((poll) => poll.end >= at);
    const before = Math.max(Math.min((near < 0 ? found.list.length : near) - MOST_LISTED / 2, found.list.length - MOST_LISTED), 0);
    return { ...found, before, list: found.list.slice(before, before + MOST_LISTED) };
  }

  /** Without values, which are not in a file. */
  async events(nth: number, thread: number, at: number, names: number[]): Promise<Events> {
    const wanted = new Set(names);
    const found: Events = { events: [], previous: null, next: null };
    for (const { thread: of, signs } of this.traces[nth] ?? []) {
      const order = (place: { thread: number; time: number } | null, time: number): number => (place ? place.time - time || place.thread - of : 0);
      for (let sign = 0; sign < signs.length; sign++) {
        const time = signs.from[sign] ?? 0;
        const name = signs.what[sign] ?? 0;
        if (signs.kind[sign] !== 2) continue;
        if (time === at && of === thread) found.events.push(this.trace(nth).functions.find(({ id }) => id === name)?.name ?? `#${name}`);
        if (wanted.size > 0 && !wanted.has(name)) continue;
        const is_before = time < at || (time === at && of < thread);
        const is_behind = time > at || (time === at && of > thread);
        if (is_before && (!found.previous || order(found.previous, time) < 0)) found.previous = { thread: of, time };
        if (is_behind && (!found.next || order(found.next, time) > 0)) found.next = { thread: of, time };
      }
    }
    return found;
  }

  /** First and last tick of a stretch. */
  private span(trace: number, marked: Marked): [number, number] {
    const of = this.trace(trace);
    const tick = (ns: number): number => of.begin + (ns * of.frequency) / 1e9;
    return [marked.from_ns === undefined ? -Infinity : tick(marked.from_ns), marked.to_ns === undefined ? Infinity : tick(marked.to_ns)];
  }

  private trace(nth: number): Trace {
    const trace = this.head.info.traces[nth];
    if (!trace) throw new Error(`no trace ${nth}`);
    return trace;
  }

  /** All calls of a stretch, those around before those inside. */
  private visits(nth: number, marked: Marked): Visit[] {
    const [from, to] = this.span(nth, marked);
    const untimed = new Set(this.trace(nth).functions.filter((of) => of.untimed).map((of) => of.id));
    const found: Visit[] = [];
    for (const picture of this.traces[nth] ?? []) {
      let above: Visit[] = [];
      for (const [depth, row] of picture.rows.entries()) {
        const here: Visit[] = [];
        let caller = 0;
        for (let at = place(row.end, from); at < row.length && (row.start[at] ?? 0) <= to; at++) {
          const call = item(picture.thread, depth, row, at);
          while (caller < above.length && (above[caller]?.call.end ?? 0) < call.end) caller++;
          const around = above[caller];
          const [start, end] = [Math.max(call.start, from), Math.min(call.end, to)];
          here.push({
            call, calls: (row.count[at] ?? 0) & CALLS, ticks: end - start, inside: 0,
            caller: around && around.call.start <= call.start ? around : null,
            is_clipped: (call.flags & CLIPPED) !== 0 || call.start < from || call.end > to,
          });
        }
        found.push(...here);
        above = here;
      }
    }
    // Those inside come later, so their sums are complete before they are added.
    for (const visit of found.slice().reverse()) {
      if (untimed.has(visit.call.function)) visit.ticks = visit.inside;
      if (visit.caller) visit.caller.inside += visit.ticks;
    }
    return found;
  }

  async table(nth: number, marked: Marked): Promise<Report> {
    const trace = this.trace(nth);
    if (marked.from_ns === undefined) return this.head.reports[nth] ?? { functions: [], whole_run: null, duration_ns: 0, records: 0 };
    const rows = new Map<number, { visits: Visit[]; total: number; own: number }>();
    let left_out = 0;
    for (const visit of this.visits(nth, marked)) {
      if (visit.calls !== 1 || visit.call.function === SHORT) {
        left_out += visit.calls;
        continue;
      }
      const row = rows.get(visit.call.function) ?? { visits: [], total: 0, own: 0 };
      rows.set(visit.call.function, row);
      row.visits.push(visit);
      row.own += Math.max(visit.ticks - visit.inside, 0);
      let around = visit.caller;
      while (around && around.call.function !== visit.call.function) around = around.caller;
      // Of a function that calls itself, the outermost call counts.
      if (!around) row.total += visit.ticks;
    }
    const ns = (ticks: number): number => nanos(ticks, trace.frequency);
    const functions = [...rows].map(([id, row]): RowOfTable => {
      const of = trace.functions.find((of) => of.id === id);
      const whole = row.visits.filter((visit) => !visit.is_clipped).map((visit) => visit.ticks).sort((one, other) => one - other);
      const has = whole.length > 0 && !of?.untimed;
      const at = (share: number): number | null => (has ? ns(whole[Math.max(Math.ceil(whole.length * share) - 1, 0)] ?? 0) : null);
      const sum = whole.reduce((sum, ticks) => sum + ticks, 0);
      return {
        id, name: of?.name || `#${id}`, calls: row.visits.length, clipped: row.visits.length - whole.length,
        total_ns: of?.untimed ? null : ns(row.total), self_ns: of?.untimed ? null : ns(row.own),
        min_ns: at(0), mean_ns: has ? ns(Math.floor((sum + whole.length / 2) / whole.length)) : null, p50_ns: at(0.5), p99_ns: at(0.99), max_ns: at(1),
      };
    });
    const note = left_out > 0 ? `without ${things(left_out, "short call")} that are joined in this file` : "added up from the calls in this file";
    return { functions, whole_run: null, duration_ns: 0, records: functions.reduce((sum, row) => sum + row.calls * 2 - row.clipped, 0), note };
  }

  async flame(nth: number, marked: Marked): Promise<Flame> {
    return { paths: this.paths(nth, marked), left_out: 0 };
  }

  async tree(nth: number, marked: Marked): Promise<Tree> {
    const all = this.paths(nth, marked);
    const below: number[][] = all.map(() => []);
    all.forEach(({ caller }, at) => at > 0 && below[caller]?.push(at));
    const all_ns = all[0]?.total ?? 0;
    const order = (one: number, other: number): number => (all[one]?.total ?? 0) - (all[other]?.total ?? 0) || (all[one]?.name ?? "").localeCompare(all[other]?.name ?? "");
    const paths: TreePath[] = [];
    const waiting: [number, number | null, number][] = below[0]?.sort(order).map((at) => [at, null, 0]) ?? [];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const [at, caller, depth] = next;
      const { name, calls, total, own } = all[at] ?? { name: "", calls: 0, total: 0, own: 0 };
      const place = paths.push({ name, caller, depth, calls, total_ns: total, self_ns: own, share: total / (all_ns || 1) }) - 1;
      for (const called of below[at]?.sort(order) ?? []) waiting.push([called, place, depth + 1]);
    }
    return { all_ns, min_share: 0, paths, paths_not_shown: 0, not_shown_ns: 0 };
  }

  /** Paths of calls, callers first. */
  private paths(nth: number, marked: Marked): (FlamePath & { calls: number })[] {
    const trace = this.trace(nth);
    const names = new Map(trace.functions.map((of) => [of.id, of.name]));
    const paths = [{ name: "", caller: 0, own: 0, total: 0, calls: 0 }];
    const places = new Map<string, number>();
    const of = new Map<Visit, number>();
    for (const visit of this.visits(nth, marked)) {
      const caller = visit.caller ? (of.get(visit.caller) ?? 0) : 0;
      const name = visit.call.function === SHORT ? "[short]" : `${names.get(visit.call.function) || `#${visit.call.function}`}${visit.calls > 1 ? " [joined]" : ""}`;
      const key = `${caller} ${name}`;
      let at = places.get(key);
      if (at === undefined) {
        at = paths.push({ name, caller, own: 0, total: 0, calls: 0 }) - 1;
        places.set(key, at);
      }
      of.set(visit, at);
      const path = paths[at];
      if (path) {
        path.own += Math.max(visit.ticks - visit.inside, 0);
        path.calls += visit.calls;
      }
    }
    for (const path of paths) path.total = path.own = nanos(path.own, trace.frequency);
    for (let at = paths.length - 1; at > 0; at--) {
      const path = paths[at];
      const caller = paths[path?.caller ?? 0];
      if (path && caller) caller.total += path.total;
    }
    return paths;
  }

  /** The slow calls of the whole trace, or those of them that are in a stretch. */
  async slow(nth: number, marked: Marked): Promise<Slow> {
    const all = this.head.slow[nth] ?? { calls: [], waits_for_work: [] };
    const { from_ns, to_ns } = marked;
    if (from_ns === undefined || to_ns === undefined) return all;
    const is_in = (since: number | null, total: number): boolean => since !== null && since >= from_ns && since + total <= to_ns;
    const note = "This file has the slow calls of the whole trace alone: those of them that are in the stretch.";
    return { calls: all.calls.filter((call) => is_in(call.since_first_ns, call.total_ns)), waits_for_work: [], note };
  }

  async why(): Promise<Slow> {
    return { calls: [], waits_for_work: [] };
  }

  async details(nth: number, call: Call): Promise<Details> {
    const trace = this.trace(nth);
    const ns = (ticks: number): number => nanos(ticks, trace.frequency);
    const picture = this.traces[nth]?.find((picture) => picture.thread === call.thread);
    const rows = picture?.rows ?? [];
    let inside = 0;
    let calls = 0;
    for (let depth = call.depth + 1; depth < rows.length; depth++) {
      const row = rows[depth];
      for (let at = place(row?.start ?? new Float64Array(), call.start); row && at < row.length && (row.end[at] ?? 0) <= call.end; at++) {
        calls += (row.count[at] ?? 0) & CALLS;
        if (depth === call.depth + 1) inside += (row.end[at] ?? 0) - (row.start[at] ?? 0);
      }
    }
    const is_exact = (this.head.joined[nth] ?? 0) === 0 && !rows.some((row) => row.function.includes(SHORT)) && !trace.functions.some((of) => of.untimed);
    const spent = [0, 0, 0, 0];
    for (let at = 0; picture && at < picture.states.length; at++) {
      const { states } = picture;
      const part = Math.min(states.to[at] ?? 0, call.end) - Math.max(states.from[at] ?? 0, call.start);
      if (part > 0) spent[states.kind[at] ?? 3]! += part;
    }
    const [running_ns, preempted_ns, waiting_ns, unknown_ns] = spent.map(ns) as [number, number, number, number];
    const task = this.head.tasks[nth]?.find((task) => task.function === call.function && task.list.some((poll) => poll.thread === call.thread && poll.start === call.start && poll.depth === call.depth));
    return {
      task: task?.task ?? null, total_ns: ns(call.end - call.start), self_ns: is_exact ? ns(call.end - call.start - inside) : null, calls_inside: calls,
      states: trace.has_states ? { running_ns, preempted_ns, waiting_ns, unknown_ns } : null, cpu: null, cpu_changes: 0, arguments: [],
    };
  }

  async survey(nth: number, functions: number[], at: Call | null, marked: Marked = {}): Promise<Survey> {
    const [from, to] = this.span(nth, marked);
    const trace = this.trace(nth);
    const wanted = new Set(functions);
    const all: Call[] = [];
    for (const picture of this.traces[nth] ?? []) {
      picture.rows.forEach((row, depth) => {
        for (let nth = 0; nth < row.length; nth++) {
          if (wanted.has(row.function[nth] ?? 0) && ((row.count[nth] ?? 0) & CALLS) === 1) all.push(item(picture.thread, depth, row, nth));
        }
      });
    }
    const id = (call: Call): number => trace.threads[call.thread]?.id ?? 0;
    const order = (one: Call, other: Call): number => one.start - other.start || id(one) - id(other) || one.depth - other.depth;
    all.sort(order);
    const ticks = (call: Call): number => call.end - call.start;
    const measured = all.filter((call) => (call.flags & CLIPPED) === 0);
    const earlier = at ? all.filter((call) => order(call, at) < 0) : [];
    const buckets = new Map<number, number>();
    for (const call of measured) {
      const ns = (ticks(call) * 1e9) / trace.frequency;
      const bucket = ns < 1 ? 0 : 1 + Math.floor(Math.log10(ns) * 12);
      buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
    }
    const [first, last] = [Math.min(...buckets.keys()), Math.max(...buckets.keys())];
    const bound = (nth: number): number => Math.ceil(10 ** (nth / 12));
    const list: [number, number, number][] = [];
    for (let nth = first; buckets.size > 0 && nth <= last; nth++) list.push([nth === 0 ? 0 : bound(nth - 1), nth === 0 ? 1 : bound(nth), buckets.get(nth) ?? 0]);
    return {
      calls: all.length, measured: measured.length, before: earlier.length,
      longer: at ? measured.filter((call) => ticks(call) > ticks(at)).length : 0,
      equal: at ? measured.filter((call) => ticks(call) === ticks(at)).length : 0,
      shortest_ns: measured.length > 0 ? nanos(measured.reduce((least, call) => Math.min(least, ticks(call)), Infinity), trace.frequency) : null,
      longest_ns: measured.length > 0 ? nanos(measured.reduce((most, call) => Math.max(most, ticks(call)), 0), trace.frequency) : null,
      buckets: list, previous: earlier.at(-1) ?? null,
      next: (at ? all.find((call) => order(call, at) > 0) : all[0]) ?? null,
      slowest: measured.filter((call) => call.start >= from && call.end <= to).sort((one, other) => ticks(other) - ticks(one)).slice(0, 10),
    };
  }
}

function item(thread: number, depth: number, row: Row, at: number): Call {
  const count = row.count[at] ?? 0;
  return { thread, depth, start: row.start[at] ?? 0, end: row.end[at] ?? 0, function: row.function[at] ?? 0, flags: (count & ~CALLS) >>> 0 };
}

/** Calls in order as a row. */
function row(list: Pick<TaskPoll, "start" | "end" | "function" | "flags">[]): Row {
  const numbers = (of: (call: (typeof list)[number]) => number): number[] => list.map(of);
  return {
    length: list.length, start: Float64Array.from(numbers((call) => call.start)), end: Float64Array.from(numbers((call) => call.end)),
    function: Uint32Array.from(numbers((call) => call.function)), count: Uint32Array.from(numbers((call) => (1 | call.flags) >>> 0)),
  };
}

/** Ticks as ns: rounded to the nearest, a half up. */
function nanos(ticks: number, frequency: number): number {
  const rate = BigInt(frequency);
  return Number((BigInt(Math.round(ticks)) * 1_000_000_000n + rate / 2n) / rate);
}

function part_of(waits: Waits, from: number, to: number): Waits {
  const cut = <T extends Float64Array | Uint32Array>(list: T): T => list.subarray(from, to) as T;
  return {
    length: Math.max(to - from, 0), from: cut(waits.from), to: cut(waits.to), holder: cut(waits.holder), name: cut(waits.name),
    function: cut(waits.function), count: cut(waits.count),
  };
}

function part(spans: Spans, from: number, to: number): Spans {
  const of = <T extends Float64Array | Uint32Array>(list: T): T => list.subarray(from, to) as T;
  return { length: Math.max(to - from, 0), from: of(spans.from), to: of(spans.to), kind: of(spans.kind), what: of(spans.what) };
}

/** The states of a stretch, where those shorter than a pixel are joined to the longest among them, as the server does. */
function joined_states(spans: Spans, from: number, to: number, pixel: number): Spans {
  const kept: [number, number, number, number][] = [];
  let longest = 0;
  for (let nth = 0; nth < spans.length; nth++) {
    const [begin, end] = [Math.max(spans.from[nth] ?? 0, from), Math.min(spans.to[nth] ?? 0, to)];
    if (begin >= end) continue;
    const [kind, what] = [spans.kind[nth] ?? 3, spans.what[nth] ?? 0];
    const last = kept.at(-1);
    if (!last || !((last[2] === kind && last[3] === what) || end - last[0] < pixel)) {
      kept.push([begin, end, kind, what]);
      longest = end - begin;
      continue;
    }
    if (end - begin > longest) [last[2], last[3], longest] = [kind, what, end - begin];
    last[1] = end;
  }
  const list = (place: 0 | 1): Float64Array => Float64Array.from(kept, (stay) => stay[place]);
  const numbers = (place: 2 | 3): Uint32Array => Uint32Array.from(kept, (stay) => stay[place]);
  return { length: kept.length, from: list(0), to: list(1), kind: numbers(2), what: numbers(3) };
}

/** Stays on CPUs, where those that begin within a pixel are joined: the last one counts. */
function joined(spans: Spans, pixel: number): Spans {
  const kept: number[] = [];
  const changes: number[] = [];
  let begin = -Infinity;
  for (let nth = 0; nth < spans.length; nth++) {
    const is_near = (spans.from[nth] ?? 0) - begin < pixel;
    const before = is_near ? (changes.pop() ?? 0) : 0;
    if (is_near) kept.pop();
    else begin = spans.from[nth] ?? 0;
    kept.push(nth);
    changes.push(before + (spans.kind[nth] ?? 0));
  }
  return {
    length: kept.length, from: Float64Array.from(kept, (nth) => spans.from[nth] ?? 0), to: Float64Array.from(kept, (nth) => spans.to[nth] ?? 0),
    kind: Uint32Array.from(changes), what: Uint32Array.from(kept, (nth) => spans.what[nth] ?? 0),
  };
}

/** The values of a stretch and the one before; those within a pixel are joined. */
function thin(curve: Curve, from: number, to: number, pixel: number): Curve {
  const rows: number[][] = [];
  for (let nth = Math.max(place(curve.until, from) - 1, 0); nth < curve.length && (curve.from[nth] ?? 0) <= to; nth++) {
    const next = [curve.from, curve.until, curve.least, curve.greatest, curve.last, curve.count].map((list) => list[nth] ?? 0) as [number, number, number, number, number, number];
    const kept = rows.at(-1);
    if (!kept || next[1] - (kept[0] ?? 0) >= pixel) {
      rows.push(next);
      continue;
    }
    [kept[1], kept[4]] = [next[1], next[4]];
    [kept[2], kept[3], kept[5]] = [Math.min(kept[2] ?? 0, next[2]), Math.max(kept[3] ?? 0, next[3]), (kept[5] ?? 0) + next[5]];
  }
  const list = (place: number): Float64Array => Float64Array.from(rows, (row) => row[place] ?? 0);
  return { id: curve.id, coarse: curve.coarse, length: rows.length, from: list(0), until: list(1), least: list(2), greatest: list(3), last: list(4), count: list(5) };
}

/** The calls of a stretch; those shorter than a pixel are joined. One that is looked for gives its colour. */
function cut(row: Row, from: number, to: number, pixel: number, wanted?: Set<number>): Row {
  const [start, end, of, count]: [number[], number[], number[], number[]] = [[], [], [], []];
  let longest = 0;
  let is_run = false;
  for (let nth = place(row.end, from); nth < row.length; nth++) {
    const [begin, ends] = [row.start[nth] ?? 0, row.end[nth] ?? 0];
    if (begin > to) break;
    const many = row.count[nth] ?? 0;
    const last = start.length - 1;
    const is_short = ends - begin < pixel;
    if (is_short && is_run && ends - (start[last] ?? 0) <= pixel) {
      const calls = Math.min((many & CALLS) + ((count[last] ?? 0) & CALLS), CALLS);
      count[last] = ((((count[last] ?? 0) | many) & ~CALLS) | calls) >>> 0;
      end[last] = Math.max(end[last] ?? 0, ends);
      const [before, next] = [of[last] ?? 0, row.function[nth] ?? 0];
      if (ends - begin > longest) [longest, of[last]] = [ends - begin, next];
      if (wanted) of[last] = [before, next].find((of) => wanted.has(of)) ?? of[last] ?? 0;
      continue;
    }
    start.push(begin);
    end.push(ends);
    of.push(row.function[nth] ?? 0);
    count.push(many);
    [is_run, longest] = [is_short, ends - begin];
  }
  return { length: start.length, start: Float64Array.from(start), end: Float64Array.from(end), function: Uint32Array.from(of), count: Uint32Array.from(count) };
}
