import { Button } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { api, type Field, type MetricTrend, type Paragraph, type Trend } from '../api'
import { server } from '../http'
import { Chart } from '../charts/Chart'
import { look } from '../charts/look'
import { trendOption, type TrendPoint } from '../charts/trend'
import { useKnown } from '../data'
import { formatValue, nameOf, plural } from '../format'
import { runIds } from '../ids'
import { Outcome } from '../parts/Outcome'
import { FieldSelect } from '../parts/FieldSelect'
import { Loading } from '../parts/Loading'
import { Trouble } from '../parts/Trouble'
import { update, type State } from '../state'
import { ranked, useMetric } from './metrics'

const settings = (f: Field) => ['engine', 'load', 'setting'].includes(f.group)
/** A metric over time: one chart for each series of runs of one configuration. */
export function TrendView({ state, scheme }: { state: State; scheme: 'light' | 'dark' }) {
  const metric = useMetric(state)
  const [most, setMost] = useState(8)
  const body = { filter: state.filter, metrics: [metric], by: state.by ? [state.by] : undefined }
  const got = useQuery({
    queryKey: ['trends', body], queryFn: ({ signal }) => server.trends(body, signal), placeholderData: keepPreviousData, enabled: metric !== '',
  })
  const trends = got.data?.report.trends ?? []
  const said = got.data?.said ?? []
  const answers = said.find((p) => p.heading === 'Answers')?.lines ?? []
  const each = said.filter((p) => p.heading.startsWith('Trend:'))
  const short = trends.filter((t) => t.verdict === 'too little data')
  const fold = short.length < trends.length || short.length > 8
  const order = trends.map((_, i) => i).filter((i) => !fold || trends[i]?.verdict !== 'too little data').sort((a, b) => rank(trends[a]) - rank(trends[b]) || (trends[b]?.starts ?? 0) - (trends[a]?.starts ?? 0))
  const about = useAbout(order.slice(0, most).map((i) => got.data?.starts?.[i]?.at(-1)?.id))
  return (
    <section className="view" aria-label="Trend">
      <div className="tools">
        <FieldSelect label="Metric" value={metric} choose={(n) => update({ metric: n ?? undefined })} accept={ranked} w={220} />
        <FieldSelect
          label="Series: runs of a test with equal" value={state.by} choose={(n) => update({ by: n ?? undefined })} accept={settings}
          clearable placeholder="whole configuration" w={220}
        />
      </div>
      {got.error && <Trouble error={got.error} retry={() => void got.refetch()} />}
      {got.isLoading && <Loading what="the series" />}
      {got.data && !got.error && (
        <div className="scroll pad-x">
          {answers.length > 0 && <Said lines={answers} />}
          {trends.length === 0 && (
            <p className="quiet">
              No series: a series needs several valid runs of one test and configuration. Widen the filter, or choose a setting above.
            </p>
          )}
          {order.slice(0, most).map((i) => {
            const trend = trends[i]
            return trend && (
              <Series
                key={`${trend.test} ${trend.key}`} trend={trend} starts={got.data?.starts?.[i] ?? []} said={each[i]} scheme={scheme}
                about={about.get(got.data?.starts?.[i]?.at(-1)?.id ?? '')}
              />
            )
          })}
          {order.length > most && (
            <Button size="xs" variant="default" onClick={() => setMost(most + 12)}>Show more of the {order.length} series</Button>
          )}
          {fold && <Short list={short} />}
          <LeftOut list={got.data.report.left_out ?? []} />
        </div>
      )}
    </section>
  )
}

const telling = ['cmd_args.model', 'gpu', 'cmd_args.tensor_parallel_size', 'bench_cmd_args.max_concurrency', 'bench_cmd_args.request_rate']

/** What the newest run of each series ran, since tests of one name may differ in it. */
function useAbout(ids: (string | undefined)[]): Map<string, string> {
  const { fields } = useKnown()
  const names = telling.filter((n) => fields.has(n))
  const wanted = ids.filter((id) => id !== undefined)
  const query = { filter: { field: 'run_id', in: runIds(wanted) }, rows: { fields: names, limit: 200 } }
  const got = useQuery({
    queryKey: ['about', query], queryFn: ({ signal }) => api.apply(query, signal), enabled: wanted.length > 0, placeholderData: keepPreviousData,
  })
  const rows = got.data?.rows
  return new Map((rows?.ids ?? []).map((id, i) => [id, names.flatMap((n, j) => {
    const v = rows?.columns[j]?.[i]
    if (v === null || v === undefined) return []
    const text = formatValue(v, fields.get(n))
    return j < 2 ? [text] : [`${nameOf({ name: n })} ${text}`]
  }).join(', ')]))
}

