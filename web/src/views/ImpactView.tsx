import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api, type Field, type Impact, type Impacts } from '../api'
import { useKnown } from '../data'
import { choose, join, nothing, parts } from '../filter'
import { formatInterval, formatP, formatPercent, nameOf, plural } from '../format'
import { Answered } from '../parts/Answered'
import { FieldSelect } from '../parts/FieldSelect'
import { Interval, reachOf } from '../parts/Interval'
import { RunLink } from '../parts/RunLink'
import { update, type State } from '../state'
import { useMetric, useRanked } from './metrics'

/** Which settings move a metric, by pairs of runs that differ in one setting only. */
export function ImpactView({ state }: { state: State }) {
  const metric = useMetric(state)
  const accept = useRanked()
  const body = { filter: state.filter, metric }
  const got = useQuery({
    queryKey: ['impact', body], queryFn: ({ signal }) => api.impact(body, signal), placeholderData: keepPreviousData, enabled: metric !== '',
  })
  return (
    <section className="view" aria-label="Impact">
      <div className="tools">
        <FieldSelect label="Metric" value={metric} choose={(n) => update({ metric: n ?? undefined })} accept={accept} w={220} />
      </div>
      <Answered got={got} what="the effects">{(report) => <Found report={report} state={state} />}</Answered>
    </section>
  )
}

const isLoad = (r: Impact) => r.key.startsWith('bench_cmd_args.')

function Found({ report, state }: { report: Impacts; state: State }) {
  const rows = report.impacts ?? []
  return (
    <>
      <div className="said">
        <p className="verdict-line">{first(report)}</p>
        <p className="quiet">
          Each effect is the median over pairs of runs that are equal in every other recorded setting.
          {` ${plural(report.runs, 'run')} ${report.runs === 1 ? 'counts' : 'count'}`}
          {report.leftout > 0 && `; ${plural(report.leftout, 'run')} left out: not valid, of another kind, or without the metric`}.
          {report.kind && ` The runs are ${report.kind}: the effects are not those of a real engine.`}
        </p>
      </div>
      <Table name="Setting" rows={rows.filter((r) => !isLoad(r))} state={state} />
      <Table name="Setting of the load" rows={rows.filter(isLoad)} state={state} />
      {report.not_above_0 && report.not_above_0.length > 0 && (
        <p className="quiet">
          Changed from or to 0, of which there is no share: {report.not_above_0.map((n) => nameOf({ name: n })).join(', ')}.
        </p>
      )}
      {report.together && report.together.length > 0 && (
        <p className="quiet note">
          Never changed alone, so nothing can be said of them: {report.together.map((n) => nameOf({ name: n })).join(', ')}.
        </p>
      )}
    </>
  )
}

function Table({ name, rows, state }: { name: string; rows: Impact[]; state: State }) {
  // Wide intervals of effects that are not shown would press the others together: they are cut.
  const reach = reachOf(rows.flatMap((r) => (r.certainty === 'shown' ? [r.percent, r.low_percent, r.high_percent] : [r.percent])))
  if (rows.length === 0) return null
  return (
    <div className="scroll-x">
      <table className="list">
        <thead>
          <tr>
            <th scope="col">{name}</th><th scope="col">From</th><th scope="col">To</th><th scope="col" className="num">Effect</th>
            <th scope="col"><span className="sr">Picture of the effect</span></th>
            <th scope="col" className="num">Interval</th><th scope="col" className="num">p</th><th scope="col" className="num">Pairs</th>
            <th scope="col">Certainty</th><th scope="col">Typical pair</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((r) => <Row key={`${r.key} ${r.from} ${r.to}`} r={r} reach={reach} state={state} />)}
        </tbody>
      </table>
    </div>
  )
}

/** Settings of the service come first: that more load moves a metric is no news. */
function first(report: Impacts): string {
  const name = report.metric.name
  const shown = (report.impacts ?? []).filter((r) => r.certainty === 'shown')
  const best = shown.find((r) => !isLoad(r)) ?? shown[0]
  if (best) {
    const what = isLoad(best) ? 'Of the load, ' : ''
    return `${what}${nameOf({ name: best.key })} moves ${name} most: ${formatPercent(best.percent)} from ${best.from || 'not set'} to ${best.to || 'not set'}.`
  }
  if (report.impacts?.length) return `No setting is shown to move ${name}.`
  return 'No two matching runs differ in exactly one setting, so no effect can be told apart.'
}

const certainty: Record<string, string> = {
  'shown': 'More than noise, and large enough to matter.',
  'not shown': 'May be noise, or too small to matter.',
  'too little data': 'No number of these pairs could show it. More pairs are needed.',
}

function Row({ r, reach, state }: { r: Impact; reach: number; state: State }) {
  const { fields } = useKnown()
  const f = fields.get(r.field)
  const shown = r.certainty === 'shown'
  const interval = r.low_percent !== null && r.high_percent !== null
  return (
    <tr className={shown ? undefined : 'faint'}>
      <th scope="row">
        <button type="button" className="plain" title={`${r.key}: list the runs with these two values`} onClick={() => list(r, f, state)}>
          {nameOf(f ?? { name: r.key })}
        </button>
      </th>
      <td><One value={r.from} /></td><td><One value={r.to} /></td>
      <td className="num strong">{formatPercent(r.percent)}</td>
      <td><Interval value={r.percent} low={r.low_percent} high={r.high_percent} reach={reach} good={shown ? r.better : undefined} /></td>
      <td className="num" title={r.coverage ? `${(r.coverage * 100).toFixed(0)} % interval` : undefined}>
        {interval ? formatInterval(r.low_percent as number, r.high_percent as number) : '–'}
      </td>
      <td className="num">{r.p === null ? '–' : formatP(r.p)}</td>
      <td className="num">{r.pairs}</td>
      <td><span className={`badge ${shown ? (r.better ? 'valid' : 'invalid') : 'other'}`} title={certainty[r.certainty]}>{r.certainty}</span></td>
      <td className="nowrap"><RunLink id={r.runs[0]}>before</RunLink>, <RunLink id={r.runs[1]}>after</RunLink></td>
    </tr>
  )
}

function One({ value }: { value: string }) {
  return value ? <span className="cell" title={value}>{value}</span> : <span className="quiet nowrap">not set</span>
}

/** Lists the runs that have one of two values of a setting. */
function list(r: Impact, f: Field | undefined, state: State) {
  const read = (v: string) => (f?.kind === 'number' && v !== '' && Number.isFinite(Number(v)) ? Number(v) : v)
  const values = [r.from, r.to].filter((v) => v !== '').map(read)
  update({ view: 'table', filter: join(choose(parts(state.filter), r.field, { ...nothing, values, missing: values.length < 2 })) })
}
