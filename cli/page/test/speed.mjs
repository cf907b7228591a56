// How fast the page is with a large trace: until the first picture, until a step of zoom or of pan is sharp, and each
// frame; and how much memory the server takes. By hand: node speed.mjs BROWSER FDR TRACE [STEPS] prints the figures.
import { chromium } from "playwright-core";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { readFileSync } from "node:fs";

const [executablePath, fdr, trace, steps = "300"] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const begin = performance.now();
const server = spawn(fdr, ["view", "--no-open", trace], { stdio: ["ignore", "pipe", "inherit"] });
const line = await new Promise((done) => createInterface({ input: server.stdout }).once("line", done));
const page = await (await browser.newContext({ viewport: { width: 1280, height: 800 } })).newPage();

// What the page asks for and when it draws. Its only frames are drawings.
await page.addInitScript(() => {
  const seen = (window.seen = { pending: 0, asked: 0, drawn: 0, drawings: [], last: 0 });
  const frame = window.requestAnimationFrame.bind(window);
  window.frame = frame;
  window.requestAnimationFrame = (draw) =>
    frame((time) => {
      const from = performance.now();
      draw(time);
      seen.last = performance.now();
      seen.drawn += 1;
      seen.drawings.push(seen.last - from);
    });
  const fetch = window.fetch.bind(window);
  window.fetch = async (address, options) => {
    if (String(address).includes("alive")) return fetch(address, options);
    seen.pending += 1;
    seen.asked += 1;
    try {
      const answer = await fetch(address, options);
      const bytes = await answer.arrayBuffer();
      return new Response(bytes, { status: answer.status });
    } finally {
      seen.pending -= 1;
    }
  };
});
await page.goto(line.slice(line.indexOf("http://")));
const has_picture = () => {
  const canvas = document.querySelector("canvas");
  if (!canvas || window.seen.asked < 2 || window.seen.drawn < 2) return false;
  const data = canvas.getContext("2d").getImageData(200, 70, canvas.width - 210, 100).data;
  const colours = new Set();
  for (let at = 0; at < data.length; at += 4) colours.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
  return colours.size > 12;
};
await page.waitForFunction(has_picture, undefined, { polling: 20, timeout: 600_000 });
const first = performance.now() - begin;
await page.waitForFunction(() => /^\d+ thread/.test(document.querySelector("#status").textContent), undefined, { polling: 50, timeout: 600_000 });
const whole = performance.now() - begin;

/** Does something in the page, and waits until nothing more comes. Returns the ms until the last drawing. */
const step = (what) =>
  page.evaluate(async ([kind, x]) => {
    const { seen } = window;
    const canvas = document.querySelector("canvas");
    const begin = performance.now();
    if (kind === "wheel-in" || kind === "wheel-out") {
      const box = canvas.getBoundingClientRect();
      const deltaY = kind === "wheel-in" ? -240 : 240;
      canvas.dispatchEvent(new WheelEvent("wheel", { deltaY, clientX: box.left + x, clientY: box.top + 200, bubbles: true, cancelable: true }));
    } else canvas.dispatchEvent(new KeyboardEvent("keydown", { key: kind, bubbles: true }));
    for (let quiet = 0, drawn = seen.drawn; quiet < 4; ) {
      await new Promise((done) => window.frame(done));
      quiet = seen.pending === 0 && seen.drawn === drawn ? quiet + 1 : 0;
      drawn = seen.drawn;
    }
    return Math.max(seen.last - begin, 0);
  }, what);

let state = 12345;
const random = (below) => ((state = (state * 1103515245 + 12345) % 2147483648) / 2147483648) * below;
await page.focus("canvas");
const sharp = { zoom: [], pan: [] };
for (let nth = 0; nth < Number(steps); nth++) {
  const kind = random(1);
  const what = nth % 60 === 59 ? "f" : kind < 0.5 ? "wheel-in" : kind < 0.65 ? "wheel-out" : kind < 0.82 ? "a" : "d";
  const ms = await step([what, 200 + random(1060)]);
  sharp[what === "a" || what === "d" ? "pan" : "zoom"].push(ms);
}
// Frames while a drag goes on: the time from one to the next.
await page.evaluate(() => (window.seen.drawings = []));
const between = await page.evaluate(async () => {
  const gaps = [];
  const canvas = document.querySelector("canvas");
  const box = canvas.getBoundingClientRect();
  const at = (kind, x) => canvas.dispatchEvent(new PointerEvent(kind, { pointerId: 1, button: 0, clientX: box.left + x, clientY: box.top + 300, bubbles: true }));
  canvas.setPointerCapture = () => {};
  for (let round = 0; round < 6; round++) {
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "f", bubbles: true }));
    for (let zoom = 0; zoom < round * 3; zoom++) canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "w", bubbles: true }));
    await new Promise((done) => setTimeout(done, 1000));
    at("pointerdown", 700);
    let last = performance.now();
    for (let nth = 0; nth < 120; nth++) {
      at("pointermove", 700 + Math.sin(nth / 20) * 400);
      await new Promise((done) => window.frame(done));
      const now = performance.now();
      gaps.push(now - last);
      last = now;
    }
    at("pointerup", 700);
  }
  return gaps;
});
const drawings = await page.evaluate(() => window.seen.drawings);
const memory = readFileSync(`/proc/${server.pid}/status`, "utf8");
const told = (name) => Number(memory.match(new RegExp(`${name}:\\s+(\\d+)`))[1]) / 1024;
const at = (list, share) => list.sort((one, other) => one - other)[Math.min(Math.floor(list.length * share), list.length - 1)].toFixed(1);
const words = (list) => `p50 ${at(list, 0.5)} ms, p99 ${at(list, 0.99)} ms, longest ${at(list, 1)} ms (${list.length})`;
console.log(`first picture: ${first.toFixed(0)} ms; whole trace read: ${whole.toFixed(0)} ms`);
for (const [name, list] of [["zoom until sharp", sharp.zoom], ["pan until sharp", sharp.pan], ["from frame to frame", between], ["drawing a frame", drawings]]) {
  console.log(`${name}: ${words(list)}`);
}
console.log(`server: ${told("VmRSS").toFixed(0)} MiB, at most ${told("VmHWM").toFixed(0)} MiB`);
await browser.close();
server.kill();
