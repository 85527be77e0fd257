import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { api, type Check, type Experiment, type Failure, type Field, type Group, type Value } from '../api'
import { useKnown } from '../data'
import { nothing, choose, join, parts } from '../filter'
import { formatExact, formatTime, formatValue, nameOf } from '../format'
import { Badge } from '../parts/Badge'
import { Folder } from '../parts/Folder'
import { Loading } from '../parts/Loading'
import { Trouble } from '../parts/Trouble'
import { offers, useOffer } from '../offer'
import { update, type State } from '../state'
import { download } from './TableView'

/** Everything that is known of one run. */
export function RunView({ state, scheme }: { state: State; scheme: 'light' | 'dark' }) {
  const id = state.run ?? ''
  const got = useQuery({ queryKey: ['run', id], queryFn: ({ signal }) => api.experiment(id, signal), enabled: id !== '' })
  if (!id) return <p className="pad quiet">No run is chosen. Choose one in the table.</p>
  return (
    <section className="view" aria-label="Run">
      <div className="scroll pad-x">
        {got.error && <Trouble error={got.error} retry={() => void got.refetch()} />}
        {got.isLoading && <Loading what="the run" />}
        {got.data && <Run e={got.data} state={state} scheme={scheme} />}
      </div>
    </section>
  )
}

function Run({ e, state, scheme }: { e: Experiment; state: State; scheme: 'light' | 'dark' }) {
  const r = e.record
  const offer = useOffer()
  const { overTime: OverTime, traces: Traces } = offer
  const verdict = r.validity?.verdict ?? ''
  const words = (r.validity?.words ?? []).filter((w) => w !== 'simulated')
  const simulated = r.simulated === true
  return (
    <article className="run">
      <header>
        <h1>{e.title || e.id}</h1>
        <p className="badges">
          <Badge word={verdict} />
          {simulated && <Badge word="simulated" text={r.simulated_speed && r.simulated_speed > 1 ? `simulated, ${r.simulated_speed} times faster` : 'simulated'} />}
          {words.map((w) => <Badge key={w} word={severityOf(r.validity?.checks, w)} text={w} why={r.validity?.checks?.find((c) => c.word === w)?.why} />)}
        </p>
        <Summary values={e.values ?? {}} />
        {e.problem !== undefined ? <p className="bad">{e.problem}</p> : (
          <p className="quiet">
            {e.id}, started {formatTime(Date.parse(r.timestamp))} UTC{r.duration ? `, took ${formatValue(r.duration, { unit: 's', group: 'run', kind: 'number' } as Field)} s` : ''}, {r.status}
            {r.suite && `, suite ${r.suite}`}
          </p>
        )}
        {(offers(offer, 'compare') || offer.records) && <Actions e={e} state={state} />}
      </header>
      {r.failure && <Failed f={r.failure} />}
      <Checks checks={r.validity?.checks ?? []} />
      <Numbers values={e.values ?? {}} withheld={r.validity?.withheld ?? []} simulated={simulated} />
      {OverTime && <OverTime id={e.id} scheme={scheme} />}
      <Facts values={e.values ?? {}} />
      {Traces && <Traces id={e.id} />}
      <Folder e={e} />
    </article>
  )
}

function Actions({ e, state }: { e: Experiment; state: State }) {
  const offer = useOffer()
  const inCompare = state.runs.includes(e.id)
  const save = () => download(new Blob([JSON.stringify(e.record, null, 2)], { type: 'application/json' }), `${e.id}.json`)
  return (
    <div className="row-of">
      {offers(offer, 'compare') && (
        <Button size="xs" variant="default" disabled={!inCompare && state.runs.length >= 10} onClick={() => update({ runs: inCompare ? state.runs.filter((x) => x !== e.id) : [...state.runs, e.id] }, true)}>
          {inCompare ? 'Remove from the comparison' : 'Add to the comparison'}
        </Button>
      )}
      {offer.records && <Button size="xs" variant="default" onClick={save}>Save record</Button>}
    </div>
  )
}

const summary = ['cmd_args.model', 'gpus', 'gpu', 'cmd_args.tensor_parallel_size', 'engine', 'engine_version', 'bench_cmd_args.max_concurrency', 'bench_cmd_args.request_rate']

/** What most people want to know of a run first. */
function Summary({ values }: { values: Record<string, Value> }) {
  const { fields } = useKnown()
  const has = summary.filter((n) => values[n] !== undefined)
  return (
    <p className="settings">
      {has.map((n) => <span key={n}><span className="quiet">{nameOf(fields.get(n) ?? { name: n })}</span> {formatValue(values[n], fields.get(n))} </span>)}
    </p>
  )
}

function severityOf(checks: Check[] | null | undefined, word: string): string {
  const s = checks?.find((c) => c.word === word)?.severity
  return s === 'invalid' || s === 'suspect' ? s : 'other'
}

