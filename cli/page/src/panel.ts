// Below the lanes: the functions of a stretch of time as a table and as a flame graph, its slow calls, and what is known
// of one call. Each part is in a file of its own.

import { Causes } from "./causes";
import { el, fill } from "./dom";
import { clean } from "./format";
import { call } from "./details";
import { event } from "./events";
import { flame } from "./flame";
import { slow } from "./slow";
import { task } from "./task";
import { tree } from "./tree";
import { Tables } from "./tables";
import { Host } from "./host";
import { Source } from "./model";
import { Stage } from "./stage";

export type Tab = "table" | "flame" | "tree" | "slow" | "call" | "task" | "event";

const TABS: [Tab, string][] = [["table", "Functions"], ["flame", "Flame graph"], ["tree", "Call tree"], ["slow", "Slow calls"], ["call", "Call"], ["task", "Task"], ["event", "Event"]];

export class Panel {
  readonly element: HTMLElement;
  private readonly body = el("div", { class: "body", id: "tab", tabindex: 0, role: "tabpanel" });
  private readonly handle = el("div", {
    class: "handle", role: "separator", tabindex: 0, "aria-orientation": "horizontal", "aria-label": "height of the details",
    title: "drag, or ↑ and ↓: the height; double click, or Enter: all of it",
  });
  private readonly tabs = new Map<Tab, HTMLButtonElement>();
  private readonly tables: Tables;
  private tab: Tab = "table";
  private serial = 0;
  private control = new AbortController();
  /** The control that had the focus before the content was made anew. */
  private lost: string | null = null;

  constructor(
    private readonly stage: Stage,
    private readonly source: Source,
    private readonly causes: Causes,
    private readonly actions: Pick<Host, "search" | "select" | "locate" | "go" | "show_task" | "show_event">,
    closed: () => void,
    private readonly resized: () => void,
  ) {
    TABS.forEach(([name, text], nth) => {
      this.tabs.set(name, el("button", { role: "tab", "aria-controls": "tab", tabindex: -1, title: String(nth + 1), onclick: () => this.show(name) }, text));
    });
    this.tables = new Tables();
    this.element = el(
      "section", { id: "panel", hidden: true, "aria-label": "details" },
      this.handle,
      el("nav", {}, el("div", { role: "tablist", onkeydown: (event: KeyboardEvent) => this.next_tab(event) }, ...this.tabs.values()), el("span", { class: "space" }),
        el("button", { onclick: closed, "aria-label": "close the details" }, "close")),
      this.body,
    );
    this.sizes();
  }

  /** Arrows go from tab to tab. */
  private next_tab(event: KeyboardEvent): void {
    const shown = this.shown_tabs();
    const at = shown.indexOf(this.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + shown.length, Home: 0, End: shown.length - 1 }[event.key];
    const tab = to === undefined ? undefined : shown[to % shown.length];
    if (!tab) return;
    event.preventDefault();
    event.stopPropagation();
    this.show(tab);
    this.tabs.get(tab)?.focus();
  }

  private shown_tabs(): Tab[] {
    const has_tasks = this.stage.info.traces.some((trace) => trace.tasks && trace.tasks.tasks > 0);
    const has_events = this.stage.info.traces.some((trace) => trace.functions.some((of) => of.is_event));
    const has: Partial<Record<Tab, boolean>> = { task: has_tasks, event: has_events };
    return TABS.map(([name]) => name).filter((name) => has[name] !== false || this.tab === name);
  }

  /** Shows a tab by its place, from 1. */
  show_nth(nth: number): void {
    const tab = TABS[nth - 1]?.[0];
    if (tab && this.shown_tabs().includes(tab)) this.show(tab);
  }

