// The slow calls of the stretch that is marked, with what `fdr slow` says of them.

import { el } from "./dom";
import { clean, duration } from "./format";
import { Host, marked, stretch } from "./panel";

export async function slow(host: Host): Promise<Node[]> {
  const { stage, source } = host;
  const found: Node[] = [];
  for (const [nth, trace] of stage.info.traces.entries()) {
    const wanted = marked(stage, nth);
    if (!wanted) continue;
    if (!trace.has_times) continue;
    const answer = await source.slow(nth, wanted);
    const { words } = stretch(wanted, "");
    found.push(el("p", { class: "soft" }, `${clean(trace.file)}: ${words}: ${answer.calls.length === 0 ? "no call stands out" : "calls far above the usual of their function"}`));
    for (const call of answer.calls) {
      const thread = trace.threads.findIndex((thread) => thread.id === call.thread);
      const go = (): void => host.locate(nth, thread, call.id, call.since_first_ns ?? 0);
      found.push(
        el("p", {}, el("button", { class: "link", onclick: go }, `${clean(call.function).slice(0, 300)}`),
          ` ${duration(call.total_ns)}, usually ${duration(call.usual.p50_ns)}`, el("br"), clean(call.sentence)),
      );
    }
  }
  return found;
}