function Failed({ f }: { f: Failure }) {
  const place = [f.role, f.rank && `rank ${f.rank}`, f.node && `on ${f.node}`].filter(Boolean).join(' ')
  return (
    <section className="failed">
      <h2>Why it failed: {f.cause}{f.confidence !== 'exact' && <span className="quiet"> ({f.confidence})</span>}</h2>
      {f.line && (
        <figure>
          <pre>{f.line}</pre>
          <figcaption className="quiet">{f.file}{f.line_number ? `:${f.line_number}` : ''}{place && `, ${place}`}</figcaption>
        </figure>
      )}
      {f.tail && f.tail.length > 0 && <pre>{f.tail.join('\n')}</pre>}
      <p><b>Next:</b> {f.next}</p>
    </section>
  )
}

function Checks({ checks }: { checks: Check[] }) {
  const [all, setAll] = useState(false)
  const failed = checks.filter((c) => c.outcome === 'fail' && c.severity !== 'note')
  const notes = checks.filter((c) => c.outcome === 'fail' && c.severity === 'note')
  const shown = all ? checks : [...failed, ...notes]
  if (checks.length === 0) return <section><h2>Checks</h2><p className="quiet">The run was not judged.</p></section>
  const passed = checks.filter((c) => c.outcome === 'pass').length
  return (
    <section>
      <h2>Checks</h2>
      <p className="quiet">
        {failed.length} failed, {passed} passed, {checks.length - failed.length - notes.length - passed} not possible.{' '}
        <button type="button" className="plain" onClick={() => setAll(!all)}>{all ? 'Show the failed ones' : 'Show all'}</button>
      </p>
      {shown.length > 0 && (
        <ul className="checks">
          {shown.map((c, i) => (
            <li key={`${c.word} ${i}`}>
              <Badge word={c.outcome === 'fail' ? (c.severity === 'note' || c.severity === 'withheld' ? 'other' : c.severity) : 'other'} text={c.outcome === 'fail' ? c.word : `${c.word}: ${c.outcome}`} why={c.why} />
              <span>{c.detail || c.why}</span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

/** The main metrics large, all others in a table. */
function Numbers({ values, withheld, simulated }: { values: Record<string, Value>; withheld: string[]; simulated: boolean }) {
  const { fields, options } = useKnown()
  const [all, setAll] = useState(false)
  const main = options.defaults.metrics.filter((n) => values[n] !== undefined)
  const rest = useMemo(() => options.fields.filter((f) => f.group === 'metric' && values[f.name] !== undefined && !main.includes(f.name)), [options, values, main])
  if (main.length + rest.length === 0) return <section><h2>Numbers</h2><p className="quiet">The run has no numbers.</p></section>
  return (
    <section>
      <h2>Numbers {simulated && <span className="badge simulated">simulated</span>}</h2>
      <dl className="big">
        {main.map((n) => {
          const f = fields.get(n)
          return f && <div key={n}><dt>{nameOf(f)}</dt><dd title={exact(values[n])}>{formatValue(values[n], f)}<span className="quiet"> {f.unit}</span></dd></div>
        })}
      </dl>
      {withheld.length > 0 && <p className="quiet">Withheld, because a check finds them misleading: {withheld.join(', ')}.</p>}
      {rest.length > 0 && (
        <>
          <button type="button" className="plain" aria-expanded={all} onClick={() => setAll(!all)}>{all ? 'Fewer numbers' : `${rest.length} more numbers`}</button>
          {all && (
            <dl className="facts">
              {rest.map((f) => <div key={f.name}><dt title={f.help || f.name}>{nameOf(f)}</dt><dd title={exact(values[f.name])}>{formatValue(values[f.name], f)}<span className="quiet"> {f.unit}</span></dd></div>)}
            </dl>
          )}
        </>
      )}
    </section>
  )
}

const exact = (v: Value | undefined) => (typeof v === 'number' ? formatExact(v) : undefined)

const facts: { group: Group; name: string }[] = [
  { group: 'engine', name: 'Engine settings' }, { group: 'load', name: 'Load' }, { group: 'setting', name: 'Other settings' },
  { group: 'placement', name: 'Placement' }, { group: 'hardware', name: 'Hardware' }, { group: 'software', name: 'Software' },
]

function Facts({ values }: { values: Record<string, Value> }) {
  const { options } = useKnown()
  return (
    <section className="columns">
      {facts.map(({ group, name }) => {
        const list = options.fields.filter((f) => f.group === group && values[f.name] !== undefined)
        if (list.length === 0) return null
        return (
          <div key={group}>
            <h2>{name}</h2>
            <dl className="facts">
              {list.map((f) => (
                <div key={f.name}>
                  <dt title={f.help || f.name}>{nameOf(f)}</dt>
                  <dd>
                    <button type="button" className="value" title="Show the runs with this value" onClick={() => alike(f.name, values[f.name] ?? null)}>
                      {formatValue(values[f.name], f)}
                    </button>
                    {f.unit && <span className="quiet"> {f.unit}</span>}
                  </dd>
                </div>
              ))}
            </dl>
          </div>
        )
      })}
    </section>
  )
}

function alike(field: string, v: Value) {
  update({ view: 'table', run: undefined, filter: join(choose(parts(undefined), field, { ...nothing, values: [v] })) })
}