  /** The height of the panel, as the handle says; kept for the next time. */
  private sizes(): void {
    const set = (share: number | null): void => {
      const height = share === null ? null : Math.min(Math.max(share, 0.12), 0.9);
      this.element.style.height = height === null ? "" : `${(height * 100).toFixed(2)}%`;
      keep(height);
      this.resized();
      tell();
    };
    const tell = (): void => this.handle.setAttribute("aria-valuenow", String(Math.round(now() * 100)));
    const now = (): number => this.element.offsetHeight / window.innerHeight;
    const most = (): void => set(now() > 0.85 ? null : 0.9);
    const known = kept();
    if (known !== null) this.element.style.height = `${(known * 100).toFixed(2)}%`;
    this.handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      this.handle.setPointerCapture(event.pointerId);
    });
    this.handle.addEventListener("pointermove", (event) => {
      if (this.handle.hasPointerCapture(event.pointerId)) set(1 - event.clientY / window.innerHeight);
    });
    this.handle.addEventListener("dblclick", most);
    this.handle.addEventListener("focus", tell);
    this.handle.addEventListener("keydown", (event) => {
      const by = { ArrowUp: 0.05, ArrowDown: -0.05 }[event.key];
      if (by === undefined && event.key !== "Enter") return;
      event.preventDefault();
      event.stopPropagation();
      if (by === undefined) most();
      else set(now() + by);
    });
  }

  /** Whether a tab is the one that is shown. */
  is_at(tab: Tab): boolean {
    return this.is_shown && this.tab === tab;
  }

  get is_shown(): boolean {
    return !this.element.hidden;
  }

  hide(): void {
    this.element.hidden = true;
  }

  show(tab: Tab): void {
    const was_shown = this.is_shown;
    this.tab = tab;
    this.element.hidden = false;
    this.mark_tabs();
    if (!was_shown) this.resized();
    void this.refresh();
  }

  private mark_tabs(): void {
    const shown = this.shown_tabs();
    for (const [name, button] of this.tabs) {
      button.setAttribute("aria-selected", String(name === this.tab));
      button.tabIndex = name === this.tab ? 0 : -1;
      button.hidden = !shown.includes(name);
    }
  }

  /** The traces are others. */
  renew(): void {
    this.tables.forget();
    this.causes.forget();
    void this.refresh();
  }

  /** Shows the tab anew. */
  async refresh(): Promise<void> {
    if (!this.is_shown) return;
    const serial = ++this.serial;
    this.control.abort();
    this.control = new AbortController();
    const is_current = (): boolean => serial === this.serial;
    const host: Host = { ...this.actions, stage: this.stage, source: this.source, causes: this.causes, refresh: () => void this.refresh(), is_current, signal: this.control.signal };
    this.mark_tabs();
    const { activeElement: focused } = document;
    if (focused && focused !== this.body && this.body.contains(focused) && focused.matches(":focus-visible")) this.lost = focused.getAttribute("data-key") ?? "";
    fill(this.body, el("p", { class: "soft" }, "reading…"));
    const makers: Record<Tab, () => Promise<Node[]>> = {
      table: () => this.tables.make(host),
      flame: () => flame(host),
      tree: () => tree(host),
      slow: () => slow(host),
      call: () => call(host),
      task: () => task(host),
      event: () => event(host),
    };
    try {
      const content = await makers[this.tab]();
      if (!is_current()) return;
      fill(this.body, ...content);
      this.body.scrollTop = 0;
      this.find_focus();
    } catch (error) {
      if (is_current()) fill(this.body, el("p", { role: "alert" }, clean(String(error instanceof Error ? error.message : error))));
    }
  }

  /** What had the focus is gone: the same control gets it, or the heading. */
  private find_focus(): void {
    const key = this.lost;
    this.lost = null;
    if (key === null || document.activeElement !== document.body) return;
    const all = [...this.body.querySelectorAll<HTMLElement>("[data-key]")];
    const next = all.find((element) => key && element.dataset["key"] === key) ?? this.body.querySelector<HTMLElement>("h2, button");
    (next ?? this.body).focus({ preventScroll: true });
  }
}

const PLACE = "fdr-view-panel";

/** The part of the window that the panel took last time. */
function kept(): number | null {
  try {
    const share = Number(localStorage.getItem(PLACE));
    return share >= 0.12 && share <= 0.9 ? share : null;
  } catch {
    // A browser may keep nothing of a file.
    return null;
  }
}

function keep(share: number | null): void {
  try {
    if (share === null) localStorage.removeItem(PLACE);
    else localStorage.setItem(PLACE, String(share));
  } catch {
    // The height holds for as long as the page is open.
  }
}
