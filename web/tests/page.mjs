// What the tests of the page share: a server, a browser, and what a page must never do.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium } from 'playwright-core'

const ended = new Set() // origins of servers that are stopped: a page may still ask them
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

export const program = process.env.PROFLLM ?? 'profllm'
const browserPath = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find(existsSync)

// Stricter than the server's own: no inline style either.
const strict = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
  "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

/** Starts profllm dashboard serve on a free port; gives its address. */
export async function serve(t, args, env = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'profllm-web-'))
  const child = spawn(program, ['dashboard', 'serve', '--address', '127.0.0.1:0', ...args], {
    cwd: dir, env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'],
  })
  let origin
  t.after(async () => {
    ended.add(origin)
    child.kill()
    await new Promise((done) => (child.exitCode !== null ? done() : child.once('exit', done)))
    rmSync(dir, { recursive: true, force: true })
  })
  const said = []
  for await (const line of createInterface({ input: child.stderr })) {
    said.push(line)
    const address = /http:\/\/[\d.:]+\//.exec(line)
    if (address) {
      child.stderr.resume()
      origin = new URL(address[0]).origin
      return { address: address[0], dir }
    }
  }
  throw new Error(`the server did not start: ${said.join('\n')}`)
}

export async function browser(t) {
  const b = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox', '--force-prefers-reduced-motion'] })
  t.after(() => b.close())
  return b
}

/**
 * Opens a page that fails the test if it asks another server for anything, breaks the policy, or
 * throws an error. Errors that a test provokes are named in expected.
 */
export async function open(t, b, address, { expected = [], ...options } = {}) {
  const context = await b.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  const page = await context.newPage()
  page.setDefaultTimeout(60_000) // a busy machine draws slowly
  const wrong = []
  page.on('pageerror', (e) => wrong.push(`error: ${e.message}`))
  page.on('console', (m) => m.type() === 'error' && !ended.has(new URL(address).origin) && wrong.push(`console: ${m.text()}`))
  page.on('request', (r) => {
    const u = new URL(r.url())
    if (u.origin !== new URL(address).origin && u.protocol !== 'blob:' && u.protocol !== 'data:') wrong.push(`request: ${r.url()}`)
  })
  await page.route((u) => u.pathname === '/', async (route) => {
    const answer = await route.fetch()
    await route.fulfill({ response: answer, headers: { ...answer.headers(), 'content-security-policy': strict } })
  })
  t.after(async () => {
    await context.close()
    const left = wrong.filter((w) => !expected.some((e) => w.includes(e)))
    assert.deepEqual(left, [])
  })
  await page.goto(address)
  return page
}

/** Waits until the summary has a number of matching runs, and gives it. */
export async function matches(page, wanted) {
  const strong = page.locator('.matches strong')
  await strong.filter({ hasText: /\d/ }).waitFor()
  if (wanted !== undefined) await strong.filter({ hasText: new RegExp(`^${wanted.toLocaleString('en-US')}$`) }).waitFor()
  return Number((await strong.textContent()).replaceAll(',', ''))
}

/** Asks the API itself. */
export async function ask(address, path, body) {
  const answer = await fetch(new URL(path, address), body && {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body),
  })
  assert.ok(answer.ok, `${path}: ${answer.status} ${await answer.clone().text()}`)
  return answer.json()
}

/**
 * Violations of the rules of WCAG 2.1 A and AA, and of good practice, in a page or what a selector finds. What fades in
 * is looked at when it is there: before, its contrast is that of a shadow.
 */
export async function violations(page, within) {
  await page.waitForFunction(() => document.getAnimations().every((a) => a.playState === 'finished' || a.effect?.getComputedTiming().iterations === Infinity))
  await page.evaluate(axe)
  const { violations: found } = await page.evaluate((within) => window.axe.run(within ?? document, { resultTypes: ['violations'] }), within)
  return found.map((v) => `${v.impact} ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(' | ')}`)
}
