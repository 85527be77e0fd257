// A change of the engine near a change of a metric: where noise moves the found change by a run or two.
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api, type MetricTrend, type Trends, type TrendCut } from '../api'
import type { TrendPoint } from '../charts/trend'
import { useKnown } from '../data'
import { formatValue, nameOf, plural } from '../format'
import { runIds } from '../ids'

/** One change of one series. */
export interface Change {
  series: number
  m: MetricTrend
  c: TrendCut
  points: TrendPoint[]
}

const reach = 3 // server starts to each side
const watched = ['engine_version', 'image']

export const keyOf = (series: number, m: MetricTrend, c: TrendCut) => `${series} ${m.key} ${c.index}`

/** The changes of series, in their order. */
export function changesOf(got: Trends, order: number[]): Change[] {
  return order.flatMap((series) => (got.report.trends?.[series]?.metrics ?? []).flatMap((m) => {
    const points = pointsOf(m, got.starts?.[series] ?? [])
    return (m.cuts ?? []).map((c) => ({ series, m, c, points }))
  }))
}

export function pointsOf(m: MetricTrend, starts: { id: string; time: number }[]): TrendPoint[] {
  const ids = new Map(starts.map((s) => [s.time, s.id]))
  return (m.points ?? []).map((p) => {
    const time = Date.parse(p.time)
    return { time, value: p.value, id: ids.get(time) }
  })
}

/** For changes at which only the nodes are others: the closest change of the engine, in words. */
export function useNearby(changes: Change[]): Map<string, string> {
  const { fields } = useKnown()
  const names = watched.filter((n) => fields.has(n))
  const open = changes.filter(({ c }) => !(c.differs ?? []).some((u) => u.field !== 'nodes')).slice(0, 60)
  const ids = [...new Set(open.flatMap(({ points, c }) => around(points, c).flatMap((p) => p.id ?? [])))]
  const query = { filter: { field: 'run_id', in: runIds(ids) }, rows: { fields: names, limit: 1000 } }
  const got = useQuery({
    queryKey: ['nearby', query], queryFn: ({ signal }) => api.apply(query, signal), enabled: ids.length > 0 && names.length > 0,
    placeholderData: keepPreviousData,
  })
  const rows = got.data?.rows
  const at = new Map((rows?.ids ?? []).map((id, i) => [id, i]))
  return new Map(open.flatMap((x) => {
    for (const [j, n] of names.entries()) {
      const value = (i: number) => rows?.columns[j]?.[at.get(x.points[i]?.id ?? '') ?? -1]
      const text = closest(x, value, (v) => formatValue(v, fields.get(n)))
      if (text) return [[keyOf(x.series, x.m, x.c), `${nameOf(fields.get(n) ?? { name: n }).toLowerCase()} ${text}`] as const]
    }
    return []
  }))
}

const around = (points: TrendPoint[], c: TrendCut) => points.slice(Math.max(0, c.index - 1 - reach), c.index + reach + 1)

type Read = (i: number) => string | number | null | undefined

function closest({ c, points }: Change, value: Read, write: (v: string | number) => string): string | undefined {
  const steps = Array.from({ length: 2 * reach + 1 }, (_, k) => k - reach).sort((a, b) => Math.abs(a) - Math.abs(b))
  for (const d of steps) {
    const [before, after] = [value(c.index + d - 1), value(c.index + d)]
    if (before == null || after == null || before === after || !points[c.index + d]) continue
    return `${write(before)} → ${write(after)} (${plural(Math.abs(d), 'run')} ${d < 0 ? 'earlier' : 'later'})`
  }
  return undefined
}
