// The flame graph of the stretch that is marked: what every path of calls took, outermost on top.

import { el, fill } from "./dom";
import { clean, duration, tail } from "./format";
import { Flame } from "./model";
import { Host, marked, stretch } from "./panel";

const ROW = 19;

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
    const graph = await source.flame(nth, wanted, by);
    const { words, options } = stretch(wanted, "");
    const state = by === "time" ? "" : `--by ${by} `;
    const left_out = graph.left_out > 0 ? ` · ${duration(graph.left_out)} in paths too small to see` : "";
    const same = source.is_served && trace.word ? ["the same as ", el("code", {}, clean(`fdr flame ${state}${options}${trace.word}`))] : [];
    found.push(el("p", { class: "soft" }, `${clean(trace.file)}: ${words}${left_out} · `, ...same));
    found.push(picture(graph, host));
  }
  return found;
}

function picture(graph: Flame, host: Host): HTMLElement {
  const box = el("div", { class: "flame" });
  const below: number[][] = graph.paths.map(() => []);
  graph.paths.forEach((path, nth) => nth > 0 && below[path.caller]?.push(nth));
  for (const list of below) list.sort((one, other) => (graph.paths[other]?.total ?? 0) - (graph.paths[one]?.total ?? 0));
  const show = (root: number): void => {
    const bars: Node[] = [];
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
      const title = `${name.slice(0, 1000)}\n${duration(path.total)} in all, ${duration(path.own)} by itself (${((path.total / (graph.paths[0]?.total || 1)) * 100).toFixed(1)} %)`;
      const button = el("button", { title, onclick: () => show(nth), ondblclick: () => nth > 0 && host.search(path.name) }, tail(name).slice(0, 200));
      const hue = nth === 0 ? 0 : hash(path.name);
      button.style.left = `${left * 100}%`;
      button.style.width = `calc(${width * 100}% - 1px)`;
      button.style.top = `${depth * ROW}px`;
      button.style.background = nth === 0 ? "var(--raised)" : `hsl(${hue} var(--chroma) var(--lightness))`;
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
    fill(box, ...bars);
    box.style.height = `${(deepest + 1) * ROW + 4}px`;
  };
  show(0);
  return box;
}

/** A hue by name. */
function hash(name: string): number {
  let sum = 7;
  for (let at = 0; at < Math.min(name.length, 200); at++) sum = (Math.imul(sum, 31) + name.charCodeAt(at)) >>> 0;
  return (sum * 137.508) % 360;
}
