// Filters know run ids; answers name runs by their ids in the store.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { transformWithOxc } from 'vite'

test('ids of the store become run ids', async () => {
  const source = readFileSync(new URL('../src/ids.ts', import.meta.url), 'utf8')
  const { code } = await transformWithOxc(source, 'ids.ts')
  const { runIds } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
  assert.deepEqual(runIds(['exp_1', 'exp_1~2', 'exp_2~13', 'a~b']), ['exp_1', 'exp_2', 'a~b'])
})
