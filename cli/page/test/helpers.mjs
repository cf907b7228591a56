// What the checks of the page in a browser share: when it is still, and what it says.
import { strict as assert } from "node:assert";

/** Until nothing more is drawn. */
export async function settled(page) {
  const picture = () => page.evaluate(() => document.querySelector("canvas").toDataURL().length + document.querySelector("#panel").textContent);
  for (let last = "", same = 0; same < 3; ) {
    await page.waitForTimeout(80);
    const now = await picture();
    same = now === last && !/reading…|counting|comparing/.test(now) ? same + 1 : 0;
    last = now;
  }
}

export const fragment = (page) => page.evaluate(() => location.hash);
export const panel = (page) => page.textContent("#panel .body");

export const number = (text) => (text === "-" ? null : Number(text.replace(/[^0-9]/g, "")));

/** The height at which the page tells something below the pointer; without `is_there`, it has to tell it nowhere. */
export async function sought(page, x, text, is_there = true) {
  const box = await (await page.$("canvas")).boundingBox();
  for (let y = box.y + 66; y < box.y + box.height; y += 3) {
    await page.mouse.move(x, y);
    if (await told(page).then((found) => text.test(found))) {
      assert.ok(is_there, `${text} at ${y}`);
      return y;
    }
  }
  assert.ok(!is_there, `${text} is nowhere at ${x}`);
  return null;
}

export const told = (page) => page.$eval("#tip", (tip) => (tip.hidden ? "" : tip.textContent));
