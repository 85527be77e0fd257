// The report's page as a file: without a server, a network, or a request of any kind.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { pathToFileURL } from 'node:url'
import { browser, matches, violations } from './page.mjs'

const large = pathToFileURL(process.env.PROFLLM_PAGE).href // of 2,000 runs
const small = pathToFileURL(process.env.PROFLLM_SMALL_PAGE).href // of 8: axe looks at every cell

/** Opens a file; any request but for the file itself fails the test, and so does any error. */
async function open(t, b, hash = '', { address = large, ...options } = {}) {
  const context = await b.newContext({ viewport: { width: 1440, height: 900 }, offline: true, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(30_000)
  const wrong = []
  page.on('pageerror', (e) => wrong.push(`error: ${e.message}`))
  page.on('console', (m) => ['error', 'warning'].includes(m.type()) && wrong.push(`console: ${m.text()}`))
  page.on('request', (r) => r.url().split('#')[0] !== address && !r.url().startsWith('blob:') && wrong.push(`request: ${r.url()}`))
  t.after(async () => {
    await context.close()
    assert.deepEqual(wrong, [])
  })
  await page.goto(address + hash)
  return page
}

/** The views alone: roles in the report's tables take long to find. */
const views = (page) => page.locator('#root')

const facet = (page, name) => views(page).locator('.facet').filter({ has: page.locator('.facet-name', { hasText: name }) })

test('inline', async (t) => {
  const b = await browser(t)
  let failed // id of a run with a cause

  await t.test('the report leads to the views and back', async (t) => {
    const page = await open(t, b)
    await page.locator('h2', { hasText: 'Answers' }).waitFor()
    const title = await page.title()
    assert.equal(await page.locator('#views').textContent(), 'Filter, sort and draw the 2000 runs')
    await page.locator('#views a').click()
    assert.equal(await matches(page), 2000)
    assert.equal(await page.locator('h2', { hasText: 'Answers' }).isVisible(), false)
    assert.match(await page.title(), /^Table of runs/)
    await page.goBack()
    await page.locator('h2', { hasText: 'Answers' }).waitFor()
    assert.equal(await page.title(), title)
    await page.goForward()
    await matches(page, 2000)
    assert.match(await page.title(), /^Table of runs/)
    await views(page).getByRole('link', { name: 'Report' }).click()
    await page.locator('h2', { hasText: 'Answers' }).waitFor()
    assert.equal(await page.locator('#root').isVisible(), false)
  })

  await t.test('facets, ranges and search narrow the runs', async (t) => {
    const page = await open(t, b, '#explore')
    await matches(page, 2000)
    const gpu = facet(page, 'GPU model').getByRole('checkbox', { name: /H100/ })
    await gpu.check()
    const one = await matches(page)
    assert.ok(one > 0 && one < 2000)
    assert.equal(Number((await gpu.locator('xpath=..').locator('.number').textContent()).replaceAll(',', '')), one)
    await views(page).getByRole('searchbox', { name: 'Search all texts of the runs' }).fill('qwen3-8b')
    await page.waitForURL(/qwen3-8b/)
    const both = await matches(page)
    assert.ok(both > 0 && both < one)
    await page.reload()
    await matches(page, both)
    await page.goBack()
    await matches(page, 2000)
  })

  await t.test('the table sorts, is saved as CSV, and opens a run', async (t) => {
    const page = await open(t, b, '#explore?filter={"field":"cause","has":true}')
    const n = await matches(page)
    await views(page).getByRole('columnheader', { name: 'Started' }).getByRole('button').click()
    await page.waitForURL(/sort=-timestamp/)
    const [file] = await Promise.all([page.waitForEvent('download'), views(page).getByRole('button', { name: 'Save as CSV' }).click()])
    const lines = readFileSync(await file.path(), 'utf8').trim().split('\n')
    assert.equal(lines.length, n + 1)
    assert.match(lines[0], /^run_id,case,verdict,kind,cause_line,timestamp/)
    failed = lines[1].split(',')[0]
    await page.locator('tbody tr.row a').first().click()
    await views(page).getByRole('heading', { name: /^Why it failed: / }).waitFor()
    assert.equal(new URLSearchParams(new URL(page.url()).hash.slice('#explore'.length)).get('run'), failed)
    await page.locator('.failed figure pre').waitFor()
    await views(page).getByText('Next:').waitFor()
    await page.locator('.run .badge.invalid').first().waitFor()
    await page.locator('.run .badge.simulated').first().waitFor()
    assert.match(await page.locator('.run a:has(code)').getAttribute('href'), /^\.\/.*runs\/\d+\/$/)
    await page.goBack()
    await matches(page, n)
  })

  await t.test('the scatter draws the runs and the frontier of all', async (t) => {
    const page = await open(t, b, '#explore?view=scatter')
    await page.locator('.chart canvas').waitFor()
    await views(page).getByText(/^Frontier of all 2,000 runs of this page: \d+ valid simulated runs/).waitFor()
    assert.ok(await page.locator('.below tbody tr').count() > 1)
    await views(page).getByRole('button', { name: 'suspect' }).click()
    await views(page).getByText('clear the filter to see it').waitFor()
  })

  await t.test('impact and scaling are those of all runs', async (t) => {
    const page = await open(t, b, '#explore?view=impact&filter={"field":"verdict","in":["suspect"]}')
    await views(page).getByText('For all 2,000 runs of this page, whatever the filter.').waitFor()
    await views(page).getByText(/runs count/).waitFor()
    assert.ok(await views(page).locator('.list tbody tr').count() > 3)
    await views(page).locator('.tabs a', { hasText: 'Scaling' }).click()
    await views(page).locator('.verdict-line', { hasText: /^Efficiency of .* against/ }).waitFor()
    await views(page).locator('.list tbody a').first().click()
    await views(page).getByRole('heading', { level: 1 }).waitFor()
  })

  for (const colorScheme of ['light', 'dark']) {
    for (const hash of ['', '#explore', '#explore?view=scatter', '#explore?view=impact', '#explore?view=run&run=']) {
      await t.test(`axe finds nothing in ${hash || 'the report'}, ${colorScheme}`, async (t) => {
        const page = await open(t, b, hash.endsWith('run=') ? hash + failed : hash, { colorScheme, address: hash ? large : small })
        await page.locator(hash ? '#root main' : 'body > main').waitFor()
        if (hash.includes('scatter')) await page.locator('.chart canvas').waitFor()
        const dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor === 'rgb(20, 24, 28)' || getComputedStyle(document.body).backgroundColor === 'rgb(20, 24, 30)')
        assert.equal(dark, colorScheme === 'dark')
        assert.deepEqual((await violations(page, hash ? '#root' : undefined)).filter((v) => /^(serious|critical)/.test(v)), [])
      })
    }
  }

  await t.test('without scripts, the page is the report', async (t) => {
    const page = await open(t, b, '', { javaScriptEnabled: false })
    await page.locator('h2', { hasText: 'Answers' }).waitFor()
    assert.equal(await page.locator('#views').isVisible(), false)
    assert.ok(await page.locator('section table tr').count() > 2000)
  })

  await t.test('what is printed is the report', async (t) => {
    const page = await open(t, b, '#explore')
    await matches(page, 2000)
    await page.emulateMedia({ media: 'print' })
    await page.locator('h2', { hasText: 'Answers' }).waitFor()
    assert.equal(await page.locator('#root').isVisible(), false)
  })

  await t.test('how long it takes', async (t) => {
    const page = await open(t, b, '#explore')
    await matches(page, 2000)
    const paint = await page.evaluate(() => ({
      report: performance.getEntriesByName('first-contentful-paint')[0]?.startTime, table: performance.now(),
    }))
    const click = await page.evaluate(async () => {
      const strong = document.querySelector('.matches strong')
      const button = document.querySelector('.tally.suspect')
      const before = strong.textContent
      const began = performance.now()
      button.click()
      while (strong.textContent === before) await new Promise((done) => requestAnimationFrame(done))
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))
      return performance.now() - began
    })
    t.diagnostic(`first picture ${Math.round(paint.report)} ms, all of the table ${Math.round(paint.table)} ms, filter click to picture ${Math.round(click)} ms`)
  })
})
