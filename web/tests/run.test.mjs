// One run with its files on the server: what was sampled over time, traces, the list of files.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import test from 'node:test'
import { ask, browser, open, program, serve } from './page.mjs'

const scenario = `name = "sampled"
[[Tests]]
id = "pd"
test_template_name = "vllm"
[Tests.torch_profiler]
torch_profiler_with_stack = false
[Tests.telemetry]
interval_s = 0.2
[Tests.extra_env_vars]
PROFLLM_SIM_GPUS = "4"
PROFLLM_SIM_FAULTS = "gpu:use=3/50"
[Tests.bench_cmd_args]
max_concurrency = 4
num_prompts = 8
random_output_len = 40
`

/** The results of a rehearsal: its engine and GPUs are simulated, its files are real. */
function rehearse(t) {
  const dir = mkdtempSync(join(tmpdir(), 'profllm-web-run-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  writeFileSync(join(dir, 's.toml'), scenario)
  const done = spawnSync(program, ['rehearse', 's.toml', '--output-dir', 'results'], { cwd: dir, encoding: 'utf8' })
  assert.equal(done.status, 0, done.stdout + done.stderr)
  return join(dir, 'results')
}

/** How many pixels of a chart are blue, as its first line, or purple, as its fourth. Lines are thin, so that their
 *  colours are mixed with the ground's. */
const painted = (chart, hue) => chart.locator('canvas').first().evaluate((canvas, hue) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  let n = 0
  for (let i = 0; i < data.length; i += 4) {
    const [r, g, b] = [data[i], data[i + 1], data[i + 2]]
    if (hue === 'blue' ? b - r > 30 && g - r > 10 : r - g > 20 && b - g > 20) n++
  }
  return n
}, hue)

/** Waits until a chart has a line of a colour. */
async function drawn(chart, hue) {
  let n = 0
  for (let i = 0; i < 100 && n <= 100; i++) {
    n = await painted(chart, hue)
    if (n <= 100) await chart.page().waitForTimeout(100)
  }
  assert.ok(n > 100, `${n} pixels are ${hue}`)
}

test('run', async (t) => {
  const results = rehearse(t)
  const { address } = await serve(t, [results])
  const b = await browser(t)
  const { experiments } = await ask(address, 'api/data/experiments')
  const id = experiments[0].run_id

  for (const theme of ['light', 'dark']) {
    await t.test(`what was sampled is drawn, ${theme}`, async (t) => {
      const { tracks } = await ask(address, `api/data/experiments/${id}/series`)
      const names = [...new Set(tracks.filter((x) => x.times.length > 1).map((x) => x.name))]
      for (const name of ['requests running', 'tokens generated', 'GPU utilization', 'GPU memory', 'GPU power', 'CPU utilization']) {
        assert.ok(names.includes(name), `${name} in ${names}`)
      }
      const page = await open(t, b, `${address}?view=run&run=${id}&theme=${theme}`)
      const figures = page.locator('.small-charts figure')
      await figures.nth(names.length - 1).locator('canvas').waitFor()
      assert.equal(await figures.count(), names.length)
      const gpus = figures.filter({ hasText: 'GPU utilization' })
      assert.equal(await gpus.locator('.legend span').count(), 4)
      await gpus.getByText('GPU 3').waitFor()
      await drawn(gpus.locator('.chart'), 'purple') // half as busy as the others
      const running = figures.filter({ hasText: 'requests running' }).locator('.chart')
      await drawn(running, 'blue')
      assert.equal(await painted(running, 'purple'), 0, 'and no fourth')
    })
  }

  await t.test('a trace is downloaded as the profiler wrote it', async (t) => {
    const page = await open(t, b, `${address}?view=run&run=${id}`)
    const { dir, record } = await ask(address, `api/data/experiments/${id}`)
    const trace = record.profiling.traces[0].path
    const link = page.getByRole('link', { name: trace })
    const [file] = await Promise.all([page.waitForEvent('download'), link.click()])
    assert.deepEqual(readFileSync(await file.path()), readFileSync(join(dir, trace)))
  })

  await t.test('the files of the folder are listed', async (t) => {
    const page = await open(t, b, `${address}?view=run&run=${id}`)
    const { dir, files } = await ask(address, `api/data/experiments/${id}`)
    assert.ok(files.length > 20)
    for (const f of files) assert.equal(statSync(join(dir, f.name)).size, f.size, f.name)
    await page.getByText(`${files.length} files, `).click()
    await page.locator('.files tr', { hasText: 'telemetry/gpu-' }).waitFor()
    assert.equal(await page.locator('.files tbody tr').count(), files.length)
  })

  await t.test('another run with the same run id is compared and opened', async (t) => {
    const { record } = await ask(address, `api/data/experiments/${id}`)
    const twin = join(results, '../twin')
    mkdirSync(twin)
    writeFileSync(join(twin, 'result.json'), JSON.stringify({ ...record, suite: 'another' }))
    const both = await serve(t, [results, twin])
    const page = await open(t, b, `${both.address}?view=compare&runs=${id}&runs=${id}~2`, { expected: ['404'] })
    const links = page.locator('.view a[href*="run="]').filter({ hasNotText: 'table' })
    await page.locator('.verdict-line').waitFor()
    const linked = await links.evaluateAll((list) => list.map((a) => new URL(a.href).searchParams.get('run')))
    assert.deepEqual([...new Set(linked)].sort(), [id, `${id}~2`])
    await links.last().click()
    await page.getByText('suite another').waitFor()
  })

  await t.test('without the folder, the page says so', async (t) => {
    const filled = spawnSync(program, ['store', 'fill', '--store', join(results, '../runs.db'), results], { encoding: 'utf8' })
    assert.equal(filled.status, 0, filled.stderr)
    const other = await serve(t, ['--store', join(results, '../runs.db')])
    const page = await open(t, b, `${other.address}?view=run&run=${id}`, { expected: ['404'] })
    await page.getByText('The files of this run are not on this server').waitFor()
    assert.equal(await page.locator('.files').count(), 0)
  })
})
