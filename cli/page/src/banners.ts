// Banners above the lanes: what ended a trace (a panic, a crash, a signal, a trigger), and what has become of the page's
// source. The commands are there to be typed; a click selects them whole.

import { el } from "./dom";
import { clean } from "./format";
import { Ending, Info, Trace } from "./model";
import { Stage } from "./stage";

/** What a banner may do: select the call of a thread that fills most of a stretch, in ticks. */
type Go = (trace: number, thread: number, name: string | null, from: number, to: number) => void;

const command = (text: string): HTMLElement => el("code", { class: "command" }, clean(text));

/** The command that opens the page's traces again. */
function again(info: Info): string {
  const words = info.traces.map((trace) => trace.word).filter((word) => word);
  const [first] = info.traces;
  return `fdr view ${words.length > 0 ? words.join(" ") : (first?.process ?? "")}`;
}

/** The server has ended. */
export const gone = (info: Info): Node[] => ["The server is gone: what the page has not read yet can't be read any more. To open the page again, type ", command(again(info))].map(node);

/** Another file stands in the place of one that is shown. */
export const replaced = (info: Info): Node[] => ["The trace was replaced: another file has its name now, and this page shows the old one. To see the new one, type ", command(again(info))].map(node);

/** Another page has taken a snapshot of the process. */
export const outdated = (info: Info): Node[] => ["The trace was replaced: another page has taken a newer snapshot. Load this page anew to see it, or type ", command(again(info))].map(node);

const node = (part: string | Node): Node => (typeof part === "string" ? document.createTextNode(part) : part);

/** What ended the recording of a trace, in words. */
function words(trace: Trace, ending: Ending): string {
  const thread = ending.thread === null ? undefined : trace.threads[ending.thread];
  const name = thread && (thread.name ? `${clean(thread.name).slice(0, 100)} (thread ${thread.id})` : `thread ${thread.id}`);
  const on = name ? ` in ${name}` : "";
  const what = clean(ending.what).slice(0, 1000);
  switch (ending.kind) {
    case "panic":
      return `A panic${on}${ending.place ? ` at ${clean(ending.place).slice(0, 500)}` : ""}${what ? `: ${what}` : ""}`;
    case "crash":
      return `A crash${on}${what ? `: ${what}` : ""}`;
    case "signal":
      return what === "killed" ? "The process had ended without a dump (kill -9, _exit)" : `The process was ended by ${what}`;
    case "trigger":
      return what ? `Written by ${what}` : `Written by a trigger${on}`;
  }
}

/** The banner of each trace that ended by a panic, a crash, a signal or a trigger. */
export function endings(stage: Stage, go: Go): HTMLElement[] {
  const several = stage.info.traces.length > 1;
  return stage.info.traces.flatMap((trace, nth) => {
    const { ending } = trace;
    if (!ending) return [];
    const { thread, call } = ending;
    const show = (): void => {
      // More of the trace may have been read since.
      const last = stage.info.traces[nth]?.threads[thread ?? -1]?.last ?? 0;
      if (thread !== null) go(nth, thread, call?.[0] ?? null, call?.[1] ?? last - 1, call?.[2] ?? last);
    };
    const text = `${several ? `${clean(trace.file)}: ` : ""}${words(trace, ending)}.`;
    return [
      el("li", { class: ending.kind }, text, " ",
        thread !== null && el("button", { onclick: show }, call ? "show the call" : "show its last call"),
        trace.word !== "" && " What all threads were in: ", trace.word !== "" && command(`fdr state ${trace.word}`)),
    ];
  });
}
