// Runs whose numbers are no measurements say so wherever they are shown: a fourth each of 400 runs is measured, simulated,
// simulated 61 times faster, and profiled.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { pathToFileURL } from 'node:url'
import { ask, browser, matches, open, serve } from './page.mjs'

const each = 100
const unreal = ['simulated', 'simulated 61x', 'profiled']

test('labels', async (t) => {
  const { address } = await serve(t, ['--store', process.env.PROFLLM_STORE])
  const b = await browser(t)
  const of = (kind) => ({ field: 'kind', in: [kind] })
  const one = async (kind) => (await ask(address, 'api/filters/apply', { filter: of(kind), rows: { fields: ['case'], limit: 1 } })).rows.ids[0]
  const at = (query) => `${address}?${new URLSearchParams(query)}`

  await t.test('the strip counts every simulated run, at whatever speed', async (t) => {
    const page = await open(t, b, address)
    await matches(page, 4 * each)
    assert.ok((await page.locator('.strip').textContent()).includes(`${2 * each} simulated`))
    for (const kind of ['simulated', 'simulated 61x']) {
      await page.goto(at({ filter: JSON.stringify(of(kind)) }))
      await matches(page, each)
      assert.ok((await page.locator('.strip').textContent()).includes('all simulated'), kind)
    }
  })

  await t.test('each row of the table says its kind', async (t) => {
    const page = await open(t, b, address)
    for (const kind of ['measured', ...unreal]) {
      const id = await one(kind)
      await page.goto(at({ filter: JSON.stringify({ or: [{ field: 'run_id', in: [id, await one('measured')] }] }) }))
      const badges = await page.locator(`tbody tr.row:has(a[href*="&run=${id}"]) .badges`).textContent()
      assert.equal(badges.includes(kind), kind !== 'measured', `${kind}: ${badges}`)
    }
  })

  await t.test('the scatter marks them', async (t) => {
    const page = await open(t, b, at({ view: 'scatter' }))
    await page.getByText('△').waitFor()
    for (const kind of ['simulated', 'simulated 61x']) {
      await page.goto(at({ view: 'scatter', filter: JSON.stringify(of(kind)) }))
      await page.getByText('all simulated, not measured').waitFor()
    }
  })

  await t.test('a run says it beside its verdict and above its numbers', async (t) => {
    const page = await open(t, b, address, { expected: ['404'] }) // made-up runs have no files
    for (const [kind, text] of [['simulated', 'simulated'], ['simulated 61x', 'simulated, 61 times faster']]) {
      await page.goto(at({ view: 'run', run: await one(kind) }))
      await page.locator('.run header .badge.simulated').getByText(text, { exact: true }).waitFor()
      await page.locator('h2 .badge.simulated').first().waitFor()
    }
    await page.goto(at({ view: 'run', run: await one('measured') }))
    await page.locator('.run header .badge').first().waitFor()
    assert.equal(await page.locator('.run .badge.simulated').count(), 0)
  })

  await t.test('a comparison of two of a kind says which', async (t) => {
    const page = await open(t, b, address)
    for (const kind of unreal) {
      const { rows } = await ask(address, 'api/filters/apply', { filter: of(kind), rows: { fields: ['case'], limit: 2 } })
      const [x, y] = rows.ids.map((id) => JSON.stringify({ field: 'run_id', in: [id] }))
      await page.goto(at({ view: 'compare', a: x, b: y }))
      await page.locator('h2 .badge.simulated').getByText(kind, { exact: true }).first().waitFor()
    }
  })

  await t.test('the table as CSV has the kinds', async (t) => {
    const page = await open(t, b, address)
    await matches(page)
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as CSV' }).click()])
    const lines = readFileSync(await file.path(), 'utf8').trim().split('\n')
    for (const kind of ['measured', ...unreal]) assert.equal(lines.filter((l) => l.split(',').includes(kind)).length, each, kind)
  })

  await t.test('so does the page of a report', async (t) => {
    const page = await (await b.newContext()).newPage()
    t.after(() => page.context().close())
    await page.goto(`${pathToFileURL(process.env.PROFLLM_PAGE).href}#explore`)
    await page.locator('.strip').getByText(`${2 * each} simulated`).waitFor()
    const text = await page.locator('body').textContent()
    assert.ok(text.includes('simulated 61x'))
  })
})
