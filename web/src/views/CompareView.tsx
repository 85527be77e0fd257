import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Fragment } from 'react'
import { api, type Compared, type Comparison, type Delta, type Filter, type Judgement, type Measured, type MetricRow } from '../api'
import { useKnown } from '../data'
import { isEmpty, sentence } from '../filter'
import { formatExact, formatInterval, formatMeasured, formatNumber, formatP, formatPercent, nameOf } from '../format'
import { Badge } from '../parts/Badge'
import { Interval, Scale, reachOf } from '../parts/Interval'
import { Loading } from '../parts/Loading'
import { Outcome } from '../parts/Outcome'
import { RunLink } from '../parts/RunLink'
import { Trouble } from '../parts/Trouble'
import { link, update, type State } from '../state'
import { follow } from '../Head'

/** Two to ten runs, or two sets of runs, against each other. */
export function CompareView({ state }: { state: State }) {
  const sets = state.a !== undefined && state.b !== undefined
  const body = sets ? { a: state.a, b: state.b } : { runs: state.runs }
  const ready = sets || state.runs.length > 1
  const got = useQuery({ queryKey: ['compare', body], queryFn: ({ signal }) => api.compare(body, signal), enabled: ready })
  return (
    <section className="view" aria-label="Compare">
      <div className="scroll pad-x">
        <Sides state={state} sets={sets} />
        {got.error && <Trouble error={got.error} retry={() => void got.refetch()} hint={hint(got.error)} />}
        {ready && got.isLoading && <Loading what="the comparison" />}
        {got.data && ready && <Result got={got.data} ids={sets ? [] : state.runs} />}
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

function Result({ got, ids }: { got: Compared; ids: string[] }) {
  const said = got.said ?? []
  const [head, ...rest] = said
  const judgements = got.report?.judgements ?? []
  const comparisons = (got.report?.comparisons ?? []).filter((c) => c.columns && c.columns.length > 0)
  const unusable = (got.report?.runs ?? []).filter((r) => !r.usable && ids.length > 0)
  return (
    <>
      <div className="said">
        {(head?.lines?.length ? head.lines : head ? [head.heading] : []).map((line, i) => <p key={i} className={i === 0 ? 'verdict-line' : undefined}>{line}</p>)}
      </div>
      {judgements.map((j) => <Judged key={j.test} j={j} lines={rest.find((p) => p.heading.includes(j.test))?.lines ?? []} />)}
      {comparisons.map((c, i) => <Metrics key={i} c={c} got={got} />)}
      {unusable.length > 0 && (
        <section>
          <h2>Not compared</h2>
          <ul className="lines">
            {unusable.map((r) => (
              <li key={r.dir}><MaybeLink id={got.ids?.[r.dir]}>{r.label}</MaybeLink> <Badge word="invalid" text={r.verdict} /> {r.reason}</li>
            ))}
          </ul>
        </section>
      )}
      {got.diff ? <Differences d={got.diff} /> : comparisons.map((c, i) => <SettingsApart key={i} c={c} />)}
    </>
  )
}

/** A link to a run, if its id is known. */
function MaybeLink({ id, children }: { id: string | undefined; children: string }) {
  return id ? <RunLink id={id}>{children}</RunLink> : children
}

/** The verdict on two sides: each metric with its shift and interval. */
function Judged({ j, lines }: { j: Judgement; lines: string[] }) {
  const metrics = j.metrics ?? []
  const reach = reachOf(metrics.flatMap((m) => [m.shift_percent, m.low_percent, m.high_percent]))
  const shown = lines.filter((l) => !metrics.some((m) => l.startsWith(m.name)))
  return (
    <section>
      <h2>{j.test} <Outcome word={j.verdict} /> {j.kind && <span className="badge simulated">{j.kind}</span>}</h2>
      {metrics.length > 0 && (
        <div className="scroll-x">
          <table className="list">
            <thead>
              <tr>
                <th scope="col">Metric</th><th scope="col" className="num">Baseline</th><th scope="col" className="num">Compared</th>
                <th scope="col" className="num">Shift</th>
                <th scope="col"><Scale reach={reach} /></th>
                <th scope="col" className="num">Interval</th><th scope="col" className="num">p</th><th scope="col">Verdict</th>
              </tr>
            </thead>
            <tbody>
              {metrics.map((m) => (
                <tr key={m.key}>
                  <th scope="row">{m.name}{m.unit && <span className="quiet"> {m.unit}</span>}</th>
                  <td className="num">{m.first.median === null ? '–' : formatMeasured(m.first.median)}{m.first.n > 1 && <span className="quiet"> n={m.first.n}</span>}</td>
                  <td className="num">{m.second.median === null ? '–' : formatMeasured(m.second.median)}{m.second.n > 1 && <span className="quiet"> n={m.second.n}</span>}</td>
                  <td className="num strong">{m.shift_percent === null ? '–' : formatPercent(m.shift_percent)}</td>
                  <td>{m.shift_percent !== null && <Interval value={m.shift_percent} low={m.low_percent} high={m.high_percent} reach={reach} good={goodness(m.verdict)} />}</td>
                  <td className="num">{m.low_percent !== null && m.high_percent !== null ? formatInterval(m.low_percent, m.high_percent) : '–'}</td>
                  <td className="num">{m.p === null ? '–' : formatP(m.p)}</td>
                  <td><Outcome word={m.verdict} />{m.why && <span className="quiet"> {m.why}</span>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {shown.length > 0 && <ul className="lines">{shown.map((l, i) => <li key={i}>{l}</li>)}</ul>}
      {j.commands && j.commands.length > 0 && (
        <>
          <p className="quiet">Commands that make the missing runs:</p>
          <pre>{j.commands.join('\n')}</pre>
        </>
      )}
    </section>
  )
}

const goodness = (verdict: string) => (verdict === 'improved' ? true : verdict === 'regressed' ? false : undefined)

/** The numbers of every run; the best of each row is bold. */
function Metrics({ c, got }: { c: Comparison; got: Compared }) {
  return (
    <section>
      <h2>Numbers{c.kind && <> <span className="badge simulated">{c.kind}</span></>}</h2>
      <div className="scroll-x">
        <table className="list compare">
          <thead>
            <tr>
              <th scope="col">Metric</th>
              {(c.columns ?? []).map((col) => (
                <th key={col.name} scope="col" className="num" title={col.label}>
                  <MaybeLink id={got.ids?.[col.dir]}>{col.name}</MaybeLink><br /><Badge word={col.verdict} />
                </th>
              ))}
              {c.columns?.length === 2 && <th scope="col" className="num">Difference</th>}
            </tr>
          </thead>
          <tbody>
            {(c.sections ?? []).map((s) => {
              const rows = (s.rows ?? []).filter((r) => r.values.some((v) => v !== null))
              return rows.length === 0 ? null : (
                <Fragment key={s.name}>
                  <tr className="head-row"><th scope="rowgroup" colSpan={(c.columns?.length ?? 0) + 2}>{s.name}</th></tr>
                  {rows.map((r) => <NumberRow key={r.key} r={r} two={c.columns?.length === 2} />)}
                </Fragment>
              )
            })}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function NumberRow({ r, two }: { r: MetricRow; two: boolean }) {
  const numbers = r.values.filter((v): v is number => typeof v === 'number')
  const alike = new Set(numbers).size < 2
  const best = alike || !r.better ? undefined : r.better === 'higher' ? Math.max(...numbers) : Math.min(...numbers)
  const d = r.difference
  return (
    <tr>
      <th scope="row">{r.name}{r.unit && <span className="quiet"> {r.unit}</span>}</th>
      {r.values.map((v, i) => <td key={i} className={v === best ? 'num strong' : 'num'} title={typeof v === 'number' ? formatExact(v) : undefined}>{measured(v)}</td>)}
      {two && <td className="num quiet">{d ? (d.percent !== undefined ? formatPercent(d.percent) : formatMeasured(d.absolute)) : '–'}</td>}
    </tr>
  )
}

function measured(v: Measured) {
  if (v === null) return '–'
  return typeof v === 'number' ? (Number.isInteger(v) ? formatNumber(v) : formatMeasured(v)) : <span className="quiet" title="A check withholds this number: it would mislead.">{v}</span>
}

/** Everything in which two runs differ. */
function Differences({ d }: { d: Delta }) {
  const groups = d.groups.filter((g) => g.differs && g.differs.length > 0)
  const same = d.groups.reduce((n, g) => n + g.same, 0)
  return (
    <section>
      <h2>What differs</h2>
      <p className="quiet">{d.causal ?? (d.same_configuration ? 'Both runs have the same configuration.' : '')} {same} other fields are the same.</p>
      {groups.length > 0 && (
        <div className="scroll-x">
          <table className="list">
            <thead><tr><th scope="col">Field</th><th scope="col">Baseline</th><th scope="col">Compared</th></tr></thead>
            <tbody>
              {groups.map((g) => (
                <Fragment key={g.name}>
                  <tr className="head-row"><th scope="rowgroup" colSpan={3}>{g.name}</th></tr>
                  {g.differs?.map((u) => (
                    <tr key={u.field}><th scope="row">{u.field}</th><td className="wrap">{u.first || '–'}</td><td className="wrap">{u.second || '–'}</td></tr>
                  ))}
                </Fragment>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  )
}

/** The settings in which several runs differ. */
function SettingsApart({ c }: { c: Comparison }) {
  const keys = [...new Set((c.columns ?? []).flatMap((col) => (col.difference ?? []).map((s) => s.key)))]
  if (keys.length === 0) return <section><h2>What differs</h2><p className="quiet">The runs have the same settings.</p></section>
  return (
    <section>
      <h2>What differs</h2>
      <div className="scroll-x">
        <table className="list">
          <thead><tr><th scope="col">Setting</th>{(c.columns ?? []).map((col) => <th key={col.name} scope="col">{col.name}</th>)}</tr></thead>
          <tbody>
            {keys.map((key) => (
              <tr key={key}>
                <th scope="row" title={key}>{nameOf({ name: key })}</th>
                {(c.columns ?? []).map((col) => <td key={col.name}>{col.difference?.find((s) => s.key === key)?.value ?? '–'}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  )
}
