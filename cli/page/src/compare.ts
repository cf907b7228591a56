// Two traces side by side: for each function its calls, total and self time and its slowest call, in the first trace and
// in the second one, and the change. Functions are the same if their names are. No change has a colour, because a change
// between two runs may be chance.

import { el } from "./dom";
import { clean, count, duration, exact } from "./format";
import { Host } from "./host";
import { Report } from "./model";

const MOST = 500;

type Figure = "calls" | "total_ns" | "self_ns" | "max_ns";
const FIGURES: [Figure, string][] = [["calls", "calls"], ["total_ns", "total"], ["self_ns", "self"], ["max_ns", "max"]];

type Figures = Record<Figure, number | null>;

/** What two traces say of a function. */
interface Pair {
  name: string;
  before: Figures | null;
  after: Figures | null;
}

let sort: Figure = "self_ns";

/** By name: of several functions of a name, the sum, or the largest. */
function by_name(report: Report): Map<string, Figures> {
  const found = new Map<string, Figures>();
  const join = (figure: Figure, one: number | null, other: number | null): number | null => {
    if (one === null && other === null) return null;
    return figure === "max_ns" ? Math.max(one ?? 0, other ?? 0) : (one ?? 0) + (other ?? 0);
  };
  for (const row of report.functions) {
    const known = found.get(row.name);
    const figures: Figures = { calls: row.calls, total_ns: row.total_ns, self_ns: row.self_ns, max_ns: row.max_ns };
    if (known) for (const [figure] of FIGURES) figures[figure] = join(figure, known[figure], figures[figure]);
    found.set(row.name, figures);
  }
  return found;
}

/** A function that a trace does not have was not called there: its times are 0, and there is no slowest call. */
const value = (figures: Figures | null, figure: Figure): number | null => (figures ? figures[figure] : figure === "max_ns" ? null : 0);

function change(pair: Pair, figure: Figure): number | null {
  const [before, after] = [value(pair.before, figure), value(pair.after, figure)];
  return before === null || after === null ? null : after - before;
}

/** `scope`: of what the figures are, if that has to be said. */
export function compare(host: Host, before: Report, after: Report, names: [string, string], scope: string): HTMLElement {
  const [first, second] = [by_name(before), by_name(after)];
  const all = [...new Set([...first.keys(), ...second.keys()])];
  const pairs = all.map((name): Pair => ({ name, before: first.get(name) ?? null, after: second.get(name) ?? null }));
  pairs.sort((one, other) => Math.abs(change(other, sort) ?? 0) - Math.abs(change(one, sort) ?? 0));
  const head = ([figure, text]: [Figure, string]): HTMLElement[] => {
    const by = (): void => {
      sort = figure;
      host.refresh();
    };
    const is_sorted = sort === figure;
    return [
      el("th", { scope: "col", class: "first" }, `${text} before`), el("th", { scope: "col" }, "after"),
      el("th", { scope: "col", "aria-sort": is_sorted ? "descending" : "none" }, el("button", { onclick: by, "data-key": figure }, is_sorted ? "change ▾" : "change")),
    ];
  };
  const text = (figure: Figure, number: number): string => (figure === "calls" ? (number < 0 ? `-${count(-number)}` : count(number)) : duration(number));
  const cell = (figure: Figure, number: number | null): HTMLElement => {
    if (number === null) return el("td", {}, "-");
    return el("td", { title: figure === "calls" ? undefined : exact(number) }, text(figure, number));
  };
  const cells = (pair: Pair, figure: Figure): HTMLElement[] => {
    const [was, by] = [value(pair.before, figure), change(pair, figure)];
    const percent = by !== null && was ? `, ${by > 0 ? "+" : ""}${((by / was) * 100).toFixed(1)} %` : "";
    const sign = by !== null && by > 0 ? "+" : "";
    const title = by === null ? undefined : `${sign}${figure === "calls" ? count(by) : exact(by)}${percent}`;
    return [cell(figure, was), cell(figure, value(pair.after, figure)), el("td", { class: by ? undefined : "soft", title }, by === null ? "-" : `${sign}${text(figure, by)}`)];
  };
  const row = (pair: Pair): HTMLElement =>
    el("tr", { "data-compared": true },
      el("td", { class: "name" }, el("button", { class: "link", title: clean(pair.name).slice(0, 2000), onclick: () => host.search(pair.name) }, clean(pair.name).slice(0, 500))),
      ...FIGURES.flatMap(([figure]) => cells(pair, figure)));
  return el(
    "table", { class: "compared" },
    el("caption", {}, `before: ${clean(names[0])} · after: ${clean(names[1])} · ${scope ? `figures of ${scope} · ` : ""}one run on each side: a change may be chance · functions are the same if their names are`),
    el("thead", {}, el("tr", {}, el("th", { scope: "col", class: "name" }, "function"), ...FIGURES.flatMap(head))),
    el("tbody", {}, ...pairs.slice(0, MOST).map(row), pairs.length > MOST && el("tr", {}, el("td", { colspan: 13, class: "soft" }, `${pairs.length - MOST} more functions: fdr diff has them`))),
  );
}
