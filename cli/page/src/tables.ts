// The table of functions, which can be read aloud: the figures of `fdr report` for the stretch that is marked. If nothing is
// marked, they are those of the whole run where the trace has them, as the command's are.

import { compare } from "./compare";
import { el } from "./dom";
import { clean, count, duration, exact, things } from "./format";
import { Host, marked, stretch } from "./host";
import { Report, RowOfTable } from "./model";

type Column = keyof RowOfTable;

const COLUMNS: [Column, string][] = [
  ["calls", "calls"], ["total_ns", "total"], ["self_ns", "self"], ["mean_ns", "mean"], ["p50_ns", "p50"], ["p99_ns", "p99"], ["max_ns", "max"],
];
const MOST = 500;

/** The same report with the figures of the whole run, if it has them. */
const whole_run = (report: Report): Report | null => (report.whole_run ? { ...report, functions: report.whole_run } : null);

export class Tables {
  private sort: Column = "self_ns";
  private readonly reports = new Map<string, Report>();

  /** The trace is another one. */
  forget(): void {
    this.reports.clear();
  }

  async make(host: Host): Promise<Node[]> {
    const { stage, source } = host;
    const found: Node[] = [];
    const reports: Report[] = [];
    for (const [nth, trace] of stage.info.traces.entries()) {
      const wanted = marked(stage, nth);
      if (!wanted) continue;
      const key = JSON.stringify([nth, wanted]);
      const known = this.reports.get(key) ?? (await source.table(nth, wanted, host.signal));
      if (this.reports.size > 50) this.reports.clear();
      this.reports.set(key, known);
      // The whole run says nothing of a stretch.
      const report = wanted.from_ns === undefined ? known : { ...known, whole_run: null };
      reports.push(report);
      const whole = whole_run(report);
      const { words, options } = stretch(wanted, "--window ");
      const scope = whole ? "the whole run, also calls that are not in the trace any more" : `${words}, ${things(report.records, "record")}`;
      const caption = el("caption", {}, `${clean(trace.file)}: ${scope} · `);
      if (report.note) caption.append(report.note);
      else if (trace.word) caption.append("the same as ", el("code", {}, clean(`fdr report ${whole ? "" : options}${trace.word}`)));
      found.push(this.table(host, nth, whole ?? report, caption));
    }
    const [before, after] = reports;
    const names = stage.info.traces.map((trace) => trace.file) as [string, string];
    if (reports.length === 2 && before && after) {
      // A difference between a whole run and the records of the other trace would say nothing.
      const whole = [whole_run(before), whole_run(after)];
      const [first, second] = whole[0] && whole[1] ? [whole[0], whole[1]] : [before, after];
      const scope = first !== before ? "the whole runs" : whole[0] || whole[1] ? "the records alone, because one trace has no figures of the whole run" : "";
      found.unshift(compare(host, first, second, names, scope));
    }
    return found;
  }

  private table(host: Host, nth: number, report: Report, caption: HTMLElement): HTMLElement {
    const is_marked = host.stage.view.mark !== null;
    const value = (row: RowOfTable): number | string => row[this.sort] ?? -1;
    const rows = [...report.functions].sort((one, other) => {
      const [left, right] = [value(one), value(other)];
      return typeof left === "string" || typeof right === "string" ? String(left).localeCompare(String(right)) : right - left;
    });
    const head = (column: Column, text: string): HTMLElement => {
      const is_sorted = this.sort === column;
      const sort = (): void => {
        this.sort = column;
        host.refresh();
      };
      const order = column === "name" ? "ascending" : "descending";
      return el("th", { scope: "col", "aria-sort": is_sorted ? order : "none", class: column === "name" ? "name" : undefined }, el("button", { onclick: sort, "data-key": column }, is_sorted ? `${text} ▾` : text));
    };
    const cell = (row: RowOfTable, column: Column): HTMLElement => {
      if (column === "calls") return el("td", {}, count(row.calls));
      const number = row[column] as number | null;
      if (number === null) return el("td", { title: row.clipped > 0 && is_marked ? "no call is whole in this stretch: all are cut by its edges" : "not known" }, "-");
      const text = duration(number);
      if (column !== "max_ns") return el("td", { title: exact(number) }, text);
      return el("td", { title: exact(number) }, el("button", { class: "link", "aria-label": `${text}: the slowest call`, onclick: () => void slowest(row) }, text));
    };
    const slowest = async (row: RowOfTable): Promise<void> => {
      const { slowest } = await host.source.survey(nth, [row.id], null, marked(host.stage, nth) ?? {});
      const [call] = slowest;
      if (call) host.select(nth, call);
      else host.search(row.name);
    };
    const row = (row: RowOfTable): HTMLElement =>
      el("tr", { "data-function": row.id }, ...COLUMNS.map(([column]) => cell(row, column)),
        el("td", { class: "name" },
          el("button", { class: "find", title: "search: go through its calls", "aria-label": `search ${clean(row.name).slice(0, 300)}`, onclick: () => host.search(row.name) }, "⌕"),
          el("button", { class: "link", title: `${clean(row.name).slice(0, 2000)}: its slowest call`, onclick: () => void slowest(row) }, clean(row.name).slice(0, 500))));
    return el(
      "table", {}, caption,
      el("thead", {}, el("tr", {}, ...COLUMNS.map(([column, text]) => head(column, text)), head("name", "function"))),
      el("tbody", {}, ...rows.slice(0, MOST).map(row),
        rows.length > MOST && el("tr", {}, el("td", { colspan: 8, class: "soft" }, `${rows.length - MOST} more functions: fdr report has them`))),
    );
  }
}
