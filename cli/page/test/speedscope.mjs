// Has speedscope, in a browser and from disk, import a profile and save what it holds of it. Run by the tests of the
// workspace: node speedscope.mjs BROWSER PROFILE SAVED
import { chromium } from "playwright-core";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

const [executablePath, profile, saved] = process.argv.slice(2);
const app = dirname(createRequire(import.meta.url).resolve("speedscope/package.json"));
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage();
  const imported = page.waitForEvent("console", (message) => message.text().startsWith("import: "));
  await page.goto(pathToFileURL(join(app, "dist/release/index.html")).href);
  await page.setInputFiles("input[type=file]", profile);
  await imported;
  const download = page.waitForEvent("download");
  // Until the profile is shown, its keys do nothing.
  const keys = setInterval(() => page.keyboard.press("Control+s").catch(() => {}), 500);
  await (await download).saveAs(saved);
  clearInterval(keys);
} finally {
  await browser.close();
}
