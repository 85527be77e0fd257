// Keyboard, screen readers, contrast, narrow screens.
import assert from 'node:assert/strict'
import test from 'node:test'
import { ask, browser, matches, open, serve, violations } from './page.mjs'

const names = ['table', 'scatter', 'trend', 'impact', 'scaling', 'capacity', 'compare', 'run', 'upload']

test('access', async (t) => {
  const { address } = await serve(t, ['--demo'])
  const b = await browser(t)
  const { rows } = await ask(address, 'api/filters/apply', { filter: { field: 'cause', has: true }, rows: { fields: ['case'], limit: 3 } })
  const at = (view, theme) => `${address}?view=${view}&theme=${theme}&run=${rows.ids[0]}${rows.ids.map((id) => `&runs=${id}`).join('')}`

  for (const theme of ['light', 'dark']) {
    for (const view of names) {
      await t.test(`axe finds nothing in ${view}, ${theme}`, async (t) => {
        const page = await open(t, b, at(view, theme), { expected: ['404'] })
        await page.locator('h1').first().waitFor({ state: 'attached' })
        await page.waitForLoadState('networkidle')
        assert.deepEqual(await violations(page), [])
      })
    }
  }

  await t.test('axe finds nothing in the popovers', async (t) => {
    const page = await open(t, b, address)
    await matches(page)
    for (const name of ['And / or…', 'Presets', /^Columns/]) {
      await page.getByRole('button', { name }).click()
      await page.waitForLoadState('networkidle')
      assert.deepEqual(await violations(page), [])
      await page.keyboard.press('Escape')
    }
  })

  await t.test('the keyboard alone filters, sorts, compares and opens a run', async (t) => {
    const page = await open(t, b, address, { expected: ['404'] })
    await matches(page, 2000)
    const focused = () => page.evaluate(() => document.activeElement?.closest('label')?.textContent ?? document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent ?? '')
    const tabTo = async (wanted) => {
      for (let i = 0; i < 150; i++) {
        await page.keyboard.press('Tab')
        if (wanted.test(await focused())) return
      }
      assert.fail(`the keyboard does not reach ${wanted}`)
    }
    await page.keyboard.press('Tab')
    assert.match(await focused(), /Skip to the results/)
    await tabTo(/^suspect/)
    await page.keyboard.press('Space')
    const { matches: suspect } = await ask(address, 'api/filters/apply', { filter: { field: 'verdict', in: ['suspect'] } })
    await matches(page, suspect)
    await tabTo(/^GPUs?$/)
    await page.keyboard.press('Enter')
    await tabTo(/^Compare /)
    await page.keyboard.press('Space')
    await page.getByText('1 chosen').waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.getByText('The files of this run are not on this server').waitFor()
  })

  for (const view of names) {
    await t.test(`${view} fits 390 pixels`, async (t) => {
      const page = await open(t, b, at(view, 'light'), { viewport: { width: 390, height: 844 }, expected: ['404'] })
      await page.waitForLoadState('networkidle')
      const wide = await page.evaluate(() => document.documentElement.scrollWidth)
      assert.ok(wide <= 390, `${view} is ${wide} pixels wide`)
    })
  }

  await t.test('at 390 pixels the filters are a drawer', async (t) => {
    const page = await open(t, b, address, { viewport: { width: 390, height: 844 } })
    await matches(page, 2000)
    await page.getByRole('button', { name: 'Filters' }).click()
    await page.getByRole('complementary', { name: 'Filters' }).getByRole('checkbox', { name: /^suspect/ }).check()
    await page.getByRole('button', { name: 'Done' }).click()
    assert.ok(await matches(page) < 2000)
  })
})
