// Facets, groups, search, presets, and the address of the page.
import assert from 'node:assert/strict'
import test from 'node:test'
import { ask, browser, matches, open, serve } from './page.mjs'

test('filters', async (t) => {
  const { address } = await serve(t, ['--demo'])
  const b = await browser(t)
  const count = async (filter) => (await ask(address, 'api/filters/apply', { filter })).matches
  const facet = (page, name) => page.locator('.facet').filter({ has: page.getByRole('button', { name, exact: true }) })

  await t.test('a facet narrows the runs, and keeps its other values in sight', async (t) => {
    const page = await open(t, b, address)
    assert.equal(await matches(page), 2000)
    const gpu = facet(page, 'GPU model')
    await gpu.getByRole('checkbox').first().waitFor()
    const values = await gpu.getByRole('checkbox').count()
    assert.ok(values > 2)
    await gpu.getByRole('checkbox', { name: /H100/ }).check()
    const one = await count({ field: 'gpu', in: ['NVIDIA H100 80GB HBM3'] })
    await matches(page, one)
    await gpu.getByRole('checkbox', { name: /B200/ }).first().waitFor()
    assert.ok(await gpu.getByRole('checkbox').count() >= values)
    await page.getByRole('button', { name: 'suspect' }).click()
    await matches(page, await count({ and: [{ field: 'gpu', in: ['NVIDIA H100 80GB HBM3'] }, { field: 'verdict', in: ['suspect'] }] }))
    assert.match(await page.locator('.chips').textContent(), /GPU model is H100 80GB HBM3.*Verdict is suspect/)

    await page.goBack()
    await matches(page, one)
    await page.goBack()
    await matches(page, 2000)
    await page.goForward()
    await matches(page, one)
    await gpu.getByRole('checkbox', { name: 'all but these' }).check()
    await matches(page, 2000 - one)
    await page.getByRole('button', { name: /^Remove: GPU model is not/ }).click()
    await matches(page, 2000)
  })

  await t.test('a number has a range, by its limits and by its histogram', async (t) => {
    const page = await open(t, b, address)
    await page.getByRole('searchbox', { name: 'Find a field' }).fill('median ttft')
    await page.getByRole('complementary', { name: 'Filters' }).getByRole('button', { name: /^Median TTFT/ }).click()
    const most = page.getByRole('textbox', { name: 'Largest Median TTFT' })
    await most.fill('200')
    await most.press('Enter')
    await matches(page, await count({ field: 'median_ttft_ms', max: 200 }))
    const box = await page.locator('.range svg').boundingBox()
    await page.mouse.move(box.x + 1, box.y + 20)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width / 24 - 2, box.y + 20)
    await page.mouse.up()
    await page.locator('.chip', { hasText: 'Median TTFT is at most' }).filter({ hasNotText: 'at most 200 ' }).waitFor()
    assert.ok(await matches(page) < 2000)
  })

  await t.test('texts are searched, and the address shows the same elsewhere', async (t) => {
    const page = await open(t, b, address)
    await page.getByRole('searchbox', { name: 'Search all texts of the runs' }).fill('qwen3-8b')
    const wanted = await count({ text: 'qwen3-8b' })
    assert.ok(wanted > 0 && wanted < 2000)
    await matches(page, wanted)
    await page.getByRole('button', { name: 'valid', exact: false }).first().click()
    const both = await count({ and: [{ text: 'qwen3-8b' }, { field: 'verdict', in: ['valid'] }] })
    await matches(page, both)
    const other = await open(t, b, page.url())
    await matches(other, both)
    assert.equal(await other.getByRole('searchbox', { name: 'Search all texts of the runs' }).inputValue(), 'qwen3-8b')
  })

  await t.test('conditions are joined by or and not', async (t) => {
    const page = await open(t, b, address)
    await page.getByRole('button', { name: 'And / or…' }).click()
    const builder = page.locator('.builder')
    const line = async (i, field, condition, value) => {
      await builder.getByRole('combobox', { name: 'Field' }).nth(i).fill(field)
      await page.getByRole('option', { name: field }).first().click()
      await builder.getByRole('combobox', { name: 'Condition', exact: true }).nth(i).click()
      await page.getByRole('option', { name: condition, exact: true }).click()
      await builder.getByRole('textbox', { name: /^Value of/ }).nth(i).fill(value)
    }
    await line(0, 'GPU model', 'contains', 'B200')
    await line(1, 'Median TTFT', 'at most', '50')
    await builder.getByText('GPU model contains “B200” or Median TTFT is at most 50 ms').waitFor()
    await builder.getByRole('button', { name: 'Apply' }).click()
    const either = { or: [{ field: 'gpu', contains: 'B200' }, { field: 'median_ttft_ms', max: 50 }] }
    await matches(page, await count(either))
    await builder.waitFor({ state: 'detached' }) // it fades out
    await page.locator('.chip-edit').click()
    await builder.getByText('none of (not)').click()
    await builder.getByRole('button', { name: 'Apply' }).click()
    await matches(page, await count({ not: either }))
    await page.reload()
    await matches(page, await count({ not: either }))
  })

  await t.test('a filter is saved, loaded and deleted', async (t) => {
    const page = await open(t, b, `${address}?view=scatter&filter={"field":"verdict","in":["valid"]}`)
    const valid = await count({ field: 'verdict', in: ['valid'] })
    await matches(page, valid)
    await page.getByRole('button', { name: 'Presets' }).click()
    await page.getByRole('textbox', { name: 'Name of the preset' }).fill('only valid')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('button', { name: /^only valid/ }).waitFor()
    const other = await open(t, b, address)
    await other.getByRole('button', { name: 'Presets' }).click()
    await other.getByRole('button', { name: /^only valid/ }).click()
    await matches(other, valid)
    assert.match(other.url(), /view=scatter/)
    await other.getByRole('button', { name: 'Presets' }).click()
    await other.getByRole('button', { name: 'Delete the preset only valid' }).click()
    await other.getByText('No filter is saved yet.').waitFor()
  })

  await t.test('a slow answer never replaces a newer one', async (t) => {
    const page = await open(t, b, address)
    await matches(page, 2000)
    let first = true
    let release
    const held = new Promise((resolve) => { release = resolve })
    await page.route('**/api/filters/apply', async (route) => {
      if (first) {
        first = false
        await held
      }
      await route.continue().catch(() => undefined) // the page gave this request up
    })
    await page.locator('.tally.suspect').click()
    await page.locator('.tally.invalid').click()
    const both = await count({ field: 'verdict', in: ['suspect', 'invalid'] })
    await matches(page, both)
    release()
    await page.waitForLoadState('networkidle')
    assert.equal(await matches(page), both)
  })

  await t.test('a filter that nothing meets says so', async (t) => {
    const page = await open(t, b, `${address}?filter={"field":"gpu","in":["none such"]}`)
    await page.getByText('No run meets the filter.').waitFor()
    await page.getByRole('button', { name: 'Clear the filter' }).click()
    await matches(page, 2000)
  })

  await t.test('a filter that is wrong and a server that is gone are explained', async (t) => {
    const page = await open(t, b, `${address}?filter={"field":"gpu","min":"x"}`, { expected: ['422', 'net::ERR_FAILED'] })
    await page.getByRole('alert').getByText('is no number').waitFor()
    await page.getByRole('alert').getByText('then try again').waitFor()
    await page.getByRole('button', { name: 'Clear all' }).click()
    await matches(page, 2000)
    await page.route('**/api/filters/apply', (route) => route.abort())
    await page.locator('.tally.invalid').click()
    await page.getByRole('alert').getByText('The server does not answer.').waitFor()
    await page.unroute('**/api/filters/apply')
    await page.getByRole('button', { name: 'Try again' }).click()
    await matches(page, await count({ field: 'verdict', in: ['invalid'] }))
  })
})
