import { Button, NumberInput } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import type { Capacity, Field, Limit, Plan } from '../api'
import { server } from '../http'
import { useKnown } from '../data'
import { formatMeasured, formatNumber, nameOf, plural } from '../format'
import { Answered } from '../parts/Answered'
import { FieldSelect } from '../parts/FieldSelect'
import { Mixed } from '../parts/Mixed'
import { RunLink } from '../parts/RunLink'
import { loadOf, Settings, settingsText } from '../parts/Settings'
import { update, type State } from '../state'
import { ranked } from './metrics'

const rates = (f: Field) => ranked(f) && f.better === 'higher' && /throughput|goodput/.test(f.name) && !/per_(gpu|user)/.test(f.name)

/** Which configuration carries a load within limits, and on how many GPUs. */
export function CapacityView({ state }: { state: State }) {
  const { fields } = useKnown()
  const of = fields.get(state.metric ?? '')
  const metric = of && rates(of) ? of.name : 'output_throughput'
  const limits = state.limits ?? firstLimits(fields)
  const body = { filter: state.filter, metric, target: state.target, limits: limits.map((l) => `${l.field}=${l.value}`) }
  const got = useQuery({
    queryKey: ['capacity', body], queryFn: ({ signal }) => server.capacity(body, signal), placeholderData: keepPreviousData,
  })
  return (
    <section className="view" aria-label="Capacity">
      <div className="tools limits">
        <Limits limits={limits} />
        <fieldset>
          <legend>Load to carry</legend>
          <div className="limit">
            <NumberInput
              size="xs" w={110} aria-label="Load to carry" placeholder="any" value={state.target ?? ''} min={0} hideControls
              onChange={(x) => update({ target: typeof x === 'number' && x > 0 ? x : undefined }, true)}
            />
            <FieldSelect label="Unit of the load" hidden value={metric} choose={(n) => update({ metric: n ?? undefined })} accept={rates} w={190} />
          </div>
        </fieldset>
      </div>
      <Answered got={got} what="the answer">{(data) => <Found got={data} limits={limits} state={state} />}</Answered>
    </section>
  )
}

function Limits({ limits }: { limits: Limit[] }) {
  const { fields, options } = useKnown()
  const set = (list: Limit[]) => update({ limits: list }, true)
  const change = (i: number, l: Limit) => set(limits.map((x, j) => (i === j ? l : x)))
  const unused = options.defaults.metrics.find((n) => fields.get(n)?.better && !limits.some((l) => l.field === n))
  return (
    <fieldset>
      <legend>Limits to keep</legend>
      {limits.map((l, i) => {
        const f = fields.get(l.field)
        const name = nameOf(f ?? { name: l.field })
        return (
          <div key={i} className="limit">
            <FieldSelect label="Limited metric" hidden value={l.field} choose={(n) => n && change(i, limitOf(n, fields))} accept={ranked} w={170} />
            <span className="quiet">{f?.better === 'higher' ? 'at least' : 'at most'}</span>
            <NumberInput
              size="xs" w={90} aria-label={`Limit of ${name}`} value={l.value} hideControls
              onChange={(x) => typeof x === 'number' && change(i, { ...l, value: x })}
            />
            <span className="quiet unit-of">{f?.unit}</span>
            <button type="button" className="plain" aria-label={`Remove the limit of ${name}`} onClick={() => set(limits.filter((_, j) => j !== i))}>×</button>
          </div>
        )
      })}
      {unused && <Button size="compact-xs" variant="default" onClick={() => set([...limits, limitOf(unused, fields)])}>Add a limit</Button>}
    </fieldset>
  )
}

function firstLimits(fields: Map<string, Field>): Limit[] {
  return [{ field: 'p99_ttft_ms', value: 500 }, { field: 'median_tpot_ms', value: 50 }].filter((l) => (fields.get(l.field)?.runs ?? 0) > 0)
}

/** A limit near the middle of what was measured. */
function limitOf(name: string, fields: Map<string, Field>): Limit {
  const f = fields.get(name)
  return { field: name, value: Number((((f?.min ?? 0) + (f?.max ?? 0)) / 2).toPrecision(2)) }
}

