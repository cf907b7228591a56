// Where the page looks: a stretch of time, what is marked and what is selected. It is kept in the fragment of the
// address, so that the same view opens in another copy of the page. The token is never part of it.

import { Call } from "./model";

export interface Selected extends Call {
  trace: number;
}

/** The selected task. */
export interface SelectedTask {
  trace: number;
  /** Its number, as text: 53 bits are too few. */
  task: string;
  lane: number;
  start: number;
}

/** The selected event of a thread, or the value of a counter at a tick. */
export interface SelectedEvent {
  trace: number;
  thread: number;
  counter: number | null;
  time: number;
}

export interface View {
  /** Ns on the axis. */
  from: number;
  to: number;
  /** Pixels above the first lane that is seen. */
  scroll: number;
  mark: [number, number] | null;
  selected: Selected | null;
  task: SelectedTask | null;
  event: SelectedEvent | null;
  /** Threads that stay at the top: traces and the threads' own numbers. */
  pins: string[];
  search: string;
  /** Ns by which each trace is later on the axis. */
  shifts: number[];
}

export const empty = (): View => ({ from: 0, to: 1, scroll: 0, mark: null, selected: null, task: null, event: null, pins: [], search: "", shifts: [] });

/** The view as a fragment. */
export function write(view: View): string {
  const parts = [`t=${Math.round(view.from)},${Math.round(view.to)}`];
  if (view.scroll > 0) parts.push(`y=${Math.round(view.scroll)}`);
  if (view.mark) parts.push(`mark=${view.mark.map(Math.round).join(",")}`);
  const { selected } = view;
  if (selected) {
    const { trace, thread, depth, start, end, function: of, flags } = selected;
    parts.push(`call=${[trace, thread, depth, start, end, of, flags].join(",")}`);
  }
  const { task } = view;
  if (task) parts.push(`task=${[task.trace, task.task, task.lane, task.start].join(",")}`);
  const { event } = view;
  if (event) parts.push(`event=${[event.trace, event.thread, event.counter ?? -1, event.time].join(",")}`);
  if (view.pins.length > 0) parts.push(`pin=${view.pins.join(",")}`);
  if (view.shifts.some((shift) => shift !== 0)) parts.push(`shift=${view.shifts.map(Math.round).join(",")}`);
  if (view.search) parts.push(`find=${encodeURIComponent(view.search)}`);
  return `#${parts.join("&")}`;
}

/** The view of a fragment; what is not understood is left out. */
export function read(fragment: string): Partial<View> {
  const view: Partial<View> = {};
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const [name, text] = [part.slice(0, part.indexOf("=")), part.slice(part.indexOf("=") + 1)];
    const numbers = text.split(",").map(Number);
    const [one = NaN, other = NaN] = numbers;
    const are = numbers.every(Number.isFinite);
    if (name === "t" && are && other > one) [view.from, view.to] = [one, other];
    if (name === "y" && are) view.scroll = Math.max(one, 0);
    if (name === "mark" && are && other > one) view.mark = [one, other];
    if (name === "call" && are && numbers.length === 7) {
      const [trace, thread, depth, start, end, of, flags] = numbers as [number, number, number, number, number, number, number];
      view.selected = { trace, thread, depth, start, end, function: of, flags };
    }
    if (name === "task" && are && numbers.length === 4) {
      const [trace, , lane, start] = numbers as [number, number, number, number];
      view.task = { trace, task: text.split(",")[1] ?? "", lane, start };
    }
    if (name === "event" && are && numbers.length === 4) {
      const [trace, thread, counter, time] = numbers as [number, number, number, number];
      view.event = { trace, thread, counter: counter < 0 ? null : counter, time };
    }
    if (name === "pin") view.pins = text.split(",").filter((pin) => /^\d+\/\d+$/.test(pin));
    if (name === "shift" && are && numbers.every((shift) => shift >= 0)) view.shifts = numbers;
    if (name === "find") {
      try {
        view.search = decodeURIComponent(text);
      } catch {
        // Not written by this page.
      }
    }
  }
  return view;
}
