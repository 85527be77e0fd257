// Measures the page in a headless Chromium: how long it takes from a click on the filter until the frame with the new
// picture was drawn, and what the parts of that time are. BenchmarkPage (pkg/dashboard) starts the server; a server
// that runs already can be named as well:
//   node web/bench/clicks.mjs http://127.0.0.1:8642/ [CLICKS]
// It prints a table on stderr, and on stdout one line of JSON. Nothing here fails on a time.
import { existsSync } from 'node:fs'
import { loadavg } from 'node:os'
import { chromium } from 'playwright-core'

const address = process.argv[2]
const clicks = Number(process.argv[3] ?? 30)
const path = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync)
const open = 'verdict~cmd_args.model~gpu~engine_version~cmd_args.tensor_parallel_size~timestamp~median_ttft_ms'

/** Runs in the page before its own scripts: notes when somebody clicked and when JSON was read. */
function notes() {
  const list = []
  window.benchNotes = list
  window.addEventListener('click', (e) => list.push({ what: 'click', at: e.timeStamp }), true)
  window.addEventListener('pointerup', (e) => list.push({ what: 'up', at: e.timeStamp }), true)
  const json = Response.prototype.json
  Response.prototype.json = async function () {
    const text = await this.text()
    const at = performance.now()
    const value = JSON.parse(text)
    list.push({ what: 'parsed', url: this.url, from: at, at: performance.now(), took: value?.took_ms, length: text.length })
    return value
  }
  // The last one that a page needs: the same question may be asked for other rows.
  window.benchSince = (from) => ({
    notes: list.filter((n) => n.at >= from),
    marks: performance.getEntriesByType('mark').filter((m) => m.startTime >= from).map((m) => ({ name: m.name, at: m.startTime })),
    asked: performance.getEntriesByType('resource').filter((r) => r.startTime >= from && r.name.includes('/api/')).map((r) => ({
      url: r.name, start: r.startTime, first: r.responseStart, end: r.responseEnd, bytes: r.encodedBodySize,
    })),
  })
  performance.setResourceTimingBufferSize(100_000)
}

const quantile = (list, q) => {
  const sorted = list.filter(Number.isFinite).sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * q))] ?? Number.NaN
}

/** Waits until the page has drawn the answer to what changed after a moment, and says when. */
async function drawn(page, from, mark) {
  return page.evaluate(([since, name]) => new Promise((done) => { // without asking again and again, which would take time as well
    new PerformanceObserver((list, o) => {
      const found = list.getEntriesByName(name).find((m) => m.startTime > since)
      if (found) {
        o.disconnect()
        done(found.startTime)
      }
    }).observe({ type: 'mark', buffered: true })
  }), [from, mark])
}

let seed = 7
const chance = (n) => {
  seed = (seed * 1103515245 + 12345) % 2 ** 31
  return Math.floor((seed / 2 ** 31) * n)
}

/** Chooses a value or a range, or clears the filter once it has three parts. */
async function choose(page, i) {
  const clear = page.getByRole('button', { name: 'Clear all' })
  if (await page.locator('.chip').count() >= 3) return ['clear', await clear.click()]
  const bars = page.locator('.range svg')
  if (i % 5 === 4 && await bars.count() > 0) {
    const svg = bars.nth(chance(await bars.count()))
    await svg.scrollIntoViewIfNeeded()
    const box = await svg.boundingBox()
    return ['range', await svg.click({ position: { x: box.width * (0.1 + 0.08 * chance(6)), y: box.height / 2 } })]
  }
  const boxes = page.locator('.facet .values li:not(.none) label:has(input:not(:checked))')
  const one = boxes.nth(chance(await boxes.count()))
  return [(await one.innerText()).replaceAll('\n', ' '), await one.click()]
}

