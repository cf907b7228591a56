// What keys and the mouse do. All that the mouse can, keys can.

export interface Actions {
  zoom(factor: number): void;
  pan(share: number): void;
  scroll(pixels: number): void;
  fit(): void;
  fit_selected(): void;
  search(): void;
  next(direction: 1 | -1): void | Promise<void>;
  mark(): void;
  clear(): void;
  step(direction: "left" | "right" | "up" | "down"): void;
  tasks(): void;
  align(): void;
  help(): void;
  theme(): void;
  renew(): void | Promise<void>;
}

/** Keys and what they do, for the help. */
export const KEYS: [string, string][] = [
  ["W S", "zoom in, zoom out"],
  ["A D", "move left, move right"],
  ["Page Up, Page Down", "threads above, threads below"],
  ["F", "show everything"],
  ["E", "show the selected call, or the marked time"],
  ["← →", "previous, next call of the same depth"],
  ["↑ ↓", "the call around, the first call inside"],
  ["/", "search functions: text, or a glob with * and ?"],
  ["N, Shift N", "next, previous call that was found"],
  ["M", "mark the time of the selected call, or what is shown"],
  ["O", "show or hide the lanes of tasks"],
  ["L", "of several traces: align the calls that were selected last in each"],
  ["R", "a new snapshot, if the page shows a running process"],
  ["T", "light or dark"],
  ["Esc", "take back: search, mark, selection"],
  ["wheel", "zoom at the pointer; with Shift: move; on the names: threads"],
  ["drag", "move; with Shift: mark a stretch of time"],
  ["click", "select a call or a task; on a name: all rows of the thread; on the heading of tasks: their lanes"],
];

export function on_key(event: KeyboardEvent, actions: Actions): void {
  const target = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target.closest("input, select, textarea")) return;
  // In the panel, arrows and pages scroll it.
  const is_in_panel = target.closest("#panel") !== null;
  const tasks: Record<string, () => void> = {
    w: () => actions.zoom(0.7),
    "+": () => actions.zoom(0.7),
    s: () => actions.zoom(1 / 0.7),
    "-": () => actions.zoom(1 / 0.7),
    a: () => actions.pan(-0.15),
    d: () => actions.pan(0.15),
    f: actions.fit,
    e: actions.fit_selected,
    m: actions.mark,
    o: actions.tasks,
    l: actions.align,
    t: actions.theme,
    r: () => void actions.renew(),
    n: () => void actions.next(event.shiftKey ? -1 : 1),
    "/": actions.search,
    "?": actions.help,
    escape: actions.clear,
    ...(is_in_panel
      ? {}
      : {
          arrowleft: () => actions.step("left"),
          arrowright: () => actions.step("right"),
          arrowup: () => actions.step("up"),
          arrowdown: () => actions.step("down"),
          pageup: () => actions.scroll(-300),
          pagedown: () => actions.scroll(300),
        }),
  };
  const task = tasks[event.key.toLowerCase()];
  if (!task) return;
  event.preventDefault();
  task();
}
