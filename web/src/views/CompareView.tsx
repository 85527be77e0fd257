import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { Compared, Filter } from '../api'
import { server } from '../http'
import { useKnown } from '../data'
import { isEmpty, sentence } from '../filter'
import { plural, withSigns } from '../format'
import { sideNames } from '../sides'
import { Badge } from '../parts/Badge'
import { Loading } from '../parts/Loading'
import { RunLink } from '../parts/RunLink'
import { Trouble } from '../parts/Trouble'
import { link, update, type State } from '../state'
import { follow } from '../Head'
import { Numbers } from './CompareNumbers'
import { Differences, SettingsApart } from './Differences'
import { Judged } from './Judged'

/** Two to ten runs, or two sets of runs, against each other. */
export function CompareView({ state }: { state: State }) {
  const sets = state.a !== undefined && state.b !== undefined
  const { fields } = useKnown()
  const names = state.a && state.b ? sideNames(state.a, state.b, fields) : undefined
  const body = sets ? { a: state.a, b: state.b, names } : { runs: state.runs }
  const ready = sets || state.runs.length > 1
  const got = useQuery({ queryKey: ['compare', body], queryFn: ({ signal }) => server.compare(body, signal), enabled: ready })
  return (
    <section className="view" aria-label="Compare">
      <div className="scroll pad-x">
        <Sides state={state} sets={sets} />
        {got.error && <Trouble error={got.error} retry={() => void got.refetch()} hint={hint(got.error)} />}
        {ready && got.isLoading && <Loading what="the comparison" />}
        {got.data && ready && <Result got={got.data} ids={sets ? [] : state.runs} names={sets ? names : undefined} />}
      </div>
    </section>
  )
}

/** What to do about sets that cannot be compared. */
function hint(error: Error): string | undefined {
  return /never compared/.test(error.message) ? 'Choose one value of Kind, such as measured, for both sides.' : undefined
}

function Sides({ state, sets }: { state: State; sets: boolean }) {
  if (state.runs.length > 1 && !sets) {
    return (
      <div className="sides">
        <p className="quiet">
          {state.runs.length} runs, the first is the baseline. <a href={link({ view: 'table' })} onClick={(e) => follow(e, { view: 'table' })}>Choose others in the table</a>
          {' or '}<button type="button" className="plain inline" onClick={() => update({ runs: [] })}>clear the choice</button>
        </p>
      </div>
    )
  }
  return (
    <div className="sides">
      <p>
        Choose two to ten runs by their boxes in the <a href={link({ view: 'table' })} onClick={(e) => follow(e, { view: 'table' })}>table</a>, or
        compare two sets of runs: set a filter, then take it as a side.
      </p>
      <div className="two">
        <Side name="Baseline" filter={state.a} set={(a) => update({ a })} now={state.filter} />
        <Side name="Compared with it" filter={state.b} set={(b) => update({ b })} now={state.filter} />
      </div>
    </div>
  )
}

interface SideProps {
  name: string
  filter: Filter | undefined
  set: (f: Filter | undefined) => void
  now: Filter | undefined
}

function Side({ name, filter, set, now }: SideProps) {
  const { fields } = useKnown()
  return (
    <div className="side">
      <h3>{name}</h3>
      <p className={filter ? undefined : 'quiet'}>{filter ? (isEmpty(filter) ? 'all runs' : sentence(filter, fields)) : 'not set'}</p>
      <div className="row-of">
        <Button size="compact-xs" variant="default" onClick={() => set(now ?? {})}>Take the current filter</Button>
        {filter && <Button size="compact-xs" variant="subtle" onClick={() => set(undefined)}>Clear</Button>}
      </div>
    </div>
  )
}

/** What the comparison found. The runs that it left out come on demand if there are many. */
function Said({ lines }: { lines: string[] }) {
  const [all, setAll] = useState(false)
  const [first, ...rest] = lines
  const short = rest.join(' ').length < 200
  return (
    <div className="said">
      <p className="verdict-line">{first}</p>
      {(all || short) && rest.map((line) => <p key={line}>{line}</p>)}
      {!short && <button type="button" className="plain" aria-expanded={all} onClick={() => setAll(!all)}>{all ? 'Fewer notes' : plural(rest.length, 'note')}</button>}
    </div>
  )
}

// What was tested comes before what could not be.
const order = ['regressed', 'improved', 'same within noise', 'too little data', 'not-comparable']
const rank = (verdict: string) => (order.includes(verdict) ? order.indexOf(verdict) : 0)

function Result({ got, ids, names }: { got: Compared; ids: string[]; names: [string, string] | undefined }) {
  const said = got.said ?? []
  const [head, ...rest] = said
  const judgements = [...(got.report?.judgements ?? [])].sort((a, b) => rank(a.verdict) - rank(b.verdict))
  const comparisons = (got.report?.comparisons ?? []).filter((c) => c.columns && c.columns.length > 0)
  const unusable = (got.report?.runs ?? []).filter((r) => !r.usable && ids.length > 0)
  return (
    <>
      <Said lines={(head?.lines?.length ? head.lines : head ? [head.heading] : []).map(withSigns)} />
      {judgements.map((j) => <Judged key={j.test} j={j} lines={rest.find((p) => p.heading.includes(j.test))?.lines ?? []} />)}
      {got.diff ? <Differences d={got.diff} /> : comparisons.map((c, i) => <SettingsApart key={i} c={c} names={names} />)}
      {comparisons.map((c, i) => <Numbers key={i} c={c} got={got} names={names} />)}
      {unusable.length > 0 && (
        <section>
          <h2>Not compared</h2>
          <ul className="lines">
            {unusable.map((r) => (
              <li key={r.dir}><RunLink id={got.ids?.[r.dir]}>{r.label}</RunLink> <Badge word="invalid" text={r.verdict} /> {r.reason}</li>
            ))}
          </ul>
        </section>
      )}
    </>
  )
}
