import { Button, NumberInput, Select } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { api, type CapacityAnswer, type Field, type Limit } from '../api'
import { useKnown } from '../data'
import { formatMeasured, nameOf, plural, withUnit } from '../format'
import { follow } from '../Head'
import { FieldSelect } from '../parts/FieldSelect'
import { Loading } from '../parts/Loading'
import { Trouble } from '../parts/Trouble'
import { Verdict } from '../parts/Badge'
import { link, update, type State } from '../state'

const metrics = (f: Field) => f.group === 'metric' && f.better !== undefined && f.better !== ''

/** Which configuration carries a load within limits, and on how many GPUs. */
export function CapacityView({ state }: { state: State }) {
  const { fields, options } = useKnown()
  const limits = state.limits ?? firstLimits(fields)
  const asked = limits.filter((l) => fields.has(l.field))
  const body = { filter: state.filter, limits: asked, target_rate: state.rate }
  const got = useQuery({
    queryKey: ['capacity', body], queryFn: ({ signal }) => api.capacity(body, signal), placeholderData: keepPreviousData,
    enabled: asked.length > 0,
  })
  const set = (list: Limit[]) => update({ limits: list }, true)
  const change = (i: number, l: Limit) => set(limits.map((x, j) => (i === j ? l : x)))
  const add = () => {
    const name = options.defaults.metrics.find((n) => !limits.some((l) => l.field === n)) ?? 'median_ttft_ms'
    set([...limits, limitOf(name, fields)])
  }
  return (
    <section className="view" aria-label="Capacity">
      <div className="tools limits">
        <fieldset>
          <legend>Limits that a run must keep</legend>
          {limits.map((l, i) => (
            <div key={i} className="limit">
              <FieldSelect label="Metric" hidden value={l.field} choose={(n) => n && change(i, limitOf(n, fields))} accept={metrics} w={190} />
              <Select
                size="xs" w={96} aria-label="Side" data={[{ value: 'max', label: 'at most' }, { value: 'min', label: 'at least' }]}
                value={l.max !== undefined ? 'max' : 'min'} allowDeselect={false}
                onChange={(side) => change(i, side === 'max' ? { field: l.field, max: l.max ?? l.min } : { field: l.field, min: l.min ?? l.max })}
              />
              <NumberInput
                size="xs" w={110} aria-label={`Limit of ${nameOf(fields.get(l.field) ?? { name: l.field })}`} value={l.max ?? l.min} hideControls
                onChange={(x) => typeof x === 'number' && change(i, l.max !== undefined ? { field: l.field, max: x } : { field: l.field, min: x })}
              />
              <span className="quiet unit-of">{fields.get(l.field)?.unit}</span>
              <button type="button" className="plain" aria-label={`Remove the limit of ${nameOf(fields.get(l.field) ?? { name: l.field })}`} onClick={() => set(limits.filter((_, j) => j !== i))}>×</button>
            </div>
          ))}
          <Button size="xs" variant="default" onClick={add}>Add a limit</Button>
        </fieldset>
        <fieldset>
          <legend>Load to carry</legend>
          <div className="limit">
            <NumberInput
              size="xs" w={110} aria-label="Requests per second to carry" placeholder="any" value={state.rate ?? ''} min={0} hideControls
              onChange={(x) => update({ rate: typeof x === 'number' && x > 0 ? x : undefined }, true)}
            />
            <span className="quiet">requests/s</span>
          </div>
        </fieldset>
      </div>
      {got.error && <Trouble error={got.error} retry={() => void got.refetch()} />}
      {got.isLoading && asked.length > 0 && <Loading what="the answer" />}
      {asked.length === 0 && <p className="quiet pad">Add a limit to get an answer.</p>}
      {got.data && !got.error && asked.length > 0 && <Found answers={got.data.answers ?? []} sentence={got.data.sentence} notes={got.data.notes ?? []} rejected={got.data.rejected ?? 0} rate={state.rate} />}
    </section>
  )
}

function firstLimits(fields: Map<string, Field>): Limit[] {
  return [{ field: 'p99_ttft_ms', max: 500 }, { field: 'median_tpot_ms', max: 50 }].filter((l) => (fields.get(l.field)?.runs ?? 0) > 0)
}

/** A limit on the worse side of a metric, near the middle of what was measured. */
function limitOf(name: string, fields: Map<string, Field>): Limit {
  const f = fields.get(name)
  const middle = Number((((f?.min ?? 0) + (f?.max ?? 0)) / 2).toPrecision(2))
  return f?.better === 'lower' ? { field: name, max: middle } : { field: name, min: middle }
}

interface FoundProps {
  answers: CapacityAnswer[]
  sentence: string
  notes: string[]
  rejected: number
  rate: number | undefined
}

function Found({ answers, sentence, notes, rejected, rate }: FoundProps) {
  const { fields } = useKnown()
  const limits = answers[0]?.margins.map((m) => m.field) ?? []
  return (
    <div className="scroll pad-x">
      <div className="said">
        <p className="verdict-line">{sentence}</p>
        {notes.map((n) => <p key={n} className="quiet">{n}</p>)}
        {rejected > 0 && <p className="quiet">{plural(rejected, 'run')} broke a limit or had no number for one.</p>}
      </div>
      {answers.length > 0 && (
        <table className="list">
          <thead>
            <tr>
              <th scope="col">Configuration</th><th scope="col">Verdict</th><th scope="col" className="num">GPUs</th><th scope="col" className="num">Requests/s</th>
              <th scope="col" className="num">per GPU</th>
              {limits.map((n) => <th key={n} scope="col" className="num">{withUnit(fields.get(n) ?? ({ name: n } as Field))}</th>)}
              {rate !== undefined && <><th scope="col" className="num">Replicas</th><th scope="col" className="num">GPUs in all</th></>}
            </tr>
          </thead>
          <tbody>
            {answers.slice(0, 200).map((a, i) => (
              <tr key={a.id} className={i === 0 ? 'best' : undefined}>
                <th scope="row"><a href={link({ view: 'run', run: a.id })} onClick={(e) => follow(e, { view: 'run', run: a.id })}>{a.label}</a></th>
                <td><Verdict verdict={a.verdict} kind={a.kind} /></td>
                <td className="num">{a.gpus || '–'}</td><td className="num">{formatMeasured(a.rate)}</td>
                <td className="num">{a.gpus ? formatMeasured(a.rate / a.gpus) : '–'}</td>
                {limits.map((n) => {
                  const m = a.margins.find((x) => x.field === n)
                  return <td key={n} className="num">{m ? formatMeasured(m.value) : '–'}</td>
                })}
                {rate !== undefined && <><td className="num">{a.replicas ?? '–'}</td><td className="num strong">{a.total_gpus ?? '–'}</td></>}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </div>
  )
}
