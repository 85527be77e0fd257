// The answers of a page that has its runs in itself.
import {
  Problem, type Check, type Experiment, type Field, type Filter, type Impacts, type Options, type Order, type RunRecord, type Scalings,
  type Source, type Value,
} from '../api'
import { isEmpty } from '../filter'
import { isSimulated } from '../kind'
import { Engine, type Known } from './engine'
import { written } from './text'

/** What a page knows of one run besides its values. */
interface Detail {
  link?: string // to its folder
  problem?: string // why there is no record
  simulated_speed?: number
  words?: string[]
  withheld?: string[]
  checks?: number[] // places in the list of all
  failure?: number
}

/** What the page has in its block of data. Its version is that of the script beside it. */
export interface Data extends Omit<Known, 'fields'> {
  options: Options
  details: Detail[]
  checks: Check[]
  failures: NonNullable<RunRecord['failure']>[]
  frontiers: { x: string; y: string; kind: string; runs: number[] }[] // of all runs
  impacts?: Record<string, Impacts> // of all runs, by metric; none if there are too many
  scalings?: Record<string, Scalings>
}

/** Answers from the runs of the page. */
export function local(d: Data): Source {
  const fields = d.options.fields
  const engine = new Engine({ ...d, fields })
  const places = new Map(d.ids.map((id, i) => [id, i]))
  return {
    options: async () => d.options,
    apply: async (q) => engine.query(q),
    experiment: async (id) => {
      const at = places.get(id)
      if (at === undefined) throw new Problem(404, `no such run: ${id}`, [])
      return experiment(d, engine, at)
    },
    pareto: async ({ filter, x, y }) => {
      const f = !filter || isEmpty(filter) ? d.frontiers.find((f) => (f.x === x && f.y === y) || (f.x === y && f.y === x)) : undefined
      return { ids: f?.runs.map((i) => d.ids[i] as string) ?? [], kind: f?.kind ?? '' }
    },
    impact: async ({ metric }) => had(d.impacts?.[metric], metric),
    scaling: async ({ metric }) => had(d.scalings?.[metric], metric),
    saved: async (_, { filter, fields: names, sort }) => {
      const q = { filter, fields: names ?? fields.map((f) => f.name).filter((n) => n !== 'run_id'), sort }
      return new Blob([csv(engine, fields, q)], { type: 'text/csv' })
    },
  }
}

function had<T>(found: T | undefined, metric: string): T {
  if (!found) throw new Problem(422, `this page has no statistics of ${metric}`, [])
  return found
}

function experiment(d: Data, engine: Engine, at: number): Experiment {
  const detail = d.details[at] ?? {}
  const values: Record<string, Value> = {}
  for (const f of d.options.fields) {
    const v = engine.columns.get(f.name).of(at)
    if (v !== null) values[f.name] = v
  }
  const text = (name: string) => written(values[name] ?? null)
  const began = values.timestamp
  const record: RunRecord = {
    run_id: text('run_id'), suite: text('suite'), status: text('status'), simulated: isSimulated(values.kind),
    timestamp: typeof began === 'number' ? new Date(began).toISOString() : '',
    duration: typeof values.duration === 'number' ? values.duration : undefined, simulated_speed: detail.simulated_speed,
    failure: detail.failure === undefined ? undefined : d.failures[detail.failure],
    validity: values.verdict === undefined ? undefined : {
      verdict: text('verdict'), words: detail.words, withheld: detail.withheld,
      checks: (detail.checks ?? []).flatMap((i) => d.checks[i] ?? []),
    },
  }
  return {
    id: d.ids[at] as string, title: text('case'), dir: text('dir'), link: detail.link, problem: detail.problem, record,
    settings: null, values,
  }
}

/** The same file as the dashboard's server writes. */
function csv(engine: Engine, all: Field[], q: { filter?: Filter; fields: string[]; sort?: Order[] }): string {
  const kinds = new Map(all.map((f) => [f.name, f.kind]))
  const lines: string[] = []
  for (let offset = 0, more = true; more; offset += 10_000) {
    const a = engine.query({ filter: q.filter, rows: { fields: q.fields, sort: q.sort, offset, limit: 10_000 } })
    const rows = a.rows
    if (!rows) break
    if (offset === 0) lines.push(['run_id', ...rows.fields].map(quoted).join(','))
    rows.ids.forEach((id, i) => {
      const cells = rows.fields.map((n, at) => cell(rows.columns[at]?.[i] ?? null, kinds.get(n) === 'time'))
      lines.push([neutral(id), ...cells].map(quoted).join(','))
    })
    more = offset + rows.ids.length < a.matches
  }
  return `${lines.join('\n')}\n`
}

function cell(v: Value, time: boolean): string {
  if (typeof v === 'number' && time) return new Date(v).toISOString().replace(/\.?0*Z$/, 'Z')
  return typeof v === 'string' ? neutral(v) : written(v)
}

/** Keeps a spreadsheet from taking a text as a formula. */
const neutral = (s: string) => (/^[=+\-@\t\r\n＝＋－＠]/.test(s) ? `'${s}` : s)

const quoted = (s: string) => (/[",\r\n]|^\s|^\\\.$/.test(s) ? `"${s.replaceAll('"', '""')}"` : s)
