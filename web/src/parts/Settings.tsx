import { useState } from 'react'
import type { Setting } from '../api'
import { nameOf } from '../format'

// What tells configurations apart at first sight, in this order.
const important = [
  'cmd_args.model', 'model', 'gpu', 'GPU', 'engine', 'engine version', 'quantization', 'tensor_parallel_size',
  'data_parallel_size', 'pipeline_parallel_size', 'max_concurrency', 'request_rate', 'random_input_len', 'random_output_len',
]
const shown = 5

function ordered(list: Setting[]): Setting[] {
  const rank = (s: Setting) => {
    const at = important.findIndex((n) => s.key === n || s.key.endsWith(`.${n}`))
    return at < 0 ? important.length : at
  }
  return [...list].sort((a, b) => rank(a) - rank(b))
}

const text = (s: Setting) => `${nameOf({ name: s.key })} ${s.value || 'not set'}`

/** An unlimited request rate says nothing beside a concurrency. */
export const loadOf = (list: Setting[] | null) => (list ?? []).filter((s, _, all) => all.length === 1 || !/request_rate$/.test(s.key) || s.value !== 'inf')

/** The most important settings in a line. */
export function settingsText(list: Setting[] | null | undefined, other = 'one configuration'): string {
  if (!list?.length) return other
  const rest = list.length - shown
  const line = ordered(list).slice(0, rest > 1 ? shown : list.length).map(text).join(', ')
  return rest > 1 ? `${line} and ${rest} other settings` : line
}

/** The most important settings, and those without which it would read like another list. */
function telling(list: Setting[], others: Setting[][]): Setting[] {
  const sorted = ordered(list)
  const kept = new Set(sorted.slice(0, shown))
  for (const other of others) {
    const value = new Map(other.map((s) => [s.key, s.value]))
    const differs = (s: Setting) => value.get(s.key) !== s.value
    if (other === list || [...kept].some(differs)) continue
    const first = sorted.find(differs)
    if (first) kept.add(first)
  }
  return sorted.filter((s) => kept.has(s))
}

interface Props {
  list: Setting[] | null | undefined
  other?: string
  /** The lists beside it, from which the settings in sight must tell it apart. */
  among?: (Setting[] | null)[]
}

/** The same, with names quieter than values, and the other settings on demand. */
export function Settings({ list, other = 'one configuration', among = [] }: Props) {
  const [all, setAll] = useState(false)
  if (!list?.length) return other
  const few = telling(list, among.filter((x) => x !== null))
  const rest = list.length - few.length
  const hidden = ordered(list).filter((s) => !few.includes(s))
  return (
    <span className="settings">
      {(all || rest < 2 ? ordered(list) : few).map((s) => (
        <span key={s.key} title={s.key}><span className="quiet">{nameOf({ name: s.key })}</span> {s.value || <i>not set</i>} </span>
      ))}{' '}
      {rest > 1 && (
        <button type="button" className="plain" aria-expanded={all} title={all ? undefined : hidden.map(text).join('\n')} onClick={() => setAll(!all)}>
          {all ? 'fewer' : `${rest} more`}
        </button>
      )}
    </span>
  )
}
