// The call tree of the stretch that is marked: each path of calls below its caller, the longest first, with total and self
// time. The figures are those of `fdr report --tree`.

import { el, fill } from "./dom";
import { clean, count, duration, exact, things } from "./format";
import { Host, marked, stretch } from "./host";
import { Tree, TreePath } from "./model";

/** Paths of at least this part of all time are open at first. */
const OPEN_SHARE = 0.1;
const MOST_ROWS = 5000;

/** Paths that the user has opened or closed, by their names. They stay so when another stretch is marked. */
const chosen = new Map<string, boolean>();

export async function tree(host: Host): Promise<Node[]> {
  const { stage, source } = host;
  const found: Node[] = [];
  for (const [nth, trace] of stage.info.traces.entries()) {
    const wanted = marked(stage, nth);
    if (!wanted || !trace.has_times) continue;
    const answer = await source.tree(nth, wanted, host.signal);
    const { words, options } = stretch(wanted, "");
    const left_out = answer.paths_not_shown > 0 ? ` · ${things(answer.paths_not_shown, "path")} of ${duration(answer.not_shown_ns)} left out` : "";
    const same = source.is_served && trace.word ? [" · the same as ", el("code", {}, clean(`fdr report --tree --min ${answer.min_share * 100}% ${options}${trace.word}`))] : [];
    found.push(el("h2", { class: "soft", tabindex: -1 }, `${clean(trace.file)}: ${words}${left_out}`, ...same), table(host, nth, answer));
  }
  return found.length > 0 ? found : [el("p", { class: "soft" }, "The calls have no times.")];
}

function table(host: Host, nth: number, answer: Tree): HTMLElement {
  const { paths, all_ns } = answer;
  /** Names from the outermost function on. */
  const keys = paths.map(() => "");
  const has_below = new Set<number>();
  paths.forEach((path, at) => {
    keys[at] = `${path.caller === null ? nth : keys[path.caller]}\n${path.name}`;
    if (path.caller !== null) has_below.add(path.caller);
  });
  const is_open = (at: number): boolean => has_below.has(at) && (chosen.get(keys[at] ?? "") ?? (paths[at]?.total_ns ?? 0) >= all_ns * OPEN_SHARE);
  /** The paths whose callers are all open, in order. */
  const shown = (): number[] => {
    const seen: number[] = [];
    const is_seen = paths.map(() => false);
    paths.forEach(({ caller }, at) => {
      is_seen[at] = caller === null || (is_seen[caller] === true && is_open(caller));
      if (is_seen[at]) seen.push(at);
    });
    return seen;
  };
  let current = 0;
  const body = el("tbody", {});
  const show = (): void => {
    const all = shown();
    const rows = all.slice(0, MOST_ROWS).map((at) => row(paths[at] as TreePath, at));
    fill(body, ...rows, all.length > MOST_ROWS && el("tr", {}, el("td", { colspan: 5, class: "soft" }, `${count(all.length - MOST_ROWS)} more paths: close some`)));
  };
  const focus = (at: number): void => {
    current = at;
    for (const row of body.rows) row.tabIndex = row.dataset["path"] === String(at) ? 0 : -1;
    body.querySelector<HTMLElement>(`[data-path="${at}"]`)?.focus();
  };
  const open = (at: number, is: boolean): void => {
    chosen.set(keys[at] ?? "", is);
    show();
    focus(at);
  };
  const row = (path: TreePath, at: number): HTMLElement => {
    const opens = has_below.has(at);
    const sign = el("span", { class: "twist" }, opens ? (is_open(at) ? "▾" : "▸") : "");
    const name = el("td", { class: "name", title: clean(path.name).slice(0, 2000) },
      sign, el("button", { class: "find", tabindex: -1, title: "search: go through its calls", onclick: (event: Event) => (event.stopPropagation(), host.search(path.name)) }, "⌕"), clean(path.name).slice(0, 500));
    name.style.paddingLeft = `${8 + Math.min(path.depth, 60) * 14}px`;
    return el("tr", {
      role: "row", tabindex: at === current ? 0 : -1, "data-path": at, "aria-level": path.depth + 1, "aria-expanded": opens ? String(is_open(at)) : undefined,
      onclick: () => (opens ? open(at, !is_open(at)) : focus(at)),
    },
      el("td", { title: exact(path.total_ns) }, duration(path.total_ns)), el("td", { title: exact(path.self_ns) }, duration(path.self_ns)),
      el("td", {}, `${(path.share * 100).toFixed(1)} %`), el("td", {}, path.calls > 0 ? count(path.calls) : "-"), name);
  };
  /** Arrows, as in other trees. */
  const key = (event: KeyboardEvent): void => {
    const all = shown();
    const at = all.indexOf(current);
    const path = paths[current];
    if (!path || at < 0 || event.ctrlKey || event.altKey || event.metaKey) return;
    const to = { ArrowDown: all[at + 1], ArrowUp: all[at - 1], Home: all[0], End: all[Math.min(all.length, MOST_ROWS) - 1] }[event.key];
    if (to !== undefined) focus(to);
    else if (event.key === "ArrowRight" && has_below.has(current)) is_open(current) ? focus(all[at + 1] ?? current) : open(current, true);
    else if (event.key === "ArrowLeft") is_open(current) ? open(current, false) : focus(path.caller ?? current);
    else if (event.key === "Enter") host.search(path.name);
    else if (!/^(Arrow|Home|End)/.test(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  body.addEventListener("keydown", key);
  show();
  const heads = ["total", "self", "total %", "calls"].map((text) => el("th", { scope: "col" }, text));
  return el("table", { class: "tree", role: "treegrid", "aria-label": "call tree: arrows go through it, Enter searches the calls of a function" },
    el("thead", {}, el("tr", {}, ...heads, el("th", { scope: "col", class: "name" }, "function"))), body);
}
