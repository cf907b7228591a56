// What a person sees first of a trace with a slow call, and does with the mouse and with keys alone.
import { strict as assert } from "node:assert";
import { fragment, panel, settled, sought } from "./helpers.mjs";

const focused = (page) => page.evaluate(() => `${document.activeElement.tagName} ${document.activeElement.textContent}`);

/** The slow call: it is shown at once, leads to the calls that are meant, and is explained without asking. */
export async function slow_call(page, is_file) {
  await page.waitForFunction(() => document.querySelector("header").textContent.includes("1 slow call"));
  await settled(page);
  assert.match(await panel(page), /app::step 60\.\d+ µs, usually 1\d\d ns · at .* on worker-1 \(thread 8\)/);
  assert.match(await page.title(), /^\S+\.fdr/);
  // The first Tab is seen; then with keys alone.
  await page.keyboard.press("Tab");
  assert.ok(await page.evaluate(() => document.activeElement.matches(":focus-visible")));
  await page.focus("#panel article button");
  await page.keyboard.press("Enter");
  await settled(page);
  assert.match(await focused(page), /^H2 app::step · 60\.\d+ µs/);
  assert.match(await page.textContent("#panel .sentence"), /app::leaf/);
  assert.ok(await page.isDisabled("#panel button:has-text('slowest call')"));
  const outer = await fragment(page);
  // The call inside, which is no slow call by itself.
  await page.click("#panel .why td button:has-text('app::leaf')");
  await settled(page);
  assert.match(await page.textContent("#panel h2"), /^app::leaf/);
  assert.equal(await page.$$eval("#panel .sentence", (found) => found.length), is_file ? 0 : 1);
  // The call around, and again the longest one inside.
  const inner = await fragment(page);
  await page.focus("canvas");
  await page.keyboard.press("ArrowUp");
  await page.waitForFunction((call) => location.hash.includes(call), outer.match(/call=[\d,]+/)[0]);
  await page.keyboard.press("Shift+ArrowDown");
  await page.waitForFunction((call) => location.hash.includes(call), inner.match(/call=[\d,]+/)[0]);
  // Tabs by their numbers and by arrows; a tab without content is not there.
  await page.keyboard.press("1");
  assert.equal(await page.textContent("[role=tab][aria-selected=true]"), "Functions");
  await page.focus("[role=tab][aria-selected=true]");
  await page.keyboard.press("ArrowRight");
  assert.match(await focused(page), /^BUTTON Flame graph/);
  assert.equal(await page.isVisible("[role=tab]:has-text('Task')"), false);
  await page.keyboard.press("c");
  assert.equal(await page.textContent("[role=tab][aria-selected=true]"), "Slow calls");
  // A function leads to its slowest call.
  await page.keyboard.press("1");
  await settled(page);
  await page.click("#panel tr[data-function='3'] td:nth-child(7) button");
  await settled(page);
  assert.ok((await fragment(page)).includes(inner.match(/call=[\d,]+/)[0]));
  // The histogram's ends are the shortest and the longest call, and each bar tells of its calls.
  assert.match(await page.textContent("#panel .ends"), /^50 ns.*60\.00 µs$/);
  assert.ok((await page.$$eval(".bars span", (bars) => bars.map((bar) => bar.title))).every((title) => / to .*: [\d,]+ calls?$/.test(title)));
  await colours(page);
  // The panel's height.
  const height = () => page.$eval("#panel", (panel) => panel.offsetHeight);
  const before = await height();
  await page.focus("#panel [role=separator]");
  await page.keyboard.press("ArrowUp");
  assert.ok((await height()) > before + 20);
  await page.keyboard.press("ArrowDown");
  // A click where nothing is takes the selection back.
  await page.focus("canvas");
  await page.keyboard.press("f");
  await settled(page);
  const box = await (await page.$("canvas")).boundingBox();
  await page.keyboard.press("5");
  await settled(page);
  await page.mouse.click(box.x + 300, box.y + 66);
  await settled(page);
  await sought(page, 640, /^app::run\n[\d.]+ µs, at [\d.]+ \S+ on main \(thread 7\)$/);
  // Behind the last call of a thread, where other threads go on.
  await sought(page, 1250, /^no recorded function$/);
  // There is nothing to see far beyond the ends.
  const end = Number((await fragment(page)).match(/t=0,(\d+)/)[1]);
  for (let nth = 0; nth < 6; nth++) await page.keyboard.press("s");
  await page.waitForFunction((end) => Number(location.hash.match(/,(\d+)/)[1]) > end, end);
  const [from, to] = (await fragment(page)).match(/t=(-?\d+),(\d+)/).slice(1).map(Number);
  assert.ok(to - from < end * 1.11 + 20, `${from} to ${to} of ${end}`);
  await page.keyboard.press("f");
  assert.match(await panel(page), /No call is selected/);
  await page.keyboard.press("e");
  assert.match(await page.textContent("#status"), /nothing is selected/);
  await page.keyboard.press("?");
  assert.match(await page.textContent("dialog"), /Colours and signs/);
  await page.keyboard.press("Escape");
}

/** A function has the same colour in the lanes and in the flame graph. */
async function colours(page) {
  await page.focus("canvas");
  await page.keyboard.press("f");
  await page.keyboard.press("2");
  await settled(page);
  const colour = await page.$eval("#panel .flame button[aria-label^='app::run']", (bar) => getComputedStyle(bar).backgroundColor);
  const pixel = await page.$eval("canvas", (canvas) => [...canvas.getContext("2d").getImageData(400, 64 + 16 + 4, 1, 1).data]);
  const channels = colour.match(/[\d.]+/g).map(Number);
  for (const nth of [0, 1, 2]) assert.ok(Math.abs(channels[nth] - pixel[nth]) <= 2, `${colour} and ${pixel}`);
}
