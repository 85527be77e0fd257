import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useCallback, useMemo } from 'react'
import { api, type Field, type Scaling } from '../api'
import { Chart } from '../charts/Chart'
import { look } from '../charts/look'
import { scalingOption } from '../charts/scaling'
import { useKnown } from '../data'
import { formatMeasured, nameOf, plural, withUnit } from '../format'
import { Answered } from '../parts/Answered'
import { FieldSelect } from '../parts/FieldSelect'
import { RunLink } from '../parts/RunLink'
import { loadOf, Settings } from '../parts/Settings'
import { update, type State } from '../state'
import { useMetric, useRanked } from './metrics'

const drawn = 8

/** How a metric grows with the number of GPUs, against the fewest of the same configuration. */
export function ScalingView({ state, scheme }: { state: State; scheme: 'light' | 'dark' }) {
  const { fields } = useKnown()
  const asked = useMetric(state)
  const accept = useRanked()
  const growing = useCallback((f: Field) => accept(f) && f.better === 'higher', [accept])
  const metric = fields.get(asked)?.better === 'higher' ? asked : 'output_throughput'
  const field = fields.get(metric)
  const body = { filter: state.filter, metric }
  const got = useQuery({
    queryKey: ['scaling', body], queryFn: ({ signal }) => api.scaling(body, signal), placeholderData: keepPreviousData, enabled: field !== undefined,
  })
  const series = useMemo(() => got.data?.scalings ?? [], [got.data])
  const option = useMemo(() => field && scalingOption(series.slice(0, drawn), field, look(scheme)), [series, field, scheme])
  return (
    <section className="view" aria-label="Scaling">
      <div className="tools">
        <FieldSelect label="Metric" value={metric} choose={(n) => update({ metric: n ?? undefined })} accept={growing} w={220} />
      </div>
      <Answered got={got} what="the configurations">
        {(data) => (
          <>
            <div className="said">
              <p className="verdict-line">{sentence(series, field)}</p>
              {series.length > 0 && (
                <p className="quiet">
                  Efficiency is {field ? nameOf(field) : 'the metric'} per GPU as a share of that on the fewest GPUs, each number of GPUs at its best load.
                  {' '}Numbers are medians of valid runs.{data.kind && ` The runs are ${data.kind}: the numbers are not those of a real engine.`}
                </p>
              )}
              {series.some((s) => s.points.some((p) => p.low_load)) && (
                <p className="warn">
                  Hollow points have no valid run at the loads of the other points. The line above leaves them out, since more load may do more.
                </p>
              )}
            </div>
            {series.length > 0 && option && field && (
              <>
                <Chart
                  option={option} height={280} open={(id) => update({ view: 'run', run: id })}
                  label={`Efficiency of ${nameOf(field)} over the number of GPUs. The table below has the numbers.`}
                />
                {series.length > drawn && (
                  <p className="caption quiet">The chart has {drawn} of {series.length} configurations. Narrow the filter to see others.</p>
                )}
                <Numbers series={series} field={field} colours={look(scheme).series} />
              </>
            )}
          </>
        )}
      </Answered>
    </section>
  )
}

function sentence(series: Scaling[], field: Field | undefined): string {
  if (series.length === 0) return 'No matching configuration was measured on different numbers of GPUs.'
  const name = field ? nameOf(field) : 'the metric'
  // Shares of one start only: those from other numbers of GPUs do not compare.
  const known = series.filter((s) => !s.points[0]?.low_load)
  const start = mostly(known.map((s) => s.points[0]?.gpus ?? 0))
  const alike = known.filter((s) => s.points[0]?.gpus === start)
  const counts = [...new Set(alike.flatMap((s) => s.points.slice(1).map((p) => p.gpus)))].sort((a, b) => a - b)
  const steps = counts.flatMap((gpus) => {
    const shares = alike.flatMap((s) => s.points.filter((p) => p.gpus === gpus && !p.low_load).map((p) => p.efficiency))
    return shares.length > 0 ? [`${percent(median(shares))} on ${gpus}`] : []
  })
  if (steps.length === 0) return `The best loads of ${name} are not valid on several numbers of GPUs.`
  const of = alike.length > 1 ? `, medians of ${alike.length} configurations` : ''
  return `Efficiency of ${name} against ${plural(start, 'GPU')}: ${steps.join(', ')}${of}.`
}

function mostly(list: number[]): number {
  const count = (n: number) => list.filter((x) => x === n).length
  return [...list].sort((a, b) => count(b) - count(a) || a - b)[0] ?? 0
}

const percent = (x: number) => `${Math.round(x * 100)}\u00a0%`

function median(list: number[]): number {
  const sorted = [...list].sort((a, b) => a - b)
  const half = sorted.length >> 1
  return sorted.length % 2 ? (sorted[half] ?? 0) : ((sorted[half - 1] ?? 0) + (sorted[half] ?? 0)) / 2
}

/** The layout and load of a point, as far as the points of a configuration differ in it. */
function layoutOf(s: Scaling, p: Scaling['points'][number]) {
  return loadOf(p.layout).filter((x) => s.points.some((q) => q.layout?.some((y) => y.key === x.key && y.value !== x.value)))
}

function Numbers({ series, field, colours }: { series: Scaling[]; field: Field; colours: string[] }) {
  const among = series.slice(0, 100).map((s) => s.settings)
  return (
    <div className="scroll-x">
      <table className="list">
        <thead>
          <tr>
            <th scope="col">Configuration</th><th scope="col" className="num">GPUs</th><th scope="col" className="num">{withUnit(field)}</th>
            <th scope="col" className="num">Per GPU</th><th scope="col" className="num">Efficiency</th><th scope="col">Layout and load</th>
            <th scope="col" className="num">Runs</th>
          </tr>
        </thead>
        <tbody>
          {series.slice(0, 100).map((s, i) => s.points.map((p, j) => (
            <tr key={`${i} ${p.gpus}`} className={j === 0 ? 'first' : undefined}>
              {j === 0 && (
                <th scope="rowgroup" rowSpan={s.points.length} className="top">
                  <svg width="9" height="9" aria-hidden="true"><circle cx="4.5" cy="4.5" r="4.5" fill={i < drawn ? colours[i % colours.length] : 'none'} /></svg>{' '}
                  <Settings list={s.settings} among={among} />
                </th>
              )}
              <td className="num">{p.gpus}</td>
              <td className="num"><RunLink id={p.run}>{formatMeasured(p.value)}</RunLink></td>
              <td className="num">{formatMeasured(p.value / p.gpus)}</td>
              <td className="num">{p.low_load && <span className="quiet small">valid at lower loads only </span>}{percent(p.efficiency)}</td>
              <td><Settings list={layoutOf(s, p)} other="–" /></td>
              <td className="num">{p.of}</td>
            </tr>
          )))}
        </tbody>
      </table>
    </div>
  )
}
