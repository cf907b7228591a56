// What is known of the selected task: how long it took, was polled and waited, its values, and its polls, each a call of a
// thread.

import { el } from "./dom";
import { clean, count, duration, exact, moment, things } from "./format";
import { Host } from "./host";
import { Task } from "./model";

export async function task(host: Host): Promise<Node[]> {
  const { stage, source } = host;
  const selected = stage.view.task;
  if (!selected) return [el("p", { class: "soft" }, "No task is selected: press O to see the tasks, and click on one.")];
  const { trace: nth } = selected;
  const trace = stage.trace(nth);
  const found = await source.task(nth, selected.task, stage.view.selected?.trace === nth ? stage.view.selected.start : selected.start);
  const begin = stage.ns(trace, found.start - trace.begin);
  const time = (ns: number): string => (ns >= 1000 ? `${duration(ns)} (${exact(ns)})` : exact(ns));
  const ends = { finished: "it finished", dropped: "it was dropped before its end" }[found.state] ?? "it had not ended when the trace was written; its times are those of its last poll";
  const values = await arguments_of(host, nth, found);
  const facts: [string, string | null][] = [
    ["function", clean(stage.name(nth, found.function))],
    ["task", `number ${found.task}${found.parent === null ? "" : `, made by task ${found.parent}`}`],
    ["elapsed", time(found.elapsed_ns)],
    ["busy", `${time(found.busy_ns)} in ${things(found.polls, "poll")}${share(found.busy_ns, found.elapsed_ns)}`],
    ["waiting", `${time(Math.max(found.elapsed_ns - found.busy_ns, 0))}${share(found.elapsed_ns - found.busy_ns, found.elapsed_ns)}`],
    ["its end", ends],
    ["begins", `${moment(begin, begin / 1e6)} after the trace's first record`],
    ["values", values.length > 0 ? values.map(clean).join("\n") : null],
  ];
  const list = el("dl", {}, ...facts.filter(([, value]) => value !== null).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value ?? "")]));
  const rows = found.list.map((poll, at) => {
    const before = found.list[at - 1];
    const thread = trace.threads[poll.thread];
    const waited = before && before.number + 1 === poll.number ? duration(stage.ns(trace, poll.start - before.end)) : "";
    const is_this = stage.view.selected?.start === poll.start && stage.view.selected.thread === poll.thread;
    const name = `poll ${count(poll.number)}, ${clean(thread?.name ?? "")} (thread ${thread?.id})${is_this ? ", this one" : ""}`;
    return el("tr", { "data-poll": poll.number }, el("td", { class: "soft" }, waited && `waited ${waited}`), el("td", {}, duration(stage.ns(trace, poll.end - poll.start))),
      el("td", { class: "name" }, el("button", { class: "link", onclick: () => host.select(nth, poll) }, name)));
  });
  const missing = found.polls - found.known;
  const told = [
    found.known > found.list.length && `polls ${count(found.before + 1)} to ${count(found.before + found.list.length)} of ${count(found.known)} that are in the trace`,
    missing > 0 && `${things(missing, "poll")} not in the trace`,
  ].filter((text) => text);
  const table = el("table", {}, el("caption", {}, `its polls${told.length > 0 ? `: ${told.join("; ")}` : ""}`), el("tbody", {}, ...rows));
  return [el("div", { class: "columns" }, el("div", {}, list), el("div", {}, table))];
}

const share = (part: number, all: number): string => (all > 0 ? ` (${((Math.max(part, 0) / all) * 100).toFixed(1)} %)` : "");

/** What the first and the last poll say: arguments, events and the result. */
async function arguments_of(host: Host, trace: number, task: Task): Promise<string[]> {
  const polls = [...new Set([task.before === 0 ? task.list[0] : undefined, task.before + task.list.length === task.known ? task.list.at(-1) : undefined])];
  const found: string[] = [];
  for (const poll of polls) {
    if (poll) found.push(...(await host.source.details(trace, poll)).arguments);
  }
  return found;
}
