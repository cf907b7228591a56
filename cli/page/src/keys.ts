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
  longest_inside(): void;
  slow(): void;
  tab(nth: number): void;
  tasks(): void;
  event(direction: 1 | -1): void | Promise<void>;
  holder(): void;
  pin(): void;
  align(): void;
  help(): void;
  theme(): void;
  renew(): void | Promise<void>;
}

/** Keys and what they do, for the help, in groups. */
export const KEYS: [string, [string, string][]][] = [
  ["Look around", [
    ["W or S", "zoom in, zoom out"],
    ["A or D", "move left, move right"],
    ["Page Up or Page Down", "threads above, threads below"],
    ["F", "show everything"],
    ["E", "show the selected call, or the marked time"],
    ["wheel", "zoom at the pointer; with Shift: move; on the names: threads"],
    ["drag", "move; with Shift: mark a stretch of time"],
    ["click", "select a call, a task or an event; on a wait: who held the lock; on a name: all rows of the thread; on ☆: pin it; on the heading of tasks: their lanes"],
  ]],
  ["Calls", [
    ["← or →", "previous, next call of the same depth"],
    ["↑ or ↓", "the call around, the first call inside"],
    ["Shift ↓", "the longest call inside"],
    ["J or Shift J", "the next, the previous event"],
    ["H", "who held the lock that the selected call waited for"],
    ["M", "mark the time of the selected call, or what is shown: the tables are then of that time"],
    ["Esc", "take back: search, mark, selection"],
  ]],
  ["Search", [
    ["/", "search functions and events: text, or a glob with * and ?. Enter goes to the first call shown"],
    ["N or P", "next, previous call that was found"],
  ]],
  ["Details", [
    ["C", "the slow calls"],
    ["1 … 7", "the tabs of the details, from the first to the last; arrows go from tab to tab"],
  ]],
  ["More", [
    ["K", "pin the thread of the selected call to the top, or take its pin away"],
    ["O", "show or hide the lanes of tasks"],
    ["L", "of several traces: align the calls that were selected last in each"],
    ["R", "a new snapshot, if the page shows a running process"],
    ["T", "light or dark"],
    ["?", "this help"],
  ]],
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
    j: () => void actions.event(event.shiftKey ? -1 : 1),
    h: actions.holder,
    k: actions.pin,
    l: actions.align,
    t: actions.theme,
    r: () => void actions.renew(),
    n: () => void actions.next(event.shiftKey ? -1 : 1),
    p: () => void actions.next(-1),
    c: actions.slow,
    ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7].map((nth) => [String(nth), () => actions.tab(nth)])),
    "/": actions.search,
    "?": actions.help,
    escape: actions.clear,
    ...(is_in_panel
      ? {}
      : {
          arrowleft: () => actions.step("left"),
          arrowright: () => actions.step("right"),
          arrowup: () => actions.step("up"),
          arrowdown: () => (event.shiftKey ? actions.longest_inside() : actions.step("down")),
          pageup: () => actions.scroll(-300),
          pagedown: () => actions.scroll(300),
        }),
  };
  const task = tasks[event.key.toLowerCase()];
  if (!task) return;
  event.preventDefault();
  task();
}
