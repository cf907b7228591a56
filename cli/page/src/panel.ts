// Below the lanes: the table of functions of a stretch of time, and what is known of a call. Tables are tables, so that
// they can be read aloud. Names are text, whatever is in them.

import { el, fill } from "./dom";
import { clean, count, duration, exact, things } from "./format";
import { Marked, Report, RowOfTable, SHORT, Source } from "./model";
import { Stage } from "./stage";
import { Selected } from "./view";

type Column = [keyof RowOfTable, string];

const COLUMNS: Column[] = [
  ["calls", "calls"], ["total_ns", "total"], ["self_ns", "self"], ["mean_ns", "mean"], ["p50_ns", "p50"], ["p99_ns", "p99"], ["max_ns", "max"],
];

export type Tab = "table" | "call";

export class Panel {
  readonly element: HTMLElement;
  private readonly body = el("div", { class: "body", tabindex: 0, role: "tabpanel" });
  private readonly tabs = new Map<Tab, HTMLButtonElement>();
  private tab: Tab = "table";
  private sort: keyof RowOfTable = "self_ns";
  private serial = 0;
  private readonly reports = new Map<string, Report>();

  constructor(
    private readonly stage: Stage,
    private readonly source: Source,
    private readonly search: (text: string) => void,
    closed: () => void,
  ) {
    const tab = (name: Tab, text: string): HTMLButtonElement => {
      const button = el("button", { role: "tab", onclick: () => this.show(name) }, text);
      this.tabs.set(name, button);
      return button;
    };
    this.element = el(
      "section", { id: "panel", hidden: true, "aria-label": "details" },
      el("nav", { role: "tablist" }, tab("table", "Functions"), tab("call", "Call"), el("span", { class: "space" }),
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

  /** Shows the tab anew. */
  async refresh(): Promise<void> {
    if (!this.is_shown) return;
    const serial = ++this.serial;
    const is_current = (): boolean => serial === this.serial;
    fill(this.body, el("p", { class: "soft" }, "reading…"));
    try {
      const content = this.tab === "table" ? await this.table() : await this.call();
      if (is_current()) fill(this.body, ...content);
    } catch (error) {
      if (is_current()) fill(this.body, el("p", { role: "alert" }, clean(String(error instanceof Error ? error.message : error))));
    }
  }

  /** What is marked, of a trace; `null`: it is not in there. */
  private marked(trace: number): Marked | null {
    const { mark } = this.stage.view;
    if (!mark) return {};
    const shift = this.stage.shifts[trace] ?? 0;
    const [from, to] = [Math.round(mark[0] - shift), Math.round(mark[1] - shift)];
    if (to < 0) return null;
    return { from_ns: Math.max(from, 0), to_ns: to };
  }

  private async table(): Promise<Node[]> {
    const found: Node[] = [];
    for (const [nth, trace] of this.stage.info.traces.entries()) {
      const marked = this.marked(nth);
      if (!marked) continue;
      const key = JSON.stringify([nth, marked]);
      const report = this.reports.get(key) ?? (await this.source.table(nth, marked));
      if (this.reports.size > 50) this.reports.clear();
      this.reports.set(key, report);
      const { from_ns, to_ns } = marked;
      const stretch = from_ns === undefined ? "--window" : `--since +${from_ns}ns --until +${to_ns}ns`;
      const command = `fdr report ${stretch} ${trace.word}`;
      const what = from_ns === undefined ? "the whole trace" : `${duration((to_ns ?? 0) - from_ns)} from ${duration(from_ns)} on`;
      const caption = el("caption", {}, `${clean(trace.file)}: ${what}, ${things(report.records, "record")} · the same as `, el("code", {}, clean(command)));
      found.push(this.rows(report, caption));
    }
    return found;
  }

  private rows(report: Report, caption: HTMLElement): HTMLElement {
    const value = (row: RowOfTable): number | string => row[this.sort] ?? -1;
    const rows = [...report.functions].sort((one, other) => {
      const [left, right] = [value(one), value(other)];
      return typeof left === "string" || typeof right === "string" ? String(left).localeCompare(String(right)) : right - left;
    });
    const head = (column: keyof RowOfTable, text: string): HTMLElement => {
      const sorted = this.sort === column;
      const sort = (): void => {
        this.sort = column;
        void this.refresh();
      };
      const order = column === "name" ? "ascending" : "descending";
      return el("th", { scope: "col", "aria-sort": sorted ? order : "none", class: column === "name" ? "name" : undefined }, el("button", { onclick: sort }, sorted ? `${text} ▾` : text));
    };
    const cell = (row: RowOfTable, column: keyof RowOfTable): HTMLElement => {
      const number = row[column] as number | null;
      if (column === "calls") return el("td", {}, count(row.calls));
      return number === null ? el("td", {}, "-") : el("td", { title: exact(number) }, duration(number));
    };
    const most = 500;
    return el(
      "table", {}, caption,
      el("thead", {}, el("tr", {}, ...COLUMNS.map(([column, text]) => head(column, text)), head("name", "function"))),
      el("tbody", {}, ...rows.slice(0, most).map((row) =>
        el("tr", { "data-function": row.id }, ...COLUMNS.map(([column]) => cell(row, column)),
          el("td", { class: "name" }, el("button", { class: "link", title: clean(row.name).slice(0, 2000), onclick: () => this.search(row.name) }, clean(row.name).slice(0, 500))))),
        rows.length > most && el("tr", {}, el("td", { colspan: 8, class: "soft" }, `${rows.length - most} more functions: fdr report has them`))),
    );
  }

  private async call(): Promise<Node[]> {
    const { selected } = this.stage.view;
    if (!selected) return [el("p", { class: "soft" }, "No call is selected: click on one, or use the arrow keys.")];
    return [this.facts(selected)];
  }

  private facts(call: Selected): HTMLElement {
    const { stage } = this;
    const trace = stage.trace(call.trace);
    const of = trace.functions.find((of) => of.id === call.function);
    const thread = trace.threads[call.thread];
    const name = call.function === SHORT ? "calls without records" : stage.name(call.trace, call.function);
    const facts: [string, string][] = [
      ["function", clean(name)],
      ["place", of?.file ? `${clean(of.file)}:${of.line}` : "not known"],
      ["thread", `${clean(thread?.name ?? "")} (thread ${thread?.id})`],
      ["begins", `${duration(stage.ns(trace, call.start - trace.begin))} after the trace's first record`],
      ["depth", String(call.depth)],
    ];
    return el("dl", {}, ...facts.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
  }
}
