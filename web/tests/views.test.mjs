// The views: table, charts, comparison, one run.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { ask, browser, matches, open, serve } from './page.mjs'

test('views', async (t) => {
  const { address } = await serve(t, ['--demo'])
  const b = await browser(t)
  const rows = async (query) => (await ask(address, 'api/filters/apply', { rows: { fields: ['case', 'median_ttft_ms'], limit: 10, ...query.rows }, filter: query.filter })).rows

  await t.test('the table sorts, shows other columns, and fetches rows as they come into sight', async (t) => {
    const page = await open(t, b, address)
    await matches(page, 2000)
    await page.getByRole('columnheader', { name: /Median TTFT/ }).getByRole('button').click()
    const best = await rows({ rows: { sort: [{ field: 'median_ttft_ms' }], limit: 1 } })
    await page.locator(`tbody tr.row a[href*="${best.ids[0]}"]`).waitFor()
    assert.equal(await page.getByRole('columnheader', { name: /Median TTFT/ }).getAttribute('aria-sort'), 'ascending')
    assert.ok(await page.locator('tbody tr.row').count() < 100)
    await page.locator('.grid').evaluate((e) => e.scrollTo(0, e.scrollHeight))
    const last = await rows({ rows: { sort: [{ field: 'median_ttft_ms' }], offset: 1999, limit: 1 } })
    await page.locator(`tbody tr.row a[href*="${last.ids[0]}"]`).waitFor()

    await page.getByRole('button', { name: /^Columns/ }).click()
    await page.getByRole('searchbox', { name: 'Find a column' }).fill('driver')
    await page.locator('.chooser').getByRole('checkbox', { name: /^Driver/ }).check()
    await page.getByRole('columnheader', { name: 'Driver' }).waitFor()
    assert.match(page.url(), /columns=.*driver/)
  })

  await t.test('the table says why runs are not valid', async (t) => {
    const page = await open(t, b, `${address}?filter={"field":"verdict","in":["invalid","suspect"]}`)
    await matches(page)
    const names = ['verdict', 'cause', 'check.not-steady', 'check.gpu-idle']
    const got = await rows({ filter: { field: 'verdict', in: ['invalid', 'suspect'] }, rows: { fields: names, limit: 12 } })
    for (const [i, id] of got.ids.entries()) {
      const row = page.locator(`tbody tr.row:has(a[href*="${id}"])`)
      const why = got.columns[1][i] ?? (got.columns[2][i] ? 'not-steady' : got.columns[3][i] ? 'gpu-idle' : '')
      await row.getByText(new RegExp(why || '[a-z]+-[a-z]+|throttled')).first().waitFor()
    }
    assert.ok((await page.locator('.strip').textContent()).includes('all simulated'))
  })

  await t.test('the table says why runs failed, with the line of the log', async (t) => {
    const got = await rows({ filter: { field: 'cause', has: true }, rows: { fields: ['cause', 'cause_line'], limit: 1 } })
    const [[cause], [line]] = got.columns
    const page = await open(t, b, `${address}?filter={"field":"run_id","in":["${got.ids[0]}"]}`)
    await matches(page, 1)
    const why = page.locator('tbody tr.row .badges').getByTitle(`${cause}: ${line}`) // beside the verdict, for the mouse
    assert.equal(await why.textContent(), `${cause}: ${line}`) // and for screen readers
    assert.equal(await page.getByRole('columnheader', { name: 'Failure line' }).count(), 0)

    const { matches: failed } = await rows({ filter: { field: 'status', in: ['failed'] } })
    await page.goto(`${address}?filter={"field":"status","in":["failed"]}`)
    await page.getByRole('columnheader', { name: 'Failure line' }).waitFor()
    await matches(page)
    const texts = await page.locator('tbody tr.row td:nth-child(4)').allTextContents()
    assert.ok(texts.length > 10 && texts.every((x) => x.length > 10), `${failed} ${texts}`)
    await page.getByRole('searchbox', { name: 'Search all texts of the runs' }).fill('out of memory')
    await page.waitForURL(/out%20of|out\+of/)
    await page.locator('tbody tr.row').getByText('Watchdog').first().waitFor({ state: 'detached' })
    await page.locator('tbody tr.row').getByText('OutOfMemoryError').first().waitFor()

    await page.goto(address)
    await matches(page, 2000)
    await page.getByRole('button', { name: /^Columns/ }).click()
    await page.getByRole('searchbox', { name: 'Find a column' }).fill('failure')
    await page.locator('.chooser').getByRole('checkbox', { name: /^Failure line/ }).check()
    await page.getByRole('columnheader', { name: 'Failure line' }).waitFor()
  })

  await t.test('the table is saved as CSV', async (t) => {
    const page = await open(t, b, `${address}?filter={"field":"verdict","in":["suspect"]}`)
    const n = await matches(page)
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Save as CSV' }).click()])
    const lines = readFileSync(await file.path(), 'utf8').trim().split(/\r?\n/)
    assert.equal(lines.length, n + 1)
    assert.match(lines[0], /^run_id,case,verdict,kind,timestamp/)
    await page.getByRole('button', { name: 'All fields' }).click()
    const [all] = await Promise.all([page.waitForEvent('download'), page.getByRole('menuitem', { name: 'All fields as JSON' }).click()])
    const runs = JSON.parse(readFileSync(await all.path(), 'utf8'))
    assert.equal(runs.length, n)
    assert.ok(runs.every((r) => r.verdict === 'suspect' && Object.keys(r).length > 60))
  })

  await t.test('the scatter draws points and lists the frontier of the API', async (t) => {
    const page = await open(t, b, `${address}?view=scatter`, { expected: ['404'] })
    await page.locator('.chart canvas').waitFor()
    const { ids } = await ask(address, 'api/analysis/pareto', { x: 'median_ttft_ms', y: 'output_throughput_per_gpu' })
    await page.getByText(`Frontier: ${ids.length} valid simulated runs`).waitFor()
    assert.equal(await page.locator('.below tbody tr').count(), ids.length)
    await page.getByText('all simulated, not measured').waitFor()
    await page.locator('.below tbody a').first().click()
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.goBack()
    await page.getByText(`Frontier: ${ids.length} valid simulated runs`).waitFor()
  })

  await t.test('the scatter warns of runs that it cannot rank, and keeps one kind', async (t) => {
    const page = await open(t, b, `${address}?view=scatter&colour=`)
    const warning = page.getByRole('note')
    await warning.getByText(/These runs ran different work, so their numbers cannot be ranked: 8 models, \d+ values of random_input_len/).waitFor()
    await warning.getByText(/The runs are of 6 GPU models, which look alike here/).waitFor()
    await warning.getByRole('button', { name: 'Colour by GPU model' }).click()
    await warning.getByText('look alike').waitFor({ state: 'detached' })
    await page.getByRole('list', { name: 'Colours by GPU model' }).waitFor()
    for (let before = 2000; await warning.count() > 0;) { // each step leaves runs
      const button = warning.getByRole('button', { name: /^Keep only/ })
      const name = await button.textContent()
      await button.click()
      await warning.getByRole('button', { name, exact: true }).waitFor({ state: 'detached' })
      const now = await matches(page)
      assert.ok(now > 0 && now < before, `${now} of ${before}`)
      before = now
    }
    await page.locator('.chart canvas').waitFor()
    assert.match(page.url(), /cmd_args.model.*random_input_len/)
  })

  await t.test('trend, impact, scaling and capacity say what they found first', async (t) => {
    const page = await open(t, b, `${address}?view=trend&filter={"field":"test","in":["rate"]}`)
    await page.locator('.verdict-line').waitFor()
    await page.locator('.series .chart canvas').first().waitFor()
    const { report } = await ask(address, 'api/analysis/trends', { metrics: ['output_throughput'], filter: { field: 'test', in: ['rate'] } })
    const cuts = report.trends.flatMap((x) => x.metrics.flatMap((m) => m.cuts ?? []))
    assert.equal(await page.locator('.changes tbody tr').count(), cuts.length)
    assert.equal(await page.locator('.falls li').count(), Math.min(10, cuts.filter((c) => c.shift_percent < 0).length))
    await page.getByRole('link', { name: 'Impact' }).click()
    const impact = await ask(address, 'api/analysis/impact', { metric: 'output_throughput', filter: { field: 'test', in: ['rate'] } })
    await page.getByText(`${impact.runs.toLocaleString('en-US')} runs count`).waitFor()
    assert.equal(await page.locator('.list tbody tr').count(), impact.impacts.length)
    await page.goto(`${address}?view=impact`) // an effect of what is no setting lists its runs, too
    await page.locator('.list').getByRole('button', { name: /engine version/i }).first().click()
    await page.waitForURL(/engine_version/)
    await page.locator('tr.row').first().waitFor()
    assert.ok(await matches(page) > 0)
    await page.goto(`${address}?view=scaling`)
    await page.locator('.verdict-line', { hasText: /Efficiency of Throughput against \d+ GPUs?: \d+\s%/ }).waitFor()
    const { scalings } = await ask(address, 'api/analysis/scaling', { metric: 'output_throughput' })
    assert.equal(await page.getByText('valid at lower loads only').count(), scalings.flatMap((s) => s.points).filter((p) => p.low_load).length)
    await page.goto(`${address}?view=capacity&target=50000&limits=p99_ttft_ms:500`)
    const plan = await ask(address, 'api/analysis/capacity', { metric: 'output_throughput', target: 50000, limits: ['p99_ttft_ms=500'] })
    await page.locator('.verdict-line', { hasText: `need ${plan.plans[0].total_gpus} GPU` }).waitFor()
    await page.getByRole('textbox', { name: 'Limit of P99 TTFT' }).fill('300')
    await page.waitForURL(/p99_ttft_ms:300/)
  })

  await t.test('plans of other models or loads are told apart, and one kind is kept', async (t) => {
    const page = await open(t, b, `${address}?view=capacity&limits=p99_ttft_ms:500`)
    await page.getByText(/cannot be ranked: \d+ models/).waitFor()
    await page.getByRole('button', { name: 'Keep only those like the first' }).click()
    await page.waitForURL(/filter=.*cmd_args.model/)
    await page.getByText('cannot be ranked').waitFor({ state: 'detached' })
    await page.locator('.plans tbody tr').first().waitFor()
    assert.ok(await matches(page) < 2000)
  })

  await t.test('an answer to an earlier question is dim until the new one is there', async (t) => {
    const page = await open(t, b, `${address}?view=impact`)
    await page.locator('.verdict-line', { hasText: 'Throughput' }).waitFor()
    let release
    const held = new Promise((done) => (release = done))
    await page.route('**/api/analysis/impact', async (route) => {
      await held
      await route.continue()
    })
    await page.getByRole('combobox', { name: 'Metric' }).click()
    await page.getByRole('option', { name: 'TPS/GPU (tok/s)', exact: true }).click()
    await page.getByRole('status').getByText('Updating the effects…').waitFor()
    await page.locator('.stale .verdict-line', { hasText: 'Throughput' }).waitFor()
    release()
    await page.locator('.verdict-line', { hasText: 'TPS/GPU' }).waitFor()
    assert.equal(await page.locator('.stale').count(), 0)
  })

  await t.test('the licenses of its libraries are one link away', async (t) => {
    const page = await open(t, b, address)
    await matches(page)
    await page.getByRole('link', { name: 'Licenses of the libraries in this page' }).click()
    await page.waitForURL(/licenses\.txt$/)
    const text = await page.locator('body').textContent()
    for (const name of ['react ', 'echarts ', '@mantine/core ', 'Apache License']) assert.ok(text.includes(name), name)
  })

  await t.test('runs are chosen in the table and compared', async (t) => {
    const page = await open(t, b, `${address}?filter={"field":"verdict","in":["valid"]}`)
    await matches(page)
    await page.locator('tbody tr.row input[type=checkbox]').nth(0).check()
    await page.locator('tbody tr.row input[type=checkbox]').nth(1).check()
    await page.getByRole('button', { name: 'Compare', exact: true }).click()
    await page.locator('.verdict-line').waitFor()
    await page.getByRole('heading', { name: 'What differs' }).waitFor()
    const chosen = new URL(page.url()).searchParams.getAll('runs')
    const linked = await page.locator('table.compare thead a').evaluateAll((list) => list.map((a) => new URL(a.href).searchParams.get('run')))
    assert.deepEqual(linked, chosen)
    const order = await page.locator('.verdict-line, .view section > h2').allTextContents()
    assert.deepEqual(order.slice(-2).map((x) => x.replace('simulated', '').trim()), ['What differs', 'Numbers'])
    await page.getByText('simulated').first().waitFor()
  })

  await t.test('two sets of runs are compared', async (t) => {
    const page = await open(t, b, `${address}?view=compare&filter={"field":"gpu","contains":"H100"}`)
    await page.getByRole('button', { name: 'Take the current filter' }).first().click()
    await page.getByRole('button', { name: 'Clear all' }).click()
    await page.getByRole('button', { name: 'Take the current filter' }).last().click()
    await page.locator('.verdict-line', { hasText: 'all runs against H100' }).or(page.getByRole('alert')).first().waitFor()
  })

  await t.test('two sets are called by what tells them apart', async (t) => {
    const same = [{ field: 'test', in: ['rate'] }, { field: 'cmd_args.model', in: ['openai/gpt-oss-120b'] }, { field: 'gpu', contains: 'A100' }]
    const of = (...more) => encodeURIComponent(JSON.stringify({ and: [...same, ...more] }))
    const engine = (v) => ({ field: 'engine_version', in: [v] })
    const page = await open(t, b, `${address}?view=compare&a=${of(engine('0.12.0'))}&b=${of(engine('0.13.0'))}`)
    await page.locator('.verdict-line', { hasText: 'Engine version 0.13.0 against Engine version 0.12.0' }).waitFor()
    const heads = await page.locator('.list thead').first().getByRole('columnheader').allTextContents()
    assert.deepEqual(heads.slice(1, 3), ['Baseline Engine version 0.12.0', 'Compared Engine version 0.13.0'])
    assert.doesNotMatch(await page.locator('.view').textContent(), /the (first|second)\b/)
    // One set is a part of the other: both are named in full.
    await page.goto(`${address}?view=compare&a=${of()}&b=${of(engine('0.13.0'))}`)
    await page.locator('.verdict-line', { hasText: 'rate, openai/gpt-oss-120b, A100, Engine version 0.13.0 against rate, openai/gpt-oss-120b, A100' }).waitFor()
  })

  await t.test('a failed run shows its cause, the line of the log, and what to do', async (t) => {
    const { ids } = await rows({ filter: { field: 'cause', has: true } })
    const { record } = await ask(address, `api/data/experiments/${ids[0]}`)
    const page = await open(t, b, `${address}?view=run&run=${ids[0]}`, { expected: ['404'] })
    await page.getByRole('heading', { name: `Why it failed: ${record.failure.cause}` }).waitFor()
    if (record.failure.line) await page.getByText(record.failure.line).waitFor()
    await page.getByText(record.failure.next).waitFor()
    await page.locator('.run .badge.invalid').first().waitFor()
    await page.locator('.run .badge.simulated').first().waitFor()
    await page.getByText('The files of this run are not on this server').waitFor()
  })

  await t.test('a run that is not there is explained', async (t) => {
    const page = await open(t, b, `${address}?view=run&run=exp_20000101_000000_000000`, { expected: ['404'] })
    await page.getByRole('alert').getByText('no such run').waitFor()
  })

  await t.test('a filter of an unknown field is explained, and no facet waits for an answer', async (t) => {
    const page = await open(t, b, `${address}?filter={"field":"nope","in":[1]}`, { expected: ['422', '400'] })
    const alert = page.getByRole('alert')
    await alert.getByText('Hint: did you mean "nodes"?', { exact: true }).waitFor()
    assert.equal(await page.getByText('Loading…').count(), 0)
    assert.equal(await page.locator('.strip').count(), 0)
  })

  await t.test('limits without a valid run say so', async (t) => {
    const page = await open(t, b, `${address}?view=capacity&filter={"field":"verdict","in":["suspect"]}`)
    await page.locator('.verdict-line', { hasText: 'No matching run is valid' }).waitFor()
  })

  await t.test('the theme is part of the address', async (t) => {
    const page = await open(t, b, address)
    await page.getByRole('button', { name: 'Switch to the dark theme' }).click()
    await page.waitForURL(/theme=dark/)
    assert.equal(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), 'rgb(20, 24, 28)')
  })
})
