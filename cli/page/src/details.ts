// What is known of the selected call: its times, its thread's states, where it is among all calls of its function, and why
// it was slow.

import { during } from "./curves";
import { el, fill } from "./dom";
import { clean, count, duration, exact, moment, short, tail, things } from "./format";
import { Host } from "./host";
import { Call, CLIPPED, Finding, OPEN, SHORT, Survey } from "./model";
import { explained } from "./slow";

/** Calls from which there is a histogram. */
const ENOUGH = 20;

/** Counters whose values are told. */
const MOST_COUNTERS = 50;

export async function call(host: Host): Promise<Node[]> {
  const { stage, source } = host;
  const { selected } = stage.view;
  if (!selected) return [el("p", { class: "soft" }, "No call is selected: click on one, or use the arrow keys.")];
  const { causes } = host;
  const trace = stage.trace(selected.trace);
  if (selected.function === SHORT) return [el("p", {}, "These calls left no records, because they were short. Only how many they are, and their time, is known.")];
  const of = trace.functions.find((of) => of.id === selected.function);
  const thread = trace.threads[selected.thread];
  const details = await source.details(selected.trace, selected);
  const begin = stage.ns(trace, selected.start - trace.begin);
  const ends = (selected.flags & OPEN) !== 0 ? "it had not returned when the trace was written" : (selected.flags & CLIPPED) !== 0 ? "an edge of it is not in the trace, so it may have taken longer" : null;
  const time = (ns: number): string => (ns >= 1000 ? `${duration(ns)} (${exact(ns)})` : exact(ns));
  const facts: [string, string | null][] = [
    ["trace", stage.info.traces.length > 1 ? clean(trace.file) : null],
    ["function", clean(stage.name(selected.trace, selected.function))],
    ["place", of?.file ? `${clean(of.file)}:${of.line}` : null],
    ["took", time(details.total_ns)],
    ["by itself", details.self_ns === null ? (details.calls_inside > 0 ? `not known; ${things(details.calls_inside, "call")} inside` : null) : `${time(details.self_ns)}; ${things(details.calls_inside, "call")} inside`],
    ["seen in part", ends],
    ["thread", `${clean(thread?.name ?? "")} (thread ${thread?.id})`],
    ["begins", `${moment(begin, begin / 1e6)} after the trace's first record`],
    ["depth", String(selected.depth)],
    ["CPU", details.cpu === null ? null : `${details.cpu}${details.cpu_changes > 0 ? `, then ${things(details.cpu_changes, "change")}` : ""}`],
    ["values", details.arguments.length > 0 ? details.arguments.map(clean).join("\n") : null],
  ];
  if (trace.counters.length > 0) {
    const curves = await source.curves(selected.trace, selected.start, selected.end, 0);
    const told = curves.slice(0, MOST_COUNTERS).map((curve) => [stage.name(selected.trace, curve.id), during(curve, selected.start, selected.end)]);
    facts.push(["counters", told.filter(([, words]) => words !== null).map(([name, words]) => `${clean(name ?? "").slice(0, 200)}: ${words}`).join("\n") || null]);
  }
  const { states } = details;
  if (states && details.total_ns > 0) {
    const part = (ns: number): string => `${duration(ns)} (${((ns / details.total_ns) * 100).toFixed(1)} %)`;
    facts.push(["its thread", [["ran", states.running_ns], ["was preempted", states.preempted_ns], ["waited", states.waiting_ns], ["not known", states.unknown_ns]]
      .filter(([, ns]) => (ns as number) > 0)
      .map(([name, ns]) => `${name} ${part(ns as number)}`).join(" · ")]);
  }
  const list = el("dl", {}, ...facts.filter(([, value]) => value !== null).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value ?? "")]));
  const rank = el("div", {}, el("p", { class: "soft" }, "counting all calls of the function…"));
  const why = el("div", { class: "why" });
  void source.survey(selected.trace, [selected.function], selected, {}, host.signal).then(
    (survey) => {
      if (!host.is_current()) return;
      fill(rank, ...ranked(host, selected.trace, selected, survey, details.total_ns));
      if (can_ask && causes.is_cheap(selected.trace) && !causes.of_call(selected.trace, selected) && is_slow(survey, details.total_ns)) void ask();
    },
    (error: unknown) => fill(rank, el("p", { role: "alert" }, clean(String(error instanceof Error ? error.message : error)))),
  );
  const can_ask = source.is_served && trace.has_times;
  const tell = (found: Finding | null): void =>
    found ? fill(why, ...explained(host, selected.trace, found, selected)) : fill(why, el("p", {}, "There is nothing to say: the function has no usual call."));
  const ask = async (): Promise<void> => {
    fill(why, el("p", { class: "soft" }, "comparing with usual calls…"));
    try {
      tell(await causes.why(selected.trace, selected));
    } catch (error) {
      fill(why, el("p", { role: "alert" }, clean(String(error instanceof Error ? error.message : error))));
    }
  };
  const { task } = details;
  const of_task = task !== null && el("div", { class: "buttons" }, el("button", { onclick: () => host.show_task(selected.trace, task, selected.start) }, `A poll of task ${task}: show the task`));
  const known = causes.of_call(selected.trace, selected);
  if (known) tell(known);
  else if (can_ask) fill(why, el("div", { class: "buttons" }, el("button", { onclick: () => void ask() }, "Why did it take that long?")));
  const name = clean(tail(stage.name(selected.trace, selected.function))).slice(0, 300);
  const file = stage.info.traces.length > 1 ? ` · ${clean(short(trace.file))}` : "";
  return [el("h2", { tabindex: -1 }, `${name} · ${duration(details.total_ns)}${file}`), why, el("div", { class: "columns" }, el("div", {}, list, of_task), rank)];
}

