import { Switch } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { memo, useMemo, useRef } from 'react'
import { api, type Answer, type Field, type Rows, type Value } from '../api'
import { Chart } from '../charts/Chart'
import { look } from '../charts/look'
import { classes, scatterOption, type Point } from '../charts/scatter'
import { parts } from '../filter'
import { axes, mostPoints, pointFields, useAsked, useKnown } from '../data'
import { follow } from '../Head'
import { formatValue, nameOf, plural, withUnit } from '../format'
import { isUnreal } from '../kind'
import { runIds } from '../ids'
import { useDrawn } from '../marks'
import { FieldSelect } from '../parts/FieldSelect'
import { Trouble } from '../parts/Trouble'
import { Unlike } from '../parts/Unlike'
import { useOffer } from '../offer'
import { link, update, type State } from '../state'

interface Props {
  state: State
  answer: Answer | undefined
  stale: boolean // the answer is of the filter before
  scheme: 'light' | 'dark'
}

/** Two metrics of every matching run, and the runs that no other beats in both. */
export function ScatterView({ state, answer, stale, scheme }: Props) {
  const known = useKnown()
  const { x, y, colour, label } = axes(state, known)
  const field = (name: string | undefined) => (name === undefined ? undefined : known.fields.get(name))
  const logs = state.log ?? `${wide(field(x), 30) ? 'x' : ''}${wide(field(y), 1000) ? 'y' : ''}`
  const points = useMemo(() => pointsOf(answer?.rows, { x, y, colour, label }), [answer?.rows, x, y, colour, label])
  const frontier = useFrontier(state, points, stale, { x, y, colour, label })
  const groups = useMemo(() => classes(points, field(colour), look(scheme)), [points, colour, scheme, known])
  const drawing = useMemo(
    () => scatterOption({
      points, groups, frontier: frontier.points, x: field(x), y: field(y), colour: field(colour), label: field(label),
      log: logs, look: look(scheme),
    }),
    [points, groups, frontier.points, x, y, colour, label, logs, scheme, known],
  )
  const drawn = points.length
  const simulated = points.filter((p) => isUnreal(p.kind)).length
  const flip = (a: string) => update({ log: logs.includes(a) ? logs.replace(a, '') : logs + a }, true)
  return (
    <section className="view" aria-label="Scatter">
      <div className="tools">
        <FieldSelect label="Across" value={x} choose={(n) => update({ x: n ?? undefined })} accept={numeric} w={190} />
        <FieldSelect label="Up" value={y} choose={(n) => update({ y: n ?? undefined })} accept={numeric} w={190} />
        <FieldSelect
          label="Colour" value={colour} choose={(n) => update({ colour: n ?? '' })} accept={any} clearable w={170}
          placeholder="one colour"
        />
        <FieldSelect
          label="Frontier labels" value={label} choose={(n) => update({ label: n ?? '' })} accept={any} clearable w={170}
          placeholder="no labels"
        />
        <div className="switches">
          <Switch size="xs" label="log across" checked={logs.includes('x')} onChange={() => flip('x')} />
          <Switch size="xs" label="log up" checked={logs.includes('y')} onChange={() => flip('y')} />
        </div>
      </div>
      <div className="chart-box">
        <Legend groups={groups} field={field(colour)} />
        <Chart
          option={drawing.option} height="100%" find={(s, i) => drawing.series[s]?.[i]?.id} open={(id) => update({ view: 'run', run: id })}
          label={`${plural(drawn, 'run')}: ${nameOf(field(y) ?? { name: y })} over ${nameOf(field(x) ?? { name: x })}. The list below has the frontier.`}
        />
        {answer && drawn === 0 && <p className="over quiet">No matching run has both numbers.</p>}
      </div>
      <div className="under">
        <Unlike state={state} x={x} y={y} colour={colour} stale={stale} />
        <p className="caption quiet">
          <span className="keys"><b aria-hidden="true">●</b> valid</span> <span className="keys"><b aria-hidden="true">○</b> suspect, invalid or not judged</span>{' '}
          {simulated === 0 ? '' : simulated === drawn
            ? <span className="badge simulated">all simulated, not measured</span>
            : <span className="keys"><b aria-hidden="true">△</b> simulated, not measured</span>} Select a point to open its run. Drag to move, scroll to zoom.{' '}
          {(answer?.matches ?? 0) > mostPoints && `Drawn are the newest ${mostPoints.toLocaleString('en-US')} of ${answer?.matches.toLocaleString('en-US')} matching runs; the frontier is of all.`}
        </p>
        {frontier.error ? <Trouble error={frontier.error} /> : (
          <FrontierList
            points={frontier.points} kind={frontier.kind} x={field(x)} y={field(y)} label={field(label)}
            colour={field(colour)} filtered={parts(state.filter).length > 0}
          />
        )}
      </div>
    </section>
  )
}

/** Whether a metric spans so much that a linear scale would crowd most points at one end. */
const wide = (f: Field | undefined, ratio: number) => f?.min != null && f.max != null && f.min > 0 && f.max / f.min > ratio

const numeric = (f: Field) => f.kind !== 'text'
const any = () => true

interface Axes {
  x: string
  y: string
  colour?: string
  label?: string
}

