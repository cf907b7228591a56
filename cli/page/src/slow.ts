// The slow calls of the stretch that is marked, with what `fdr slow` says of them. Threads and functions lead to the calls
// that are meant.

import { el } from "./dom";
import { clean, duration, things } from "./format";
import { Host, marked, stretch } from "./host";
import { Call, Finding, Slow } from "./model";

export async function slow(host: Host): Promise<Node[]> {
  const { stage, source } = host;
  const found: Node[] = [];
  for (const [nth, trace] of stage.info.traces.entries()) {
    const wanted = marked(stage, nth);
    if (!wanted) continue;
    if (!trace.has_times) continue;
    const answer = await (wanted.from_ns === undefined ? host.causes.of_trace(nth) : source.slow(nth, wanted, host.signal));
    const { words } = stretch(wanted, "");
    const head = answer.calls.length === 0 ? "no call stands out" : "calls far above the usual of their function";
    found.push(el("h2", { tabindex: -1, class: "soft" }, `${clean(trace.file)}: ${words}: ${head}`));
    if (answer.note) found.push(el("p", { class: "soft" }, answer.note));
    for (const call of answer.calls) found.push(one(host, nth, call));
    found.push(...waits_for_work(answer));
  }
  if (found.length === 0) found.push(el("p", { class: "soft" }, "The calls have no times, so none of them is slow."));
  return found;
}

/** The functions whose slow calls are left out, because threads wait for work in them. */
function waits_for_work({ waits_for_work: idle }: Slow): Node[] {
  if (idle.length === 0) return [];
  const MAX = 3;
  const names = idle.slice(0, MAX).map((of) => `${clean(of.function)} (${things(of.calls, "call")}, ${duration(of.total_ns)})`);
  if (idle.length > MAX) names.push(things(idle.length - MAX, "other"));
  return [el("p", { class: "soft" }, `Calls that wait for work are left out: ${names.join(", ")}`)];
}

function one(host: Host, nth: number, call: Finding): HTMLElement {
  const { stage } = host;
  const trace = stage.trace(nth);
  const thread = trace.threads.findIndex((thread) => thread.id === call.thread);
  const go = (): void => host.locate(nth, thread, call.id, call.since_first_ns ?? 0);
  const link = (text: string): HTMLElement => el("button", { class: "link", onclick: go }, text);
  const from = trace.begin + ((call.since_first_ns ?? 0) * trace.frequency) / 1e9;
  const span: Pick<Call, "thread" | "start" | "end"> = { thread, start: from, end: from + (call.total_ns * trace.frequency) / 1e9 };
  return el(
    "article", {},
    el("p", {}, link(clean(call.function).slice(0, 300)), ` ${duration(call.total_ns)}, usually ${duration(call.usual.p50_ns)} · at ${duration(call.since_first_ns ?? 0)} on `,
      link(name_of_thread(clean(trace.threads[thread]?.name ?? ""), call.thread))),
    ...same_cause(call),
    ...explained(host, nth, call, span),
  );
}

/** The calls that have the same cause, if there are several. */
function same_cause({ same_cause: same }: Finding): Node[] {
  if (!same || same.calls < 2) return [];
  const times = same.times < same.calls ? `, on ${things(same.times, "occasion")}` : "";
  const calls = `${same.or_more ? "at least " : ""}${things(same.calls, "call")}`;
  return [el("p", {}, `the slowest of ${calls} with this cause: ${duration(same.total_ns)} in all${times}`)];
}

const name_of_thread = (name: string, id: number): string => (name ? `${name} (thread ${id})` : `thread ${id}`);

/** What was found of a call, in words and with links. `span`: the thread and the ticks of the call. */
export function explained(host: Host, nth: number, found: Finding, span: Pick<Call, "thread" | "start" | "end">): Node[] {
  const { stage } = host;
  const trace = stage.trace(nth);
  /** Selects the call of a function, on a thread, that fills most of the slow call's time. */
  const link = (text: string, thread: number, name: string | null, from = span.start): HTMLElement =>
    el("button", { class: "link", onclick: () => host.go(nth, thread, name, from, span.end) }, text);
  const nodes: Node[] = [el("p", { class: "sentence" }, clean(found.sentence))];
  const { wait, meanwhile } = found;
  // The trace may tell what the holder did meanwhile, but not in which function the holder took the object.
  const is_holder = wait !== null && meanwhile !== null && wait.holder === meanwhile.thread;
  const others: [string, number | null, string | null][] = [
    ["held by", wait?.holder ?? null, wait?.holder_function ?? null],
    ["meanwhile", meanwhile?.thread ?? null, meanwhile?.function ?? null],
  ];
  for (const [what, id, name] of others) {
    if (is_holder && what === "held by" && !name) continue;
    const thread = trace.threads.findIndex((thread) => thread.id === id);
    if (thread < 0 || id === null) continue;
    const text = `${name_of_thread(clean(trace.threads[thread]?.name ?? ""), id)}${name ? ` in ${clean(name).slice(0, 300)}` : ""}`;
    nodes.push(el("p", {}, el("span", { class: "soft" }, is_holder && what === "meanwhile" && !wait.holder_function ? "held by, and meanwhile: " : `${what} `), link(text, thread, name)));
  }
  // One step is the call itself.
  if (found.path.length > 1) nodes.push(el("table", {}, el("tbody", {}, ...found.path.map((step) =>
    el("tr", {}, el("td", { class: "name" }, link(clean(step.function).slice(0, 300), span.thread, step.function)), el("td", {}, duration(step.total_ns)),
      el("td", { class: "soft" }, `usually ${duration(step.usual_ns)}`))))));
  return nodes;
}
