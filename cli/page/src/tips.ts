// What is told of a place of the screen: a call and its states, a state and a CPU, a stretch without a call, a counter or
// a task.

import { state_at, words as words_of_band } from "./band";
import { Causes } from "./causes";
import { words as words_of_counter } from "./curves";
import { clean, duration, moment, things } from "./format";
import { Call, SHORT } from "./model";
import { Lane, Stage } from "./stage";
import { words as words_of_event } from "./events";
import { words as words_of_task } from "./task_lanes";
import { words as words_of_wait } from "./waits";

export function told_at(stage: Stage, causes: Causes, x: number, y: number): string | null {
  const counter = stage.strip_at(stage.counters, y);
  if (counter) return words_of_counter(stage, counter, x);
  const task = words_of_task(stage, x, y);
  if (task) return task;
  const lane = stage.strip_at(stage.lanes, y);
  const sign = words_of_wait(stage, x, y) ?? words_of_event(stage, x, y);
  if (sign) return sign;
  const band = lane && words_of_band(stage, lane, x, y);
  if (band) return band;
  const found = stage.call_at(x, y);
  if (!found) return lane && nothing(stage, lane, x);
  const trace = stage.trace(found.lane.trace);
  const of = found.call.function;
  const name = of === SHORT ? "calls without records" : clean(stage.name(found.lane.trace, of)).slice(0, 400);
  const time = duration(stage.ns(trace, found.call.end - found.call.start));
  if (of === SHORT) return `${things(found.calls, "short call")} in ${time}`;
  if (found.calls !== 1) return `${things(found.calls, "call")} in ${time}, too short to draw; the longest: ${name}`;
  const begin = stage.ns(trace, found.call.start - trace.begin);
  const thread = trace.threads[found.call.thread];
  const on = thread?.name ? `${clean(thread.name).slice(0, 100)} (thread ${thread.id})` : `thread ${thread?.id}`;
  const wait = causes.of_call(found.lane.trace, found.call)?.wait;
  const words = [name, `${time}, at ${moment(begin, begin / 1e4)} on ${on}`];
  const states = shares(found.lane, found.call);
  if (states) words.push(states);
  if (wait) words.push(`waited ${duration(wait.waited_ns)} for ${clean(wait.waited_for).slice(0, 200)} (${clean(wait.reason)})`);
  return words.join("\n");
}

/** Which part of a call its thread waited, and was preempted. The picture may have joined short states, so it is about that. */
function shares(lane: Lane, call: Call): string | null {
  const { picture } = lane;
  if (!picture || picture.states.length === 0 || lane.from > call.start || lane.to < call.end || call.end <= call.start) return null;
  const spent = [0, 0, 0, 0];
  const { from, to, kind, length } = picture.states;
  for (let nth = 0; nth < length; nth++) {
    const part = Math.min(to[nth] ?? 0, call.end) - Math.max(from[nth] ?? 0, call.start);
    if (part > 0) spent[kind[nth] ?? 3]! += part;
  }
  const told = (["ran", "was preempted", "waited"] as const).map((word, kind) => [word, ((spent[kind] ?? 0) / (call.end - call.start)) * 100] as const);
  const words = told.filter(([, share]) => share >= 0.5).map(([word, share]) => `${word} about ${Math.round(share)} %`);
  return words.length > 0 ? words.join(", ") : null;
}

/** A place where a thread is in no function that is recorded. */
function nothing(stage: Stage, lane: Lane, x: number): string | null {
  const tick = stage.tick(lane.trace, stage.time(x));
  const thread = stage.trace(lane.trace).threads[lane.thread];
  const row = lane.picture?.rows[0];
  if (!row || x < stage.gutter || tick < (thread?.first ?? Infinity) || tick > stage.trace(lane.trace).end) return null;
  if (lane.picture && tick > lane.picture.until) return null;
  const around = stage.call_in(lane, 0, tick, tick);
  if (around) return null;
  const state = state_at(stage, lane, tick);
  return `no recorded function${state ? ` · ${state}` : ""}`;
}