function Found({ got, limits, state }: { got: Capacity; limits: Limit[]; state: State }) {
  const plans = (got.plans ?? []).slice(0, 200)
  const among = plans.map((p) => p.settings)
  const target = got.target ?? 0
  return (
    <>
      <div className="said">
        <p className="verdict-line">{sentence(got, plans[0], limits.length)}</p>
        {plans[0] && <p>{plans[0].highest && 'No higher load of this configuration was tried: it may serve more. '}<RunLink id={plans[0].run}>All its settings</RunLink></p>}
        <Mixed lists={among} state={state} what="configurations" />
        <p className="quiet">
          Each row is a configuration at the load that does most within the limits. Numbers are medians of the valid runs at that load; the last column counts the runs at all loads.
          {got.beyond && got.beyond.length > 0 && ` ${plural(got.beyond.length, 'configuration')} broke the limits at every load.`}
          {target > 0 && ' Copies are assumed to scale perfectly.'}
          {got.kind && ` The runs are ${got.kind}: the numbers are not those of a real engine.`}
        </p>
      </div>
      {plans.length > 0 && (
        <div className="scroll-x">
          <table className="list plans">
            <thead>
              <tr>
                <th scope="col">Configuration</th>
                {target > 0 && <><th scope="col" className="num">Total GPUs</th><th scope="col" className="num">Copies</th></>}
                <MetricHead name={`${got.metric.name} per GPU`} unit={got.metric.unit} />
                <MetricHead name={got.metric.name} unit={got.metric.unit} />
                <th scope="col" className="num">GPUs{target > 0 && ' per copy'}</th>
                <th scope="col">Load</th>
                {(plans[0]?.limits ?? []).map((l) => <MetricHead key={l.metric.key} name={l.metric.name} unit={l.metric.unit} />)}
                <th scope="col" className="num">Runs within limits</th>
              </tr>
            </thead>
            <tbody>{plans.map((p, i) => <Row key={p.run} p={p} best={i === 0} target={target} among={among} />)}</tbody>
          </table>
        </div>
      )}
    </>
  )
}

function MetricHead({ name, unit }: { name: string; unit?: string }) {
  return <th scope="col" className="num">{name}{unit && <span className="unit">{unit}</span>}</th>
}

function Row({ p, best, target, among }: { p: Plan; best: boolean; target: number; among: Plan['settings'][] }) {
  return (
    <tr className={best ? 'best' : undefined}>
      <th scope="row"><Settings list={p.settings} among={among} /></th>
      {target > 0 && <><td className="num strong">{p.total_gpus || '–'}</td><td className="num">{p.copies || '–'}</td></>}
      <td className="num strong">{p.per_gpu === null ? '–' : formatMeasured(p.per_gpu)}</td>
      <td className="num"><RunLink id={p.run}>{formatMeasured(p.value)}</RunLink></td>
      <td className="num">{p.gpus || '–'}</td>
      <td><Settings list={loadOf(p.load)} other="–" />{p.highest && <div className="quiet small" title="No higher load was tried: it may serve more.">highest tried</div>}</td>
      {(p.limits ?? []).map((l) => <td key={l.metric.key} className="num">{formatMeasured(l.measured)}</td>)}
      <td className="num">{p.runs - p.beyond} of {p.runs}</td>
    </tr>
  )
}

function sentence(got: Capacity, best: Plan | undefined, limits: number): string {
  const unit = got.metric.unit === '1/s' ? ` ${got.metric.name.toLowerCase()}/s` : got.metric.unit ? ` ${got.metric.unit}` : ''
  const within = limits > 0 ? ' within the limits' : ''
  if (!best && !got.beyond?.length) return `No matching run is valid and has ${got.metric.name}. Widen the filter.`
  if (!best) return `No valid run ${limits > 0 ? 'keeps the limits' : 'has the metric'}. Loosen a limit or widen the filter.`
  const what = settingsText(best.settings, 'the configuration')
  if (got.target && best.total_gpus) {
    return `${formatNumber(got.target)}${unit} need ${plural(best.total_gpus, 'GPU')}${within}: ${plural(best.copies ?? 1, 'copy').replace('copys', 'copies')} of ${what} at ${settingsText(loadOf(best.load), 'its load')}.`
  }
  const rate = best.per_gpu === null ? `${formatMeasured(best.value)}${unit}` : `${formatMeasured(best.per_gpu)}${unit} per GPU`
  return `Most${within}: ${rate}, from ${what} at ${settingsText(loadOf(best.load), 'its load')}.`
}
