// How heavy and how quick a page of the built site is: node tests/lighthouse.mjs [site folder] [page]
//
// Serves the folder with gzip, as a web server would, weighs the page with all that it loads, and lets
// Lighthouse judge it as a phone and as a laptop see it. Needs Node 20 and Chromium (CHROME_PATH), and the
// npm registry once. Exits 1 where a page is worse than it must be. The performance is of an idle machine
// only: Lighthouse slows a phone's work down fourfold, and whatever else runs, with it. It says how quick
// the machine was as it measured (an idle laptop: 1500 and more).
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { gzipSync } from "node:zlib";

const [site = "site", page = "entries/topk-stable-sort.html"] = process.argv.slice(2);
const MUST = { mobile: { performance: 95 }, desktop: { performance: 100 } };
const ALWAYS = { accessibility: 97, "best-practices": 96, seo: 90 };
const SHIFT = 0.01, WEIGHT = 260 * 1000;
const TYPES = { ".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".json": "application/json",
  ".svg": "image/svg+xml", ".woff2": "font/woff2", ".png": "image/png", ".txt": "text/plain", ".xml": "text/xml" };

const packed = new Map();
const server = createServer((request, answer) => {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://x").pathname));
  const type = TYPES[extname(path)] ?? "application/octet-stream";
  try {
    const plain = /woff2|png/.test(type);
    if (!packed.has(path)) {
      const bytes = readFileSync(join(site, path));
      packed.set(path, plain ? bytes : gzipSync(bytes));
    }
    const charset = type.startsWith("text/") ? "; charset=utf-8" : "";
    const headers = { "content-type": type + charset, "cache-control": "max-age=31536000" };
    answer.writeHead(200, plain ? headers : { ...headers, "content-encoding": "gzip" });
    answer.end(packed.get(path));
  } catch {
    answer.writeHead(404).end();
  }
});

function lighthouse(url, form) {
  const flags = "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run " +
    "--disable-background-networking --disable-component-update";
  const words = ["--yes", "lighthouse@12", url, "--quiet", "--output=json", `--chrome-flags=${flags}`];
  if (form === "desktop") words.push("--preset=desktop");
  return new Promise((resolve, reject) => {
    const read = (fault, out) => fault ? reject(fault) : resolve(JSON.parse(out));
    execFile("npx", words, { maxBuffer: 1 << 28 }, read);
  });
}

let worse = 0;
function say(what, is, must, good) {
  console.log(`${good ? "good " : "WORSE"}  ${what}: ${is} (${must})`);
  worse += !good;
}

await new Promise(ready => server.listen(0, "127.0.0.1", ready));
const url = `http://127.0.0.1:${server.address().port}/${page}`;
for (const form of ["mobile", "desktop"]) {
  const { audits, categories, environment } = await lighthouse(url, form);
  console.log(`       machine: ${Math.round(environment.benchmarkIndex)}`);
  for (const [name, least] of Object.entries({ ...MUST[form], ...ALWAYS })) {
    const score = Math.round(categories[name].score * 100);
    say(`${form} ${name}`, score, `at least ${least}`, score >= least);
  }
  const shift = audits["cumulative-layout-shift"].numericValue;
  say(`${form} layout shift`, shift.toFixed(4), `at most ${SHIFT}`, shift <= SHIFT);
  const weight = audits["total-byte-weight"].numericValue;
  say(`${form} weight`, `${Math.round(weight / 1000)} KB`, `at most ${WEIGHT / 1000} KB`, weight <= WEIGHT);
  for (const audit of Object.values(audits))
    if (audit.score !== null && audit.score < 0.9 && audit.scoreDisplayMode === "binary")
      console.log(`         ${audit.id}: ${audit.title}`);
}
server.close();
process.exitCode = worse ? 1 : 0;