export function pointsOf(rows: Rows | undefined, a: Axes): Point[] {
  if (!rows) return []
  const column = (name: string | undefined): Value[] | undefined => (name ? rows.columns[rows.fields.indexOf(name)] : undefined)
  const [xs, ys, cs, ls] = [column(a.x), column(a.y), column(a.colour), column(a.label)]
  const [verdicts, kinds, cases] = [column('verdict'), column('kind'), column('case')]
  const points: Point[] = []
  rows.ids.forEach((id, i) => {
    const [x, y] = [xs?.[i], ys?.[i]]
    if (typeof x !== 'number' || typeof y !== 'number') return
    points.push({
      id, x, y, colour: cs?.[i] ?? null, label: ls?.[i] ?? null, verdict: verdicts?.[i] ?? null, kind: kinds?.[i] ?? null,
      name: String(cases?.[i] ?? id),
    })
  })
  return points
}

/**
 * The frontier of all matching runs, of which some may not be among those that are drawn. A new one waits for the
 * points that belong to it: drawing takes longest, and would be done twice.
 */
function useFrontier(state: State, points: Point[], stale: boolean, a: Axes): { points: Point[]; kind: string; error: Error | null } {
  const known = useKnown()
  const ids = useAsked({
    queryKey: ['pareto', state.filter, a.x, a.y],
    queryFn: ({ signal }) => api.pareto({ filter: state.filter, x: a.x, y: a.y }, signal),
    enabled: a.x !== '' && a.y !== '',
  })
  const shown = useRef(ids.data)
  if (!stale) shown.current = ids.data
  const wanted = useMemo(() => shown.current?.ids ?? [], [shown.current])
  const byId = useMemo(() => new Map(points.map((p) => [p.id, p])), [points])
  const lacking = !stale && points.length > 0 && wanted.some((id) => !byId.has(id)) && !ids.isPlaceholderData
  const query = { filter: { field: 'run_id', in: runIds(wanted) }, rows: { fields: pointFields(state, known), limit: 1000 } }
  const rest = useQuery({
    queryKey: ['frontier', query], enabled: lacking, queryFn: ({ signal }) => api.apply(query, signal),
  })
  const list = useMemo(() => {
    const all = new Map([...pointsOf(rest.data?.rows, a).map((p) => [p.id, p] as const), ...byId])
    return wanted.flatMap((id) => all.get(id) ?? []).sort((p, q) => p.x - q.x)
  }, [wanted, rest.data, byId])
  useDrawn('profllm:frontier', stale || ids.isPlaceholderData || (lacking && !rest.data) ? undefined : list)
  return { points: list, kind: shown.current?.kind ?? '', error: ids.error }
}

function Legend({ groups, field }: { groups: ReturnType<typeof classes>; field: Field | undefined }) {
  if (!field || groups.length === 0) return null
  return (
    <ul className="legend" aria-label={`Colours by ${nameOf(field)}`}>
      <li className="quiet">{nameOf(field)}</li>
      {groups.map((g) => (
        <li key={g.name}>
          <svg width="9" height="9" aria-hidden="true"><circle cx="4.5" cy="4.5" r="4.5" fill={g.colour} /></svg>
          <span className="clip">{g.name}</span>
        </li>
      ))}
    </ul>
  )
}

interface ListProps {
  points: Point[]
  kind: string // of all of them
  x: Field | undefined
  y: Field | undefined
  label: Field | undefined
  colour: Field | undefined
  filtered: boolean
}

const FrontierList = memo(function FrontierList({ points, kind, x, y, label, colour, filtered }: ListProps) {
  const { options, fields } = useKnown()
  const ofAll = useOffer().statistics === 'of all runs'
  if (ofAll && filtered) return <p className="caption quiet">The frontier of this page is of all its {plural(options.runs, 'run')}: clear the filter to see it.</p>
  if (ofAll && points.length === 0) {
    const names = options.defaults.metrics.map((n) => nameOf(fields.get(n) ?? { name: n })).join(', ')
    return <p className="caption quiet">This page has no frontier of these axes. It has those of valid runs in two of {names}.</p>
  }
  if (points.length === 0 || !x || !y) return null
  return (
    <details className="below" open>
      <summary>Frontier{ofAll && ` of all ${plural(options.runs, 'run')} of this page`}: {plural(points.length, kind ? `valid ${kind} run` : 'valid run')} that no other beats in both</summary>
      <div className="scroll">
        <table className="list">
          <thead>
            <tr>
              <th scope="col">Run</th>
              {colour && <th scope="col">{nameOf(colour)}</th>}
              {label && label.name !== 'case' && <th scope="col">{nameOf(label)}</th>}
              <th scope="col" className="num">{withUnit(x)}</th><th scope="col" className="num">{withUnit(y)}</th>
            </tr>
          </thead>
          <tbody>
            {points.map((p) => (
              <tr key={p.id}>
                <th scope="row"><a href={link({ view: 'run', run: p.id })} onClick={(e) => follow(e, { view: 'run', run: p.id })}>{p.name}</a></th>
                {colour && <td>{formatValue(p.colour, colour)}</td>}
                {label && label.name !== 'case' && <td>{formatValue(p.label, label)}</td>}
                <td className="num">{formatValue(p.x, x)}</td><td className="num">{formatValue(p.y, y)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  )
})
