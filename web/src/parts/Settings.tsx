import { useState } from 'react'
import type { Setting } from '../api'
import { nameOf } from '../format'

// What tells configurations apart at first sight, in this order.
const important = [
  'cmd_args.model', 'model', 'gpu', 'GPU', 'engine version', 'quantization', 'tensor_parallel_size', 'data_parallel_size',
  'pipeline_parallel_size', 'max_concurrency', 'request_rate',
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

/** The most important settings in a line. */
export function settingsText(list: Setting[] | null | undefined, other = 'one configuration'): string {
  if (!list?.length) return other
  const rest = list.length - shown
  const line = ordered(list).slice(0, rest > 1 ? shown : list.length).map(text).join(', ')
  return rest > 1 ? `${line} and ${rest} other settings` : line
}

/** The same, with names quieter than values, and the other settings on demand. */
export function Settings({ list, other = 'one configuration' }: { list: Setting[] | null | undefined; other?: string }) {
  const [all, setAll] = useState(false)
  if (!list?.length) return other
  const sorted = ordered(list)
  const rest = list.length - shown
  return (
    <span className="settings">
      {(all || rest < 2 ? sorted : sorted.slice(0, shown)).map((s) => (
        <span key={s.key} title={s.key}><span className="quiet">{nameOf({ name: s.key })}</span> {s.value || <i>not set</i>} </span>
      ))}{' '}
      {rest > 1 && (
        <button type="button" className="plain" aria-expanded={all} title={all ? undefined : sorted.slice(shown).map(text).join('\n')} onClick={() => setAll(!all)}>
          {all ? 'fewer' : `${rest} more`}
        </button>
      )}
    </span>
  )
}
