import { Button } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, type Field, type Trend, type Trends } from '../api'
import { server } from '../http'
import { useKnown } from '../data'
import { formatDate, formatPercent, formatValue, nameOf, plural } from '../format'
import { runIds } from '../ids'
import { Answered } from '../parts/Answered'
import { FieldSelect } from '../parts/FieldSelect'
import { update, type State } from '../state'
import { ranked, useMetric } from './metrics'
import { changesOf, keyOf, useNearby, type Change } from './nearby'
import { causesText, fell, Series } from './Series'

const settings = (f: Field) => ['engine', 'load', 'setting'].includes(f.group)

/** A metric over time: one chart for each series of runs of one configuration. */
export function TrendView({ state, scheme }: { state: State; scheme: 'light' | 'dark' }) {
  const metric = useMetric(state)
  const body = { filter: state.filter, metrics: [metric], by: state.by ? [state.by] : undefined }
  const got = useQuery({
    queryKey: ['trends', body], queryFn: ({ signal }) => server.trends(body, signal), placeholderData: keepPreviousData, enabled: metric !== '',
  })
  return (
    <section className="view" aria-label="Trend">
      <div className="tools">
        <FieldSelect label="Metric" value={metric} choose={(n) => update({ metric: n ?? undefined })} accept={ranked} w={220} />
        <FieldSelect
          label="One series for each test and" value={state.by} choose={(n) => update({ by: n ?? undefined })} accept={settings}
          clearable placeholder="whole configuration" w={240}
        />
      </div>
      <Answered got={got} what="the series">{(data) => <Found got={data} scheme={scheme} />}</Answered>
    </section>
  )
}

function Found({ got, scheme }: { got: Trends; scheme: 'light' | 'dark' }) {
  const [most, setMost] = useState(8)
  const trends = got.report.trends ?? []
  const each = (got.said ?? []).filter((p) => p.heading.startsWith('Trend:'))
  const short = trends.filter((t) => t.verdict === 'too little data')
  const fold = short.length < trends.length || short.length > 8
  const order = trends.map((_, i) => i).filter((i) => !fold || trends[i]?.verdict !== 'too little data').sort((a, b) => rank(trends[a]) - rank(trends[b]) || (trends[b]?.starts ?? 0) - (trends[a]?.starts ?? 0))
  const newest = (i: number) => got.starts?.[i]?.at(-1)?.id
  const about = useAbout(order.slice(0, Math.max(most, 50)).map(newest))
  const name = (i: number) => about.get(newest(i) ?? '') ?? trends[i]?.test
  const changes = changesOf(got, order)
  const nearby = useNearby(changes)
  return (
    <>
      {trends.length === 0
        ? <p className="quiet">No series: a series needs several valid runs of one test and configuration. Widen the filter, or choose a setting above.</p>
        : <Falls changes={changes} nearby={nearby} series={trends.length - short.length} metric={trends[0]?.metrics[0]?.name ?? ''} name={name} />}
      {order.slice(0, most).map((i) => {
        const trend = trends[i]
        return trend && (
          <Series
            key={`${trend.test} ${trend.key}`} trend={trend} index={i} nearby={nearby} starts={got.starts?.[i] ?? []} said={each[i]} scheme={scheme}
            about={name(i)}
          />
        )
      })}
      {order.length > most && (
        <Button size="xs" variant="default" onClick={() => setMost(most + 12)}>Show more of the {order.length} series</Button>
      )}
      {fold && <Short list={short} />}
      <LeftOut list={got.report.left_out ?? []} />
    </>
  )
}

interface FallsProps {
  changes: Change[]
  nearby: Map<string, string>
  series: number // with enough data
  metric: string
  name: (i: number) => string | undefined
}

/** What got worse, the newest first: the answer before the charts. */
function Falls({ changes, nearby, series, metric, name }: FallsProps) {
  const { fields } = useKnown()
  const time = ({ c, points }: Change) => points[c.index]?.time ?? 0
  const falls = changes.filter(({ c, m }) => fell(c, m)).sort((a, b) => time(b) - time(a))
  const sure = falls.filter(({ c }) => c.verdict === 'regressed').length
  const better = changes.filter(({ c }) => c.verdict === 'improved').length
  const why = ({ series: i, m, c }: Change) => {
    const same = causesText(c.differs ?? [], fields)
    const near = nearby.get(keyOf(i, m, c))
    return same ? `with ${same}` : near ? `near ${near}` : 'with no change of a setting or version'
  }
  return (
    <div className="said">
      <p className="verdict-line">{series === 0 ? 'No series has enough data to find a change in.' : (
        `${metric}: ${plural(sure, 'significant regression').replace(/^0/, 'no')} and ${plural(better, 'improvement').replace(/^0/, 'no')} in ${series} series.`
      )}</p>
      {falls.length > 0 && (
        <ul className="falls">
          {falls.slice(0, 10).map((x) => (
            <li key={keyOf(x.series, x.m, x.c)}>
              <b className="bad">{formatPercent(x.c.shift_percent ?? 0)}</b> on {formatDate(time(x))}
              {`, ${why(x)}`}
              {x.c.verdict === 'watch' && <span className="quiet"> ({x.c.why ?? 'may be chance'})</span>}
              <span className="quiet">: {name(x.series)}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
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
    if (v === null || v === undefined || v === 'inf') return []
    const text = formatValue(v, fields.get(n))
    return j < 2 ? [text] : [`${nameOf({ name: n })} ${text}`]
  }).join(', ')]))
}

const worst = ['regressed', 'improved', 'watch']
const rank = (t: Trend | undefined) => (t && worst.includes(t.verdict) ? worst.indexOf(t.verdict) : worst.length)

function Short({ list }: { list: Trend[] }) {
  if (list.length === 0) return null
  return (
    <details className="below">
      <summary>{list.length.toLocaleString('en-US')} series with too little data to find a change in</summary>
      <ul className="lines">
        {list.slice(0, 200).map((t) => <li key={`${t.test} ${t.key}`}>{t.test}: {plural(t.starts, 'server start')}{t.by?.map((s) => `, ${nameOf({ name: s.key })} ${s.value}`)}</li>)}
      </ul>
    </details>
  )
}

function LeftOut({ list }: { list: { dir: string; why: string }[] }) {
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
