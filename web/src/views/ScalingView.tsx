import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useCallback, useMemo } from 'react'
import { api, type Field, type Scaling } from '../api'
import { Chart } from '../charts/Chart'
import { look } from '../charts/look'
import { scalingOption } from '../charts/scaling'
import { useKnown } from '../data'
import { formatMeasured, nameOf, withUnit } from '../format'
import { FieldSelect } from '../parts/FieldSelect'
import { Loading } from '../parts/Loading'
import { RunLink } from '../parts/RunLink'
import { Settings } from '../parts/Settings'
import { Trouble } from '../parts/Trouble'
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
      {got.error && <Trouble error={got.error} retry={() => void got.refetch()} />}
      {got.isLoading && <Loading what="the configurations" />}
      {got.data && !got.error && (
        <div className="scroll pad-x">
          <div className="said">
            <p className="verdict-line">{sentence(series, field)}</p>
            {got.data.kind && <p><span className="badge simulated">{got.data.kind}</span> <span className="quiet">These numbers are not those of a real engine.</span></p>}
          </div>
          {series.length > 0 && option && field && (
            <>
              <Chart
                option={option} height={320} open={(id) => update({ view: 'run', run: id })}
                label={`${nameOf(field)} over the number of GPUs. The table below has the numbers.`}
              />
              <p className="caption quiet">
                Dotted: perfect scaling from the fewest GPUs. Each point is the median of the best load of its number of GPUs.
                {series.length > drawn && ` Drawn are ${drawn} of ${series.length} configurations; narrow the filter to see others.`}
              </p>
              <Numbers series={series} field={field} colours={look(scheme).series} />
            </>
          )}
        </div>
      )}
    </section>
  )
}

function sentence(series: Scaling[], field: Field | undefined): string {
  if (series.length === 0) return 'No matching configuration was measured on different numbers of GPUs.'
  const last = series.flatMap((s) => s.points.at(-1) ?? [])
  const shares = last.map((p) => p.efficiency).sort((a, b) => a - b)
  const middle = `${Math.round((shares[Math.floor(shares.length / 2)] ?? 0) * 100)} %`
  const name = field ? nameOf(field) : 'the metric'
  return series.length === 1
    ? `On ${last[0]?.gpus} GPUs, ${name} per GPU is ${middle} of that on ${series[0]?.points[0]?.gpus}.`
    : `On the most GPUs, ${name} per GPU is ${middle} of that on the fewest, in the median of ${series.length} configurations.`
}

function Numbers({ series, field, colours }: { series: Scaling[]; field: Field; colours: string[] }) {
  return (
    <div className="scroll-x">
      <table className="list">
        <thead>
          <tr>
            <th scope="col">Configuration</th><th scope="col" className="num">GPUs</th><th scope="col" className="num">{withUnit(field)}</th>
            <th scope="col" className="num">per GPU</th><th scope="col" className="num">Efficiency</th><th scope="col">Layout and load</th>
            <th scope="col" className="num">Runs</th>
          </tr>
        </thead>
        <tbody>
          {series.slice(0, 100).map((s, i) => s.points.map((p, j) => (
            <tr key={`${i} ${p.gpus}`} className={j === 0 ? 'first' : undefined}>
              {j === 0 && (
                <th scope="rowgroup" rowSpan={s.points.length} className="top">
                  <svg width="9" height="9" aria-hidden="true"><circle cx="4.5" cy="4.5" r="4.5" fill={i < drawn ? colours[i % colours.length] : 'none'} /></svg>{' '}
                  <Settings list={s.settings} />
                </th>
              )}
              <td className="num">{p.gpus}</td>
              <td className="num"><RunLink id={p.run}>{formatMeasured(p.value)}</RunLink></td>
              <td className="num">{formatMeasured(p.value / p.gpus)}</td>
              <td className="num">{Math.round(p.efficiency * 100)} %</td>
              <td><Settings list={p.layout} other="–" /></td>
              <td className="num">{p.of}</td>
            </tr>
          )))}
        </tbody>
      </table>
    </div>
  )
}
