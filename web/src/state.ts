// The state of the page, all of it in the address, so that a link shows the same and the
// back button works.
import { useMemo, useSyncExternalStore } from 'react'
import type { Filter, Limit, Order } from './api'

export const views = ['table', 'scatter', 'trend', 'impact', 'scaling', 'capacity', 'compare', 'run', 'upload'] as const
export type View = (typeof views)[number]

export interface State {
  view: View
  filter?: Filter
  columns?: string[] // undefined: the server's default
  sort: Order[]
  facets?: string[] // open ones; undefined: the default
  x?: string
  y?: string
  colour?: string
  label?: string
  log?: string // axes with a logarithmic scale: x, y or xy
  metric?: string
  by?: string
  limits?: Limit[]
  target?: number // of the metric, in a plan of capacity
  runs: string[] // chosen for a comparison
  a?: Filter // the sides of a comparison of sets
  b?: Filter
  run?: string
  theme?: 'light' | 'dark'
}

function parseFilter(text: string | null): Filter | undefined {
  if (!text) return undefined
  try {
    const f: unknown = JSON.parse(text)
    return f && typeof f === 'object' ? (f as Filter) : undefined
  } catch {
    return undefined // a damaged link shows all runs
  }
}

function parseLimits(text: string | null): Limit[] | undefined {
  if (text === null) return undefined
  return text.split('~').flatMap((part) => {
    const [field, value] = part.split(':')
    return field && Number.isFinite(Number(value)) ? [{ field, value: Number(value) }] : []
  })
}

const list = (text: string | null) => (text === null ? undefined : text === '' ? [] : text.split('~'))

export function parse(search: string): State {
  const q = new URLSearchParams(search)
  const text = (key: string) => q.get(key) ?? undefined
  const theme = text('theme')
  const target = Number(q.get('target') ?? Number.NaN)
  return {
    view: views.find((v) => v === q.get('view')) ?? 'table',
    filter: parseFilter(q.get('filter')),
    columns: list(q.get('columns')),
    sort: (list(q.get('sort')) ?? []).map((s) =>
      s.startsWith('-') ? { field: s.slice(1), descending: true } : { field: s }),
    facets: list(q.get('facets')),
    x: text('x'), y: text('y'), colour: text('colour'), label: text('label'), log: text('log'), metric: text('metric'), by: text('by'),
    limits: parseLimits(q.get('limits')),
    target: Number.isFinite(target) ? target : undefined,
    runs: q.getAll('runs'),
    a: parseFilter(q.get('a')),
    b: parseFilter(q.get('b')),
    run: text('run'),
    theme: theme === 'light' || theme === 'dark' ? theme : undefined,
  }
}

export function format(s: State): string {
  const q = new URLSearchParams()
  const put = (key: string, value: string | undefined) => value !== undefined && q.set(key, value)
  put('view', s.view === 'table' ? undefined : s.view)
  put('filter', s.filter && JSON.stringify(s.filter))
  put('columns', s.columns?.join('~'))
  put('sort', s.sort.length ? s.sort.map((o) => (o.descending ? '-' : '') + o.field).join('~') : undefined)
  put('facets', s.facets?.join('~'))
  put('x', s.x)
  put('y', s.y)
  put('colour', s.colour)
  put('label', s.label)
  put('log', s.log)
  put('metric', s.metric)
  put('by', s.by)
  put('limits', s.limits?.map((l) => `${l.field}:${l.value}`).join('~'))
  put('target', s.target?.toString())
  for (const id of s.runs) q.append('runs', id) // ids of the store may have any character
  put('a', s.a && JSON.stringify(s.a))
  put('b', s.b && JSON.stringify(s.b))
  put('run', s.view === 'run' ? s.run : undefined)
  put('theme', s.theme)
  // Braces, quotes and the like need no escape in a query; a link stays legible.
  const text = q.toString().replace(/%7B|%7D|%5B|%5D|%3A|%2C|%7E/g, decodeURIComponent)
  return text ? `${mark ?? ''}?${text}` : home()
}

// A page that is a file keeps its state behind #: what stands before it names the file.
let mark: string | undefined // what begins the fragment
let last = '' // the state before the reader went elsewhere in the page

/** Keeps the state in the fragment, behind a name: #explore?view=table. */
export function keepInFragment(name: string): void {
  mark = `#${name}`
}

/** Whether the address has a state of this page. */
export const open = () => mark === undefined || location.hash === mark || location.hash.startsWith(`${mark}?`)

/** The state in the address. */
export function search(): string {
  if (mark === undefined) return location.search
  if (open()) last = location.hash.slice(mark.length)
  return last
}

/** The address of the page without a state. */
export const home = () => mark ?? location.pathname

const changed = new EventTarget()

function subscribe(notify: () => void): () => void {
  window.addEventListener('popstate', notify)
  changed.addEventListener('change', notify)
  return () => {
    window.removeEventListener('popstate', notify)
    changed.removeEventListener('change', notify)
  }
}

/** Changes the state. A replaced entry is no step of the back button: a slider moves through many. */
export function update(change: Partial<State>, replace = false): void {
  const next = format({ ...parse(search()), ...change })
  if (next === (mark === undefined ? location.search : location.hash)) return
  if (replace) history.replaceState(null, '', next)
  else history.pushState(null, '', next)
  changed.dispatchEvent(new Event('change'))
}

/** Goes to a saved state, with the filter and theme given. */
export function show(saved: string, filter: Filter | undefined): void {
  const { theme } = parse(search())
  update({ ...parse(saved), filter: filter && Object.keys(filter).length > 0 ? filter : undefined, theme })
}

/** The address of the page with a change, for links. */
export function link(change: Partial<State>): string {
  return format({ ...parse(search()), ...change })
}

/** The theme alone: what stands around the page is drawn again only if that changes. */
export function useTheme(): State['theme'] {
  return useSyncExternalStore(subscribe, () => parse(search()).theme)
}

export function useAddress(): State {
  const text = useSyncExternalStore(subscribe, search)
  return useMemo(() => parse(text), [text])
}
