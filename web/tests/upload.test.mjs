// An empty store, and uploads: good, bad, twice, without a token.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import test from 'node:test'
import { browser, matches, open, serve } from './page.mjs'

const record = new URL('../../pkg/result/testdata/releases/2026-11-22/gpu/aggregated/0/result.json', import.meta.url)

test('upload', async (t) => {
  const b = await browser(t)

  await t.test('an empty store says how to fill it, and takes files', async (t) => {
    const { address, dir } = await serve(t, ['--store', 'runs.db'])
    const page = await open(t, b, address)
    await page.getByRole('heading', { name: 'The store is empty' }).waitFor()
    await page.getByText('profllm dashboard serve --demo').waitFor()
    await page.getByRole('link', { name: 'Upload records' }).click()

    const bad = join(dir, 'bad.json')
    writeFileSync(bad, '{"run_id": ')
    const input = page.locator('input[type=file]')
    await input.setInputFiles(new URL(record).pathname)
    await page.getByRole('heading', { name: 'Done: 1 stored' }).waitFor()
    await input.setInputFiles([new URL(record).pathname, bad])
    await page.getByRole('heading', { name: /Done: .*1 refused/ }).waitFor()
    const job = page.locator('.job').first()
    await job.locator('.badge.invalid').waitFor()
    const why = await job.locator('.bad').first().textContent()
    assert.ok(why.length > 10 && !why.startsWith('bad.json'), why)
    await job.getByText(/duplicate|updated/).first().waitFor()

    await page.getByRole('link', { name: 'Table' }).click()
    await matches(page, 1)
    await page.getByText('simulated').first().waitFor()
  })

  await t.test('files are dropped', async (t) => {
    const { address } = await serve(t, ['--store', 'runs.db'])
    const page = await open(t, b, `${address}?view=upload`)
    const text = readFileSync(record, 'utf8')
    const data = await page.evaluateHandle((text) => {
      const d = new DataTransfer()
      d.items.add(new File([text], 'result.json', { type: 'application/json' }))
      return d
    }, text)
    await page.locator('.drop').dispatchEvent('drop', { dataTransfer: data })
    await page.getByRole('heading', { name: 'Done: 1 stored' }).waitFor()
  })

  await t.test('a server with a token asks for it', async (t) => {
    const { address } = await serve(t, ['--store', 'runs.db'], { PROFLLM_DASHBOARD_TOKEN: 'secret' })
    const page = await open(t, b, `${address}?view=upload`, { expected: ['401'] })
    const input = page.locator('input[type=file]')
    await input.setInputFiles(new URL(record).pathname)
    await page.getByRole('alert').getByText('Enter it under Upload').waitFor()
    await page.getByLabel('Token of the server').fill('secret')
    await input.setInputFiles(new URL(record).pathname)
    await page.getByRole('heading', { name: 'Done: 1 stored' }).waitFor()
  })

  await t.test('a server that wants a token for reading asks for it first', async (t) => {
    const { address } = await serve(t, ['--demo', '--token-for', 'all'], { PROFLLM_DASHBOARD_TOKEN: 'secret' })
    const page = await open(t, b, address, { expected: ['401'] })
    await page.getByRole('alert').getByText('Enter the token').waitFor()
    await page.getByLabel('Token of the server').fill('secret')
    await page.getByRole('button', { name: 'Try again' }).click()
    await matches(page, 2000)
  })

  await t.test('a read-only server takes nothing', async (t) => {
    const { address } = await serve(t, ['--demo', '--read-only'])
    const page = await open(t, b, `${address}?view=upload`)
    await page.getByText('This server is read-only').waitFor()
    await page.getByRole('link', { name: 'Table' }).click()
    await page.getByRole('button', { name: 'Presets' }).click()
    await page.getByText('No filter is saved yet.').waitFor()
    assert.equal(await page.getByRole('button', { name: 'Save', exact: true }).count(), 0)
  })
})
