// Below the lanes: the functions of a stretch of time as a table and as a flame graph, its slow calls, and what is known
// of one call. Each part is in a file of its own.

import { el, fill } from "./dom";
import { clean, duration } from "./format";
import { call } from "./details";
import { flame } from "./flame";
import { slow } from "./slow";
import { task } from "./task";
import { Tables } from "./tables";
import { Call, Marked, Source } from "./model";
import { Stage } from "./stage";

export type Tab = "table" | "flame" | "slow" | "call" | "task";

/** What the parts of the panel may do. */
export interface Host {
  readonly stage: Stage;
  readonly source: Source;
  search(text: string): void;
  select(trace: number, call: Call): void;
  /** Selects a call of which only function and time are known. */
  locate(trace: number, thread: number, of: number, since_first_ns: number): void;
  /** Selects a task by its number; the tick is of one of its polls. */
  show_task(trace: number, task: string, at: number): void;
  /** Shows the tab anew. */
  refresh(): void;
  /** Whether the content that is being made is still wanted. */
  is_current(): boolean;
}

const TABS: [Tab, string][] = [["table", "Functions"], ["flame", "Flame graph"], ["slow", "Slow calls"], ["call", "Call"], ["task", "Task"]];

export class Panel {
  readonly element: HTMLElement;
  private readonly body = el("div", { class: "body", tabindex: 0, role: "tabpanel" });
  private readonly tabs = new Map<Tab, HTMLButtonElement>();
  private readonly tables: Tables;
  private tab: Tab = "table";
  private serial = 0;

  constructor(
    private readonly stage: Stage,
    private readonly source: Source,
    private readonly actions: Pick<Host, "search" | "select" | "locate" | "show_task">,
    closed: () => void,
  ) {
    for (const [name, text] of TABS) {
      this.tabs.set(name, el("button", { role: "tab", onclick: () => this.show(name) }, text));
    }
    this.tables = new Tables();
    this.element = el(
      "section", { id: "panel", hidden: true, "aria-label": "details" },
      el("nav", { role: "tablist" }, ...this.tabs.values(), el("span", { class: "space" }),
        el("button", { onclick: closed, "aria-label": "close the details" }, "close")),
      this.body,
    );
  }

  get is_shown(): boolean {
    return !this.element.hidden;
  }

  hide(): void {
    this.element.hidden = true;
  }

  show(tab: Tab): void {
    this.tab = tab;
    this.element.hidden = false;
    for (const [name, button] of this.tabs) button.setAttribute("aria-selected", String(name === tab));
    void this.refresh();
  }

  /** The traces are others. */
  renew(): void {
    this.tables.forget();
    void this.refresh();
  }

  /** Shows the tab anew. */
  async refresh(): Promise<void> {
    if (!this.is_shown) return;
    const serial = ++this.serial;
    const is_current = (): boolean => serial === this.serial;
    const host: Host = { ...this.actions, stage: this.stage, source: this.source, refresh: () => void this.refresh(), is_current };
    fill(this.body, el("p", { class: "soft" }, "reading…"));
    const makers: Record<Tab, () => Promise<Node[]>> = {
      table: () => this.tables.make(host),
      flame: () => flame(host),
      slow: () => slow(host),
      call: () => call(host),
      task: () => task(host),
    };
    try {
      const content = await makers[this.tab]();
      if (is_current()) fill(this.body, ...content);
    } catch (error) {
      if (is_current()) fill(this.body, el("p", { role: "alert" }, clean(String(error instanceof Error ? error.message : error))));
    }
  }
}

/** What is marked, of a trace; `null`: that time is not in it. */
export function marked(stage: Stage, trace: number): Marked | null {
  const { mark } = stage.view;
  if (!mark) return {};
  const shift = stage.shifts[trace] ?? 0;
  const [from, to] = [Math.round(mark[0] - shift), Math.round(mark[1] - shift)];
  if (to < 0) return null;
  return { from_ns: Math.max(from, 0), to_ns: to };
}

/** The stretch in words, and as options of a command. */
export function stretch(marked: Marked, whole: string): { words: string; options: string } {
  const { from_ns, to_ns } = marked;
  if (from_ns === undefined || to_ns === undefined) return { words: "the whole trace", options: whole };
  return { words: `${duration(to_ns - from_ns)} from ${duration(from_ns)} on`, options: `--since +${from_ns}ns --until +${to_ns}ns ` };
}
