// Tasks as lanes below the threads: a pale bar from a task's first poll to its end, and its polls on it. What is pale is
// the time in which the task waited.

import { clean, count, duration, last, shorten, tail, things } from "./format";
import { CALLS, CLIPPED, OPEN, place } from "./model";
import { Pen } from "./curves";
import { GUTTER, Heading, Stage, TaskLane } from "./stage";

export function heading(pen: Pen, heading: Heading): void {
  const { context, stage } = pen;
  const top = stage.y(heading);
  context.fillStyle = pen.colour("raised");
  context.fillRect(0, top, stage.width, heading.height);
  context.fillStyle = pen.colour("line");
  context.fillRect(0, top + heading.height - 1, stage.width, 1);
  context.fillStyle = pen.colour("text");
  context.font = "600 12px system-ui, sans-serif";
  context.fillText(`${heading.is_open ? "▾" : "▸"} ${things(heading.tasks, "task")}`, 8, top + heading.height / 2);
  context.fillStyle = pen.colour("soft");
  context.font = "11px system-ui, sans-serif";
  const lanes = heading.lanes > 2000 ? `2,000 of ${count(heading.lanes)} lanes` : things(heading.lanes, "lane");
  context.fillText(heading.is_open ? `${lanes}; full: polled, pale: waiting` : `click here, or press O: ${lanes}`, GUTTER + 8, top + heading.height / 2);
}

export function lane(pen: Pen, lane: TaskLane): void {
  const { context, stage } = pen;
  const top = stage.y(lane);
  context.fillStyle = pen.colour("raised");
  context.fillRect(0, top, GUTTER, lane.height);
  const [tasks, polls] = lane.picture?.rows ?? [];
  if (!tasks) return;
  const { first, x } = stage.scale(lane.trace);
  context.save();
  context.beginPath();
  context.rect(GUTTER, top, stage.width - GUTTER, lane.height);
  context.clip();
  const height = lane.height - 3;
  const found = stage.found[lane.trace];
  const each = (row: typeof tasks, draw: (from: number, width: number, nth: number) => void): void => {
    for (let nth = place(row.end, first); nth < row.length; nth++) {
      const from = Math.max(x(row.start[nth] ?? 0), GUTTER - 2);
      if (from > stage.width) break;
      const width = Math.max(Math.min(x(row.end[nth] ?? 0), stage.width + 2) - from, 1);
      const of = row.function[nth] ?? 0;
      context.fillStyle = pen.fill(of);
      context.globalAlpha = found && !found.has(of) ? 0.25 : 1;
      draw(from, width, nth);
    }
    context.globalAlpha = 1;
  };
  each(tasks, (from, width) => {
    context.globalAlpha *= 0.35;
    context.fillRect(from, top + 1, width, height);
  });
  if (polls) each(polls, (from, width) => context.fillRect(from, top + 1, width, height));
  context.font = "11px system-ui, sans-serif";
  const { task } = stage.view;
  each(tasks, (from, width, nth) => {
    const flags = tasks.count[nth] ?? 0;
    if ((flags & (CLIPPED | OPEN)) !== 0 && width > 6) {
      context.fillStyle = pen.colour("gap");
      if ((flags & CLIPPED) !== 0) context.fillRect(from, top + 1, 2, height);
      if ((flags & OPEN) !== 0) context.fillRect(from + width - 2, top + 1, 2, height);
    }
    if ((flags & CALLS) !== 1) return;
    // Tasks that follow each other at once are told apart.
    context.fillStyle = pen.colour("back");
    if (width > 4 && from > GUTTER) context.fillRect(from - 0.5, top + 1, 1, height);
    const room = Math.floor((width - 8) / 6);
    if (room > 3) {
      const name = clean(stage.name(lane.trace, tasks.function[nth] ?? 0));
      context.fillStyle = pen.colour("text");
      const text = [name, tail(name), last(name)].find((text) => text.length <= room);
      context.fillText(text ?? shorten(last(name), room), from + 4, top + lane.height / 2);
    }
    if (task && task.trace === lane.trace && task.lane === lane.lane && task.start === tasks.start[nth]) {
      context.strokeStyle = pen.colour("text");
      context.lineWidth = 2;
      context.strokeRect(from + 1, top + 1, Math.max(width - 2, 2), height);
      context.lineWidth = 1;
    }
  });
  context.restore();
}

/** What is told of a place in the lanes of tasks. */
export function words(stage: Stage, x: number, y: number): string | null {
  const found = stage.task_at(x, y);
  if (!found) return null;
  const trace = stage.trace(found.lane.trace);
  const name = clean(stage.name(found.lane.trace, found.task.function)).slice(0, 400);
  const time = duration(stage.ns(trace, found.task.end - found.task.start));
  if (found.tasks !== 1) return `${things(found.tasks, "task")} in ${time}, too short to draw; the longest: ${name}`;
  const { poll } = found;
  const polled = poll ? duration(stage.ns(trace, poll.end - poll.start)) : "";
  const now = !poll ? "waits" : found.polls === 1 ? `a poll of ${polled}: a click shows its call` : `${things(found.polls, "poll")} in ${polled}`;
  return `task ${name}, ${time}\n${now}`;
}