const worst = ['regressed', 'improved', 'watch']
const rank = (t: Trend | undefined) => (t && worst.includes(t.verdict) ? worst.indexOf(t.verdict) : worst.length)

export function Said({ lines }: { lines: string[] }) {
  const [all, setAll] = useState(false)
  const [first, ...rest] = lines
  return (
    <div className="said">
      <p className="verdict-line">{first}</p>
      {(all ? rest : rest.slice(0, 2)).map((line) => <p key={line}>{line}</p>)}
      {rest.length > 2 && !all && <button type="button" className="plain" onClick={() => setAll(true)}>More</button>}
    </div>
  )
}

interface SeriesProps {
  trend: Trend
  starts: { id: string; time: number }[]
  said: Paragraph | undefined
  about: string | undefined
  scheme: 'light' | 'dark'
}

function Series({ trend, starts, said, about, scheme }: SeriesProps) {
  const by = (trend.by ?? []).map((s) => `${nameOf({ name: s.key })} ${s.value}`).join(', ')
  return (
    <article className="series">
      <h2>
        {trend.test}
        <Outcome word={trend.verdict} />
        {trend.kind && <span className="badge simulated">{trend.kind}</span>}
        <span className="quiet small">{plural(trend.runs, 'run')}, {plural(trend.starts, 'server start')}</span>
      </h2>
      {(by || about) && <p className="quiet">{by || about}</p>}
      {trend.metrics.map((m) => <One key={m.key} m={m} starts={starts} scheme={scheme} />)}
      <Lines lines={said?.lines ?? []} />
    </article>
  )
}

/** What is said of a series. What set it apart from the series before comes last. */
function Lines({ lines }: { lines: string[] }) {
  const [all, setAll] = useState(false)
  const apart = (line: string) => line.startsWith('not in the same series')
  const sorted = [...lines.filter((l) => !apart(l)), ...lines.filter(apart)]
  const short = !all && sorted.length > folded + 1
  return (
    <ul className="lines">
      {(short ? sorted.slice(0, folded) : sorted).map((line, i) => <li key={i}>{line}</li>)}
      {(short || all) && (
        <li><button type="button" className="plain inline" aria-expanded={all} onClick={() => setAll(!all)}>{all ? 'fewer' : `${sorted.length - folded} more lines`}</button></li>
      )}
    </ul>
  )
}

const folded = 5

function One({ m, starts, scheme }: { m: MetricTrend; starts: { id: string; time: number }[]; scheme: 'light' | 'dark' }) {
  const { fields } = useKnown()
  const field = fields.get(m.key)
  const points: TrendPoint[] = useMemo(() => {
    const ids = new Map(starts.map((s) => [s.time, s.id]))
    return (m.points ?? []).map((p) => {
      const time = Date.parse(p.time)
      return { time, value: p.value, id: ids.get(time) }
    })
  }, [m, starts])
  const option = useMemo(() => field && trendOption(m, points, field, look(scheme)), [m, points, field, scheme])
  if (!option || points.length === 0) return <p className="quiet">{m.name}: no numbers.</p>
  const changes = (m.cuts ?? []).length
  return (
    <Chart
      option={option} height={190} open={(id) => update({ view: 'run', run: id })}
      label={`${m.name} of ${plural(points.length, 'server start')}, ${m.verdict}, ${plural(changes, 'change')}. The text below describes each.`}
    />
  )
}

function Short({ list }: { list: Trend[] }) {
  if (list.length === 0) return null
  return (
    <details className="below">
      <summary>{plural(list.length, 'series').replace('seriess', 'series')} with too little data to find a change in</summary>
      <ul className="lines">
        {list.slice(0, 200).map((t) => <li key={`${t.test} ${t.key}`}>{t.test}: {plural(t.starts, 'server start')}{t.by?.map((s) => `, ${nameOf({ name: s.key })} ${s.value}`)}</li>)}
      </ul>
    </details>
  )
}

export function LeftOut({ list }: { list: { dir: string; why: string }[] }) {
  if (list.length === 0) return null
  return (
    <details className="below">
      <summary>{plural(list.length, 'run')} left out</summary>
      <ul className="lines">
        {list.slice(0, 200).map((x) => <li key={x.dir}><code>{x.dir}</code>: {x.why}</li>)}
      </ul>
    </details>
  )
}
