// What the page asks the server: one question for each change of the filter.
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { createContext, useContext } from 'react'
import { api, type Answer, type Field, type Options, type Query } from './api'
import { asksForFailed, parts } from './filter'
import type { State } from './state'

export interface Known {
  options: Options
  fields: Map<string, Field>
}

export const KnownContext = createContext<Known>({
  options: { runs: 0, fields: [], defaults: { facets: [], metrics: [], columns: [] } },
  fields: new Map(),
})

export const useKnown = () => useContext(KnownContext)

export function useOptions() {
  return useQuery({ queryKey: ['options'], queryFn: ({ signal }) => api.options(signal) })
}

/** The default columns in an order that has numbers in sight: what ran, under which load, metrics, the rest. */
function inView(k: Known): string[] {
  const head = ['timestamp', 'cmd_args.model', 'gpu', 'gpus', 'bench_cmd_args.max_concurrency']
  const rank = (n: string) => (head.includes(n) ? head.indexOf(n) : k.fields.get(n)?.group === 'metric' ? head.length : head.length + 1)
  return [...k.options.defaults.columns].sort((a, b) => rank(a) - rank(b))
}

export const pageSize = 200
export const mostPoints = 10_000

const first = [
  'verdict', 'cmd_args.model', 'gpu', 'engine_version', 'cmd_args.tensor_parallel_size', 'bench_cmd_args.max_concurrency',
]

/** The facets that are open until someone opens or closes one. */
export function openFacets(s: State, k: Known): string[] {
  if (s.facets) return s.facets
  const several = (n: string) => (k.fields.get(n)?.distinct ?? 0) > 1
  return [...new Set([...first, ...k.options.defaults.facets])].filter(several).slice(0, 6)
}

export function columnsOf(s: State, k: Known): string[] {
  const list = s.columns ?? [...(asksForFailed(s.filter) ? ['cause_line'] : []), ...inView(k)]
  return list.filter((n) => k.fields.has(n) && n !== 'case' && n !== 'verdict') // these are always there
}

/** Fields of every row besides the columns: they label it. */
export const labels = ['case', 'verdict', 'kind']

/** Fields that say why a run is not valid: the cause of a failure, and the checks that found something. */
export const reasons = (k: Known) => k.options.fields.filter((f) => f.name === 'cause' || f.name === 'cause_line' || (f.name.startsWith('check.') && f.name !== 'check.simulated')).map((f) => f.name)

export function rowFields(columns: string[], k: Known): string[] {
  return [...new Set([...labels, ...reasons(k), ...columns])].filter((n) => k.fields.has(n))
}

export function axes(s: State, k: Known): { x: string; y: string; colour?: string; label?: string } {
  const known = (names: (string | undefined)[]) => names.find((n) => n !== undefined && k.fields.has(n))
  const metrics = k.options.defaults.metrics
  return {
    x: known([s.x, 'median_ttft_ms', 'mean_ttft_ms', ...metrics]) ?? '',
    y: known([s.y, 'output_throughput_per_gpu', 'output_throughput', ...metrics]) ?? '',
    colour: s.colour === '' ? undefined : known([s.colour, 'gpu', 'engine_version']),
    label: s.label === '' ? undefined : known([s.label, 'bench_cmd_args.max_concurrency', 'case']),
  }
}

function rowsOf(s: State, k: Known): Query['rows'] {
  if (s.view === 'table') return { fields: rowFields(columnsOf(s, k), k), sort: s.sort, offset: 0, limit: pageSize }
  if (s.view !== 'scatter') return undefined
  return { fields: pointFields(s, k), limit: mostPoints }
}

/** What a point of the scatter needs. */
export function pointFields(s: State, k: Known): string[] {
  const { x, y, colour, label } = axes(s, k)
  return [...new Set([...labels, x, y, colour, label].filter((n) => n !== undefined && k.fields.has(n)))] as string[]
}

interface Asked<T> {
  queryKey: unknown[]
  queryFn: (context: { signal: AbortSignal }) => Promise<T>
  enabled: boolean
}

/** The answer to a question, and until it is there, the one before. It asks at once, not after the page was drawn. */
export function useAsked<T>(ask: Asked<T>) {
  const client = useQueryClient()
  if (ask.enabled && !client.getQueryState(ask.queryKey)) void client.prefetchQuery(ask)
  return useQuery<T>({ ...ask, placeholderData: keepPreviousData as never }) // React Query takes no T that is a function, and no answer is one
}

/** The one question of the whole page: counts, facets, statistics and rows. */
export function useAnswer(s: State, k: Known) {
  const facets = [...new Set(['verdict', 'kind', ...openFacets(s, k)])].filter((n) => k.fields.has(n))
  const query: Query = { filter: s.filter, facets, metrics: k.options.defaults.metrics, rows: rowsOf(s, k) }
  return useAsked<Answer>({
    queryKey: ['apply', query],
    queryFn: ({ signal }) => api.apply(query, signal),
    enabled: k.options.runs > 0,
  })
}

/** How many of the matching runs have each value of verdict or kind. */
export function countsOf(a: Answer, field: string, s: State): Map<string, number> {
  const facet = a.facets?.find((f) => f.field === field)
  const counts = new Map<string, number>()
  const own = parts(s.filter).filter((p) => p.field === field && p.in !== undefined)
  for (const c of facet?.values ?? []) {
    const chosen = own.every((p) => p.in?.includes(c.value))
    counts.set(String(c.value), chosen ? c.runs : 0)
  }
  return counts
}
