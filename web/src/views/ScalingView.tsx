import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { api, type Field } from '../api'
import { Chart } from '../charts/Chart'
import { look } from '../charts/look'
import { scalingOption } from '../charts/scaling'
import { useKnown } from '../data'
import { formatMeasured, nameOf, withUnit } from '../format'
import { follow } from '../Head'
import { FieldSelect } from '../parts/FieldSelect'
import { Loading } from '../parts/Loading'
import { Trouble } from '../parts/Trouble'
import { link, update, type State } from '../state'
import { useMetric } from './TrendView'

const metrics = (f: Field) => f.group === 'metric' && f.better !== undefined && f.better !== ''
const drawn = 8

/** How a metric grows with the number of GPUs, against the fewest of the same configuration. */
export function ScalingView({ state, scheme }: { state: State; scheme: 'light' | 'dark' }) {
  const { fields } = useKnown()
  const metric = useMetric(state)
  const field = fields.get(metric)
  const body = { filter: state.filter, metric }
  const got = useQuery({
    queryKey: ['scaling', body], queryFn: ({ signal }) => api.scaling(body, signal), placeholderData: keepPreviousData, enabled: metric !== '',
  })
  const series = useMemo(() => got.data?.series ?? [], [got.data])
  const option = useMemo(() => field && scalingOption(series.slice(0, drawn), field, look(scheme)), [series, field, scheme])
  return (
    <section className="view" aria-label="Scaling">
      <div className="tools">
        <FieldSelect label="Metric" value={metric} choose={(n) => update({ metric: n ?? undefined })} accept={metrics} w={220} />
      </div>
      {got.error && <Trouble error={got.error} retry={() => void got.refetch()} />}
      {got.isLoading && <Loading what="the series" />}
      {got.data && !got.error && (
        <div className="scroll pad-x">
          {series.length === 0 && <p className="quiet">No matching configuration was measured on different numbers of GPUs.</p>}
          {series.length > 0 && option && field && (
            <Chart
              option={option} height={340} open={(id) => update({ view: 'run', run: id })}
              label={`${nameOf(field)} over the number of GPUs. The table below has the numbers.`}
            />
          )}
          {series.length > 0 && (
            <p className="caption quiet">
              Dotted: as many times the value of the fewest GPUs as there are more GPUs.
              {series.length > drawn && ` Drawn are ${drawn} of ${series.length} series; narrow the filter to see others.`}
            </p>
          )}
          {got.data.notes?.map((n) => <p key={n} className="quiet">{n}</p>)}
          {series.length > 0 && field && (
            <table className="list">
              <thead>
                <tr>
                  <th scope="col">Configuration</th><th scope="col" className="num">GPUs</th><th scope="col" className="num">{withUnit(field)}</th>
                  <th scope="col" className="num">Speed-up</th><th scope="col" className="num">Efficiency</th><th scope="col" className="num">Runs</th>
                </tr>
              </thead>
              <tbody>
                {series.map((s, i) => s.points.map((p, j) => (
                  <tr key={`${s.label} ${p.gpus}`} className={j === 0 ? 'first' : undefined}>
                    {j === 0 && (
                      <th scope="rowgroup" rowSpan={s.points.length}>
                        {i < drawn && <svg width="9" height="9" aria-hidden="true"><circle cx="4.5" cy="4.5" r="4.5" fill={look(scheme).series[i % 8]} /></svg>}{' '}
                        {s.label}{s.kind && <span className="badge simulated">{s.kind}</span>}
                      </th>
                    )}
                    <td className="num">{p.gpus}</td>
                    <td className="num">
                      {p.ids?.[0]
                        ? <a href={link({ view: 'run', run: p.ids[0] })} onClick={(e) => follow(e, { view: 'run', run: p.ids?.[0] })}>{formatMeasured(p.value)}</a>
                        : formatMeasured(p.value)}
                    </td>
                    <td className="num">{p.speedup === null ? '–' : `${formatMeasured(p.speedup)} ×`}</td>
                    <td className="num">{p.efficiency === null ? '–' : `${Math.round(p.efficiency * 100)} %`}</td>
                    <td className="num">{p.runs}</td>
                  </tr>
                )))}
              </tbody>
            </table>
          )}
        </div>
      )}
    </section>
  )
}