/** Whether a call took much longer than is usual: the rule of `fdr slow`, as far as the histogram tells. */
function is_slow(survey: Survey, total_ns: number): boolean {
  const at = (share: number): number => {
    let calls = 0;
    for (const [, to, count] of survey.buckets) {
      calls += count;
      if (calls >= survey.measured * share) return to;
    }
    return Infinity;
  };
  return survey.measured >= ENOUGH && total_ns >= 10_000 && total_ns > at(0.5) * 10 && total_ns > at(0.9) * 5;
}

function ranked(host: Host, trace: number, selected: Call, survey: Survey, total_ns: number): Node[] {
  const { stage } = host;
  const is_this = (call: Call): boolean => call.thread === selected.thread && call.start === selected.start && call.depth === selected.depth;
  const go = (text: string, call: Call | null | undefined): HTMLElement =>
    el("button", { disabled: !call || is_this(call), onclick: () => call && host.select(trace, call) }, text);
  const buttons = el("div", { class: "buttons" }, go("← previous call", survey.previous), go("next call →", survey.next), go("slowest call", survey.slowest[0]));
  const found: Node[] = [el("p", {}, `${rank(survey)} Call ${count(survey.before + 1)} of ${count(survey.calls)} in time.`), buttons];
  const most = Math.max(1, ...survey.buckets.map(([, , calls]) => calls));
  if (survey.buckets.length > 1 && survey.measured >= ENOUGH) {
    const bars = survey.buckets.map(([from, to, calls]) => {
      const bar = el("i", { class: total_ns >= from && total_ns < to ? "here" : undefined });
      bar.style.height = calls === 0 ? "0" : `${Math.max((calls / most) * 100, 2)}%`;
      // The whole column tells of a bar that is low.
      return el("span", { title: `${duration(from)} to ${duration(to)}: ${things(calls, "call")}` }, bar);
    });
    found.push(
      el("div", { class: "bars", role: "img", "aria-label": "how many calls took how long; this call's bar is marked" }, ...bars),
      el("div", { class: "ends soft" }, el("span", {}, duration(survey.shortest_ns ?? 0)), el("span", {}, "each bar a fifth wider than the one before"), el("span", {}, duration(survey.longest_ns ?? 0))),
    );
  }
  found.push(el("table", {}, el("caption", {}, "the slowest calls of the function"), el("tbody", {}, ...survey.slowest.slice(0, 10).map((call) => {
    const of = stage.trace(trace);
    const thread = of.threads[call.thread];
    return el("tr", {}, el("td", { class: "name" }, el("button", { class: "link", onclick: () => host.select(trace, call) }, `at ${duration(stage.ns(of, call.start - of.begin))}, ${clean(thread?.name ?? "")} (thread ${thread?.id})${is_this(call) ? ", this one" : ""}`)),
      el("td", {}, duration(stage.ns(of, call.end - call.start))));
  }))));
  return found;
}

/** Where a call is among all, in words. */
export function rank(survey: Survey): string {
  const { measured, longer, equal } = survey;
  if (measured === 0) return "No call of the function is in the trace from its entry to its exit.";
  if (measured === 1) return "The only call of the function that is in the trace as a whole.";
  const others = equal > 1 ? `, with ${things(equal - 1, "other")} as long` : "";
  if (longer === 0) return `The longest of ${count(measured)} calls${others}.`;
  if (longer >= measured - equal) return `The shortest of ${count(measured)} calls${others}.`;
  const share = (longer / measured) * 100;
  return `${count(longer)} of ${count(measured)} calls are longer (${share < 0.1 ? share.toPrecision(1) : share.toFixed(1)} %)${others}.`;
}
