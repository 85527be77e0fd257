import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api, type Field, type ImpactRow } from '../api'
import { useKnown } from '../data'
import { nothing, choose, join, parts } from '../filter'
import { formatP, formatPercent, formatValue, nameOf, plural } from '../format'
import { FieldSelect } from '../parts/FieldSelect'
import { Interval } from '../parts/Interval'
import { Loading } from '../parts/Loading'
import { Trouble } from '../parts/Trouble'
import { update, type State } from '../state'
import { useMetric } from './TrendView'

const metrics = (f: Field) => f.group === 'metric' && f.better !== undefined && f.better !== ''

/** Which settings move a metric, by pairs of runs that differ in one setting only. */
export function ImpactView({ state }: { state: State }) {
  const { fields } = useKnown()
  const metric = useMetric(state)
  const field = fields.get(metric)
  const body = { filter: state.filter, metric }
  const got = useQuery({
    queryKey: ['impact', body], queryFn: ({ signal }) => api.impact(body, signal), placeholderData: keepPreviousData, enabled: metric !== '',
  })
  const rows = [...(got.data?.impact ?? [])].sort((a, b) => weight(b) - weight(a))
  const reach = Math.max(5, ...rows.map((r) => Math.min(200, Math.max(Math.abs(r.effect_percent), Math.abs(r.low ?? 0), Math.abs(r.high ?? 0)))))
  const sure = rows.filter(isSure)
  const first = sure[0]
  return (
    <section className="view" aria-label="Impact">
      <div className="tools">
        <FieldSelect label="Metric" value={metric} choose={(n) => update({ metric: n ?? undefined })} accept={metrics} w={220} />
      </div>
      {got.error && <Trouble error={got.error} retry={() => void got.refetch()} />}
      {got.isLoading && <Loading what="pairs of runs" />}
      {got.data && !got.error && (
        <div className="scroll pad-x">
          <div className="said">
            <p className="verdict-line">
              {first
                ? `${nameOf(fields.get(first.field) ?? { name: first.field })} moves ${nameOf(field ?? { name: metric })} most: ${formatPercent(first.effect_percent)} from ${formatValue(first.from, fields.get(first.field))} to ${formatValue(first.to, fields.get(first.field))}.`
                : rows.length > 0 ? 'No setting is shown to move the metric: every interval contains 0.'
                  : 'No two matching runs differ in exactly one setting, so no effect can be told apart.'}
            </p>
            <p className="quiet">
              Each effect is the median over pairs of runs that are equal in every other recorded setting, with its 95 % interval.
              An effect in these runs need not hold for others.
            </p>
            {got.data.notes?.map((n) => <p key={n} className="quiet">{n}</p>)}
          </div>
          {rows.length > 0 && (
            <table className="list">
              <thead>
                <tr>
                  <th scope="col">Setting</th><th scope="col">From</th><th scope="col">To</th>
                  <th scope="col" className="num">Effect</th><th scope="col" className="centre">−{reach.toFixed(0)} % … 0 … +{reach.toFixed(0)} %</th>
                  <th scope="col" className="num">95 % interval</th><th scope="col" className="num">Pairs</th><th scope="col" className="num">p</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((r) => <Row key={`${r.field} ${r.from} ${r.to}`} r={r} metric={field} reach={reach} state={state} />)}
              </tbody>
            </table>
          )}
        </div>
      )}
    </section>
  )
}

const isSure = (r: ImpactRow) => r.low !== null && r.high !== null && (r.low > 0 || r.high < 0)
/** Effects that are shown to differ from 0 come first, the largest first. */
const weight = (r: ImpactRow) => (isSure(r) ? 1e6 : 0) + Math.abs(r.effect_percent)

function Row({ r, metric, reach, state }: { r: ImpactRow; metric: Field | undefined; reach: number; state: State }) {
  const { fields } = useKnown()
  const f = fields.get(r.field)
  const good = metric?.better ? (metric.better === 'higher') === r.effect_percent > 0 : undefined
  const both = [r.from, r.to].filter((v) => v !== null)
  return (
    <tr className={isSure(r) ? undefined : 'faint'}>
      <th scope="row">
        <button
          type="button" className="plain" title={`${r.field}: show the runs with these two values`}
          onClick={() => update({ view: 'table', filter: join(choose(parts(state.filter), r.field, { ...nothing, values: both, missing: both.length < 2 })) })}
        >
          {nameOf(f ?? { name: r.field })}
        </button>
      </th>
      <td>{formatValue(r.from, f)}</td><td>{formatValue(r.to, f)}</td>
      <td className="num strong">{formatPercent(r.effect_percent)}</td>
      <td><Interval value={r.effect_percent} low={r.low} high={r.high} reach={reach} good={good} /></td>
      <td className="num">{r.low !== null && r.high !== null ? `${formatPercent(r.low)} … ${formatPercent(r.high)}` : <span title={`${plural(r.pairs, 'pair')} are too few for an interval`}>–</span>}</td>
      <td className="num">{r.pairs}</td><td className="num">{r.p === null ? '–' : formatP(r.p)}</td>
    </tr>
  )
}
