// The help: keys by what they are for, and what the colours and signs of the lanes mean.

import { el } from "./dom";
import { KEYS } from "./keys";

/** A sign as the lanes draw it, and its meaning. */
const SIGNS: [string, string][] = [
  ["running", "the band above the calls: the thread ran on a CPU"],
  ["preempted", "it was ready, and another thread had its CPU"],
  ["waiting", "it waited: for a lock, for data, for a time"],
  ["unknown", "its state is not known"],
  ["change", "a tick across the band: it came to another CPU"],
  ["call", "a call; each function has a colour of its own, and rows below are the calls it made"],
  ["joined", "bars without a name: calls too short to draw, joined; the longest gives its colour"],
  ["cut", "a grey edge: that edge of the call is not in the trace"],
  ["found", "pale: not among the functions that were searched"],
  ["hatched", "not known: overwritten, missing, or not read yet. Empty: no recorded function"],
  ["event", "an event: a click shows its values"],
  ["wait", "a wait for a lock; its arrow leads to the thread that held the lock"],
  ["break", "an orange line: the clock jumped"],
  ["moment", "a blue line: a named moment"],
];

export function help(): HTMLDialogElement {
  const group = ([title, keys]: (typeof KEYS)[number]): Node[] => [
    el("h3", {}, title),
    el("table", {}, el("tbody", {}, ...keys.map(([keys, what]) => el("tr", {}, el("td", {}, ...keys.split(" or ").flatMap((key, nth) => [nth > 0 && " ", el("kbd", {}, key)])), el("td", {}, what))))),
  ];
  const signs = el("table", {}, el("tbody", {}, ...SIGNS.map(([sign, what]) => el("tr", {}, el("td", {}, el("i", { class: `swatch ${sign}` })), el("td", {}, what)))));
  const half = Math.ceil(KEYS.length / 2);
  return el(
    "dialog", { "aria-label": "keys and signs" },
    el("form", { method: "dialog" }, el("button", {}, "close")),
    el("div", { class: "columns" },
      el("div", {}, el("h2", {}, "Keys"), ...KEYS.slice(0, half).flatMap(group)),
      el("div", {}, ...KEYS.slice(half).flatMap(group), el("h2", {}, "Colours and signs"), signs)),
  );
}
