// How numbers, times and names are written.
import type { Field, Value } from './api'

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })
const three = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 3 })
const fixed = new Intl.NumberFormat('en-US', { minimumSignificantDigits: 3, maximumSignificantDigits: 3 })
const long = new Intl.NumberFormat('en-US', { maximumSignificantDigits: 12 })

/** Three significant digits; whole numbers in full. */
export function formatNumber(x: number): string {
  if (Number.isInteger(x) && Math.abs(x) < 1e9) return whole.format(x)
  const size = Math.abs(x)
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return x.toExponential(2)
  return three.format(x)
}

/** A mean or another computed number: three significant digits even if it happens to be whole. */
export function formatMeasured(x: number): string {
  const size = Math.abs(x)
  if (size < 100 && size >= 1e-4) return fixed.format(x)
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return x.toExponential(2)
  return three.format(x)
}

export function formatExact(x: number): string {
  return long.format(x)
}

const two = (n: number) => String(n).padStart(2, '0')

/** A time in UTC, to the minute. */
export function formatTime(ms: number): string {
  const d = new Date(ms)
  return `${formatDate(ms)} ${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`
}

export function formatDate(ms: number): string {
  const d = new Date(ms)
  return Number.isNaN(d.getTime()) ? '–' : `${d.getUTCFullYear()}-${two(d.getUTCMonth() + 1)}-${two(d.getUTCDate())}`
}

export function formatPercent(x: number, digits = 1): string {
  const size = Math.abs(x)
  const text = size >= 100 ? whole.format(size) : size.toFixed(digits)
  return `${x > 0 ? '+' : x < 0 ? '−' : ''}${text}\u00a0%`
}

/** An interval in percent: −1.4 … +2.7 %. */
export function formatInterval(low: number, high: number): string {
  return `${formatPercent(low).slice(0, -2)} … ${formatPercent(high)}`
}

export function formatBytes(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let i = 0
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000
    i++
  }
  return `${three.format(n)} ${units[i]}`
}

/** A refusal and its hints, each a line. */
export function withHints(text: string): string[] {
  return text.split(/\s+(?=hint: )/).map((l) => l.charAt(0).toUpperCase() + l.slice(1))
}

/** A sentence of a report with minus signs as the page writes them, and percents that stay with their numbers. */
export function withSigns(text: string): string {
  return text.replace(/(^|[\s[(,])-(?=\d)/g, '$1−').replace(/(?<=[\d\]]) %/g, '\u00a0%')
}

/** A probability as papers write it. */
export function formatP(p: number): string {
  return p < 0.001 ? '< 0.001' : p.toFixed(3)
}

/** A value of a field, without its unit. Settings are written in full, measurements are rounded. */
export function formatValue(v: Value | undefined, field?: Field, full = false): string {
  if (v === null || v === undefined || v === '') return '–'
  if (typeof v === 'string') return field?.name === 'gpu' ? v.replace(/^NVIDIA /, '') : v
  if (field?.kind === 'time') return full ? formatDate(v) : formatTime(v)
  if (field && field.group !== 'metric' && !field.unit) return plain(v)
  if (field?.group === 'metric' && field.unit) return full ? formatExact(v) : formatMeasured(v)
  return full ? formatExact(v) : formatNumber(v)
}

/** A setting's number as it is typed: 8192, not 8,192. */
function plain(x: number): string {
  return Math.abs(x) >= 1e15 ? x.toExponential() : String(x)
}

const spelled: Record<string, string> = {
  run_id: 'Run', suite: 'Suite', scenario: 'Scenario', test: 'Test', case: 'Case', dir: 'Folder', timestamp: 'Started',
  duration: 'Duration', status: 'Status', kind: 'Kind', source: 'Source', verdict: 'Verdict', cause: 'Failure cause', cause_line: 'Failure line',
  nodes: 'Nodes', hosts: 'Hosts', topology: 'Topology', gpus: 'GPUs', partition: 'Partition', account: 'Account',
  job: 'Job', gpu: 'GPU model', driver: 'Driver', cuda: 'CUDA', gpu_power_limit_w: 'GPU power limit', gpu_mig: 'MIG',
  cpu: 'CPU', kernel: 'Kernel', os: 'OS', engine: 'Engine', engine_version: 'Engine version', image: 'Image',
  image_digest: 'Image digest', model_revision: 'Model revision', launcher: 'Launcher', profllm: 'profllm version',
  git: 'Definitions (git)', fingerprint: 'Fingerprint', series: 'Series', client: 'Load client', NUM_NODES: 'Nodes asked for',
  'cmd_args.model': 'Model',
}

/** The name of a field for a person. Settings keep the name that is typed, without the table. */
export function nameOf(f: { name: string; title?: string }): string {
  if (f.title) return f.title
  return spelled[f.name] ?? f.name.replace(/^(cmd_args|bench_cmd_args|results|extra_env_vars)\./, '')
}

export function withUnit(f: Field): string {
  return f.unit ? `${nameOf(f)} (${f.unit})` : nameOf(f)
}

export function plural(n: number, word: string): string {
  return `${whole.format(n)} ${word}${n === 1 ? '' : 's'}`
}
