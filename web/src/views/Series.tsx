import { useMemo, useState } from 'react'
import type { Field, MetricTrend, Paragraph, Trend, TrendCut, Unlike } from '../api'
import { Chart } from '../charts/Chart'
import { look } from '../charts/look'
import { trendOption, type TrendPoint } from '../charts/trend'
import { useKnown } from '../data'
import { formatInterval, formatPercent, formatTime, nameOf, plural } from '../format'
import { Outcome } from '../parts/Outcome'
import { RunLink } from '../parts/RunLink'
import { update } from '../state'
import { keyOf, pointsOf } from './nearby'

interface Props {
  trend: Trend
  index: number // among the series
  nearby: Map<string, string>
  starts: { id: string; time: number }[]
  said: Paragraph | undefined
  about: string | undefined
  scheme: 'light' | 'dark'
}

/** One series: its chart, its changes, and on demand what sets it apart from others. */
export function Series({ trend, index, nearby, starts, said, about, scheme }: Props) {
  const by = (trend.by ?? []).map((s) => `${nameOf({ name: s.key })} ${s.value}`).join(', ')
  return (
    <article className="series">
      <h2>
        {by || about || trend.test}
        <Outcome word={trend.verdict} />
        {trend.kind && <span className="badge simulated">{trend.kind}</span>}
      </h2>
      <p className="quiet">Test {trend.test}, {plural(trend.runs, 'run')}, {plural(trend.starts, 'server start')}</p>
      {trend.metrics.map((m) => <One key={m.key} m={m} starts={starts} scheme={scheme} near={(c) => nearby.get(keyOf(index, m, c))} />)}
      <Notes lines={said?.lines ?? []} metrics={trend.metrics} />
    </article>
  )
}

type Near = (c: TrendCut) => string | undefined

function One({ m, starts, scheme, near }: { m: MetricTrend; starts: Props['starts']; scheme: 'light' | 'dark'; near: Near }) {
  const { fields } = useKnown()
  const field = fields.get(m.key)
  const points = useMemo(() => pointsOf(m, starts), [m, starts])
  const option = useMemo(() => field && trendOption(m, points, field, look(scheme)), [m, points, field, scheme])
  if (!option || points.length === 0) return <p className="quiet">{m.name}: no numbers.</p>
  const changes = m.cuts ?? []
  return (
    <>
      <Chart
        option={option} height={190} open={(id) => update({ view: 'run', run: id })}
        label={`${m.name} of ${plural(points.length, 'server start')}, ${m.verdict}, ${plural(changes.length, 'change')}.`}
      />
      {changes.length > 0 && <Changes m={m} points={points} near={near} />}
    </>
  )
}

/** When the metric changed, by how much, and what changed with it. */
function Changes({ m, points, near }: { m: MetricTrend; points: TrendPoint[]; near: Near }) {
  return (
    <div className="scroll-x">
      <table className="list changes">
        <thead>
          <tr>
            <th scope="col">When</th><th scope="col" className="num">{m.name}</th><th scope="col" className="num">Interval</th>
            <th scope="col">Verdict</th><th scope="col">What changed too</th><th scope="col">Runs</th>
          </tr>
        </thead>
        <tbody>
          {(m.cuts ?? []).map((c) => {
            const [before, after] = [points[c.index - 1], points[c.index]]
            return (
              <tr key={c.index}>
                <th scope="row" className="nowrap">{after ? formatTime(after.time) : '–'}</th>
                <td className={fell(c, m) ? 'num strong bad' : 'num strong'}>{c.shift_percent === null ? '–' : formatPercent(c.shift_percent)}</td>
                <td className="num quiet">{c.low_percent !== null && c.high_percent !== null ? formatInterval(c.low_percent, c.high_percent) : '–'}</td>
                <td><span title={c.why}><Outcome word={c.verdict} /></span></td>
                <td><Causes list={c.differs ?? []} near={near(c)} /></td>
                <td className="nowrap">{before?.id && <RunLink id={before.id}>before</RunLink>}{before?.id && after?.id && ', '}{after?.id && <RunLink id={after.id}>after</RunLink>}</td>
              </tr>
            )
          })}
        </tbody>
      </table>
    </div>
  )
}

/** Whether a change is for the worse. */
export function fell(c: TrendCut, m: MetricTrend): boolean {
  return c.shift_percent !== null && (m.better === 'lower' ? c.shift_percent > 0 : c.shift_percent < 0)
}

const other = (list: Unlike[]) => list.filter((u) => u.field !== 'nodes' && !(/image/.test(u.field) && list.some((x) => x.field === 'engine version')))

/** What changed, in a line of text. The hosts are mostly others each time, so they come in only if nothing else changed. */
export function causesText(list: Unlike[], fields: Map<string, Field>): string {
  return other(list).map((u) => `${nameOf(fields.get(u.field) ?? { name: u.field })} ${u.first || 'not set'} → ${u.second || 'not set'}`).join(', ')
}

function Causes({ list, near }: { list: Unlike[]; near: string | undefined }) {
  const { fields } = useKnown()
  const nodes = list.find((u) => u.field === 'nodes')
  const text = causesText(list, fields)
  return (
    <>
      {text || (near ? <><span className="quiet">near</span> {near}</> : <span className="quiet">no setting or version</span>)}
      {nodes && <span className="quiet" title={`${nodes.first} → ${nodes.second}`}>, other nodes</span>}
    </>
  )
}

/** What else the report says. The table above has the changes. */
function Notes({ lines, metrics }: { lines: string[]; metrics: MetricTrend[] }) {
  const [all, setAll] = useState(false)
  const told = (l: string) => /^\s*changed there/.test(l) || metrics.some((m) => l.startsWith(`${m.name} at `))
  const rest = lines.filter((l) => !told(l))
  if (rest.length === 0) return null
  return (
    <>
      <button type="button" className="plain inline" aria-expanded={all} onClick={() => setAll(!all)}>{all ? 'Fewer notes' : plural(rest.length, 'note')}</button>
      {all && <ul className="lines">{rest.map((line, i) => <li key={i}>{line}</li>)}</ul>}
    </>
  )
}
