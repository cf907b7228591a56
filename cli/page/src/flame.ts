// The flame graph of the stretch that is marked: what every path of calls took, outermost on top.

import { el, fill } from "./dom";
import { clean, duration, last } from "./format";
import { Host, marked, stretch } from "./host";
import { Flame, SHORT } from "./model";
import { css } from "./tones";

const ROW = 19;
/** Pixels below which a bar has no name. */
const NAMED = 25;

let by = "time";

export async function flame(host: Host): Promise<Node[]> {
  const { stage, source } = host;
  const found: Node[] = [];
  const kinds = [["time", "time"], ["running", "running"], ["preempted", "preempted"], ["waiting", "waiting"]] as const;
  const has_states = source.is_served && stage.info.traces.some((trace) => trace.has_states);
  if (has_states) {
    const button = ([kind, text]: readonly [string, string]): HTMLElement => {
      const choose = (): void => {
        by = kind;
        host.refresh();
      };
      return el("button", { "aria-pressed": String(kind === by), onclick: choose }, text);
    };
    found.push(el("div", { class: "buttons" }, ...kinds.map(button)));
  } else by = "time";
  for (const [nth, trace] of stage.info.traces.entries()) {
    const wanted = marked(stage, nth);
    if (!wanted || (by !== "time" && !trace.has_states)) continue;
    const graph = await source.flame(nth, wanted, by, host.signal);
    const { words, options } = stretch(wanted, "");
    const state = by === "time" ? "" : `--by ${by} `;
    const left_out = graph.left_out > 0 ? ` · ${duration(graph.left_out)} in paths too small to see` : "";
    const same = source.is_served && trace.word ? ["the same as ", el("code", {}, clean(`fdr flame ${state}${options}${trace.word}`))] : [];
    found.push(el("h2", { class: "soft", tabindex: -1 }, `${clean(trace.file)}: ${words}${left_out} · `, ...same));
    found.push(picture(graph, host, new Map(trace.functions.map((of) => [of.name || `#${of.id}`, of.id]))));
  }
  return found;
}

function picture(graph: Flame, host: Host, ids: Map<string, number>): HTMLElement {
  const box = el("div", { class: "flame" });
  const tip = el("div", { class: "tip", hidden: true });
  const texts = new Map<Element, string>();
  /** Tells of a bar beside the pointer, or below the bar that has the focus. */
  const tell = (bar: Element | null, x: number, y: number): void => {
    const text = bar && texts.get(bar);
    tip.hidden = !text;
    if (!text) return;
    fill(tip, text);
    tip.style.left = `${Math.max(Math.min(x + 12, window.innerWidth - tip.offsetWidth - 8), 0)}px`;
    tip.style.top = `${y + 16 + tip.offsetHeight > window.innerHeight ? y - tip.offsetHeight - 8 : y + 16}px`;
  };
  box.addEventListener("pointermove", (event) => tell((event.target as Element).closest("button"), event.clientX, event.clientY));
  box.addEventListener("pointerleave", () => tell(null, 0, 0));
  box.addEventListener("focusin", (event) => {
    const bar = event.target as Element;
    const { left, bottom } = bar.getBoundingClientRect();
    if (bar.matches(":focus-visible")) tell(bar, left, bottom - 10);
  });
  box.addEventListener("focusout", () => tell(null, 0, 0));
  const below: number[][] = graph.paths.map(() => []);
  graph.paths.forEach((path, nth) => nth > 0 && below[path.caller]?.push(nth));
  for (const list of below) list.sort((one, other) => (graph.paths[other]?.total ?? 0) - (graph.paths[one]?.total ?? 0));
  const show = (root: number): void => {
    const bars: Node[] = [];
    texts.clear();
    const all = graph.paths[root]?.total || 1;
    // The path to the root stands on top; a click on it goes back.
    const above: number[] = [];
    for (let at = root; at !== 0; at = graph.paths[at]?.caller ?? 0) above.unshift(graph.paths[at]?.caller ?? 0);
    let deepest = 0;
    const bar = (nth: number, depth: number, left: number, width: number): void => {
      const path = graph.paths[nth];
      if (!path) return;
      deepest = Math.max(deepest, depth);
      const name = nth === 0 ? "all" : clean(path.name);
      const share = ((path.total / (graph.paths[0]?.total || 1)) * 100).toFixed(1);
      const text = `${name.slice(0, 1000)}\n${duration(path.total)}, ${share} %; ${duration(path.own)} by itself`;
      const label = width * (host.stage.width - 24) < NAMED ? "" : last(name).slice(0, 200);
      const button = el("button", { "aria-label": text, onclick: () => show(nth), ondblclick: () => nth > 0 && host.search(path.name) }, label);
      texts.set(button, text);
      button.style.left = `${left * 100}%`;
      button.style.width = `calc(${width * 100}% - 1px)`;
      button.style.top = `${depth * ROW}px`;
      button.style.background = nth === 0 ? "var(--raised)" : css(ids.get(path.name.replace(/ \[joined\]$/, "")) ?? SHORT);
      bars.push(button);
    };
    above.forEach((nth, depth) => bar(nth, depth, 0, 1));
    const waiting: [number, number, number][] = [[root, above.length, 0]];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const [nth, depth, left] = next;
      const width = (graph.paths[nth]?.total ?? 0) / all;
      if (width < 0.001) continue;
      bar(nth, depth, left, width);
      let at = left;
      for (const child of below[nth] ?? []) {
        waiting.push([child, depth + 1, at]);
        at += (graph.paths[child]?.total ?? 0) / all;
      }
    }
    const had_focus = box.contains(document.activeElement);
    fill(box, ...bars, tip);
    tip.hidden = true;
    if (had_focus) (bars[above.length] as HTMLElement | undefined)?.focus({ preventScroll: true });
    box.style.height = `${(deepest + 1) * ROW + 4}px`;
  };
  show(0);
  return box;
}