async function measure(browser, view) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
  const page = await context.newPage()
  await page.addInitScript(notes)
  await page.goto(`${address}?view=${view}&facets=${open}`)
  await drawn(page, 0, 'profllm:answer')
  if (view === 'scatter') await drawn(page, 0, 'profllm:frontier')
  const list = []
  const cdp = await context.newCDPSession(page)
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' }) // processor time, which other programs hardly disturb
  const cpu = async () => {
    const { metrics } = await cdp.send('Performance.getMetrics')
    const of = (name) => metrics.find((m) => m.name === name).value * 1000
    return { task: of('TaskDuration'), script: of('ScriptDuration'), layout: of('LayoutDuration') + of('RecalcStyleDuration') }
  }
  for (let i = 0; i < clicks; i++) {
    await page.waitForTimeout(300) // what the last click left behind is not measured
    const from = await page.evaluate(() => performance.now())
    const before = await cpu()
    const [what] = await choose(page, i)
    await drawn(page, from, 'profllm:answer')
    if (view === 'scatter') await drawn(page, from, 'profllm:frontier')
    const after = await cpu()
    const { notes: n, marks, asked } = await page.evaluate((since) => window.benchSince(since), from)
    const began = n.find((x) => x.what === 'up' || x.what === 'click').at
    const request = asked.find((a) => a.url.includes('filters/apply'))
    const parsed = n.find((x) => x.what === 'parsed' && x.url.includes('filters/apply'))
    const frontier = marks.find((m) => m.name === 'profllm:frontier')
    const at = marks.find((m) => m.name === 'profllm:answer').at
    list.push({
      what, matches: await page.locator('.matches strong').innerText(),
      total: at - began, ask: request?.start - began, store: parsed?.took, wait: request?.first - request?.start,
      body: request?.end - request?.first, lag: parsed?.from - request?.end, parse: parsed?.at - parsed?.from,
      draw: at - parsed?.at, kB: request?.bytes / 1000, // not a number where the page had the answer
      task: after.task - before.task, script: after.script - before.script, layout: after.layout - before.layout,
      frontier: frontier ? frontier.at - began : Number.NaN,
    })
  }
  await context.close()
  return list
}

/** Opens the page anew: when something is painted, and when the answer is. */
async function start(browser) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
  const page = await context.newPage()
  await page.goto(address)
  const answer = await drawn(page, 0, 'profllm:answer')
  const { paint, options } = await page.evaluate(() => ({
    paint: performance.getEntriesByName('first-contentful-paint')[0]?.startTime,
    options: performance.getEntriesByType('resource').filter((r) => r.name.includes('filters/options')).map((r) => r.responseEnd - r.startTime)[0],
  }))
  await context.close()
  return { paint, options, answer }
}

const browser = await chromium.launch({ executablePath: path, args: ['--no-sandbox', '--force-prefers-reduced-motion'] })
const out = {}
const starts = []
for (let i = 0; i < 5; i++) starts.push(await start(browser))
for (const key of ['paint', 'options', 'answer']) out[`start-${key}-p50-ms`] = quantile(starts.map((s) => s[key]), 0.5)
for (const view of ['table', 'scatter']) {
  const list = await measure(browser, view)
  console.error(`${view}: click to picture in ms; load ${loadavg()[0].toFixed(1)}`)
  console.error(' total   ask  wait (store) body   lag parse  draw  CPU (script layout)    kB  frontier  matches  click')
  for (const c of list) {
    const n = (x, w = 5) => (Number.isFinite(x) ? x.toFixed(0) : '–').padStart(w)
    console.error(`${n(c.total, 6)} ${n(c.ask)} ${n(c.wait)} ${n(c.store, 7)} ${n(c.body)} ${n(c.lag)} ${n(c.parse)} ${n(c.draw)} ${n(c.task)} ${n(c.script, 7)} ${n(c.layout, 6)} ${n(c.kB, 6)} ${n(c.frontier, 9)} ${c.matches.padStart(9)}  ${c.what.slice(0, 50)}`)
  }
  for (const key of view === 'scatter' ? ['total', 'frontier'] : ['total']) {
    for (const q of [0.5, 0.95]) out[`${view}-${key === 'total' ? 'picture' : key}-p${q * 100}-ms`] = quantile(list.map((c) => c[key]), q)
  }
  for (const key of ['store', 'wait', 'parse', 'draw', 'task', 'kB']) out[`${view}-${key}-p50${key === 'kB' ? '' : '-ms'}`.replace('task', 'page-cpu')] = quantile(list.map((c) => c[key]), 0.5)
}
await browser.close()
console.log(JSON.stringify(out))
