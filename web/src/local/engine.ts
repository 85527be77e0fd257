// Answers questions about the runs of a page. What is right is what query.Naive in Go says; a test
// asks both the same questions.
import { Problem, type Answer, type FacetAnswer, type Field, type Histogram, type Order, type Query, type Rows, type Stats } from '../api'
import { Names, checked, type Name } from './check'
import { Columns, type Column, type Packed } from './columns'
import { both, mask, partsOf, type Mask } from './mask'
import { compareTexts } from './text'

const mostRows = 10_000
const mostValues = 1_000
const mostDistinct = 5_000
const bins = 24

/** What an engine knows of the runs. */
export interface Known {
  fields: Field[] // that any run has
  fixed: Record<Name['kind'], string[]> // names of all fields of the release
  ids: string[]
  columns: Packed[] // of the fields
}

export class Engine {
  readonly columns: Columns
  readonly names: Names
  private ids: string[]
  private newest: number[] | undefined // all runs in the order of rows that are not sorted

  constructor(k: Known) {
    this.ids = k.ids
    this.columns = new Columns(k.fields, k.columns, k.ids.length)
    this.names = new Names(k.fixed, k.fields)
  }

  query(q: Query): Answer {
    const find = (n: string) => this.names.find(n).name
    const [facets, metrics] = [(q.facets ?? []).map(find), (q.metrics ?? []).map(find)]
    const rows = q.rows && limited({ ...q.rows, fields: (q.rows.fields ?? []).map(find), sort: (q.rows.sort ?? []).map((o) => ({ ...o, field: find(o.field) })) })
    const filter = checked(q.filter, this.names)
    const parts = partsOf(filter).map((p) => ({ field: p.field, mask: mask(p.filter, this.columns) }))
    const all = new Uint8Array(this.ids.length).fill(1)
    const hits = parts.reduce<Mask>((m, p) => both(m, p.mask), all)
    const others = (name: string) => parts.filter((p) => p.field !== name).reduce<Mask>((m, p) => both(m, p.mask), all)
    const a: Answer = { runs: this.ids.length, matches: hits.reduce<number>((n, x) => n + x, 0) }
    if (facets.length > 0) {
      a.facets = facets.map((n) => facet(n, this.columns.get(n), q.within || !parts.some((p) => p.field === n) ? hits : others(n)))
    }
    if (metrics.length > 0) a.metrics = metrics.map((n) => stats(n, this.columns.get(n), hits))
    if (rows) a.rows = this.rows(rows, hits)
    return a
  }

  private rows(r: NonNullable<Query['rows']>, hits: Mask): Rows {
    const list = sorted(this.inOrder().filter((i) => hits[i] === 1), r.sort ?? [], this.columns)
    const page = list.slice(r.offset ?? 0, (r.offset ?? 0) + r.limit)
    return {
      ids: page.map((i) => this.ids[i] as string), fields: r.fields,
      columns: r.fields.map((n) => {
        const column = this.columns.get(n)
        return page.map((i) => column.of(i))
      }),
    }
  }

  /** All runs from the newest, equals by their ids. */
  private inOrder(): number[] {
    if (!this.newest) {
      const began = this.columns.get('timestamp')
      const time = (i: number) => {
        const v = began.of(i)
        return typeof v === 'number' ? v : 0
      }
      this.newest = [...this.ids.keys()].sort((a, b) => time(b) - time(a) || compareTexts(this.ids[a] as string, this.ids[b] as string))
    }
    return this.newest
  }
}

function limited(r: NonNullable<Query['rows']>): NonNullable<Query['rows']> {
  if (!(r.limit >= 0 && r.limit <= mostRows)) throw new Problem(422, `rows: limit ${r.limit} is not between 0 and ${mostRows}`, [])
  if ((r.offset ?? 0) < 0) throw new Problem(422, `rows: offset ${r.offset} is below 0`, [])
  return r
}

/** Runs by fields; runs without a value stand last, and equals stay in their order. */
function sorted(runs: number[], by: Order[], columns: Columns): number[] {
  if (by.length === 0) return runs
  const keys = by.map((o) => {
    const column = columns.get(o.field)
    const sign = o.descending ? -1 : 1
    const rank = column.order().map((r, code) => (code === 0 ? column.values.length : sign * r))
    return (i: number) => rank[column.codes[i] as number] as number
  })
  return runs.sort((a, b) => {
    for (const key of keys) {
      const c = key(a) - key(b)
      if (c !== 0) return c
    }
    return 0
  })
}

/** The values of a field among some runs. */
function facet(name: string, column: Column, runs: Mask): FacetAnswer {
  const counts = new Int32Array(column.values.length)
  column.codes.forEach((code, i) => {
    if (runs[i] === 1) (counts[code] as number)++
  })
  let others = 0
  const rank = column.order()
  const listed: number[] = []
  counts.forEach((n, code) => {
    if (code === 0 || n === 0) return
    const many = (typeof column.values[code] === 'number' ? column.numbers.length : column.texts) > mostDistinct
    if (many) others += n
    else listed.push(code)
  })
  listed.sort((a, b) => (counts[b] as number) - (counts[a] as number) || (rank[a] as number) - (rank[b] as number))
  for (const code of listed.splice(mostValues)) others += counts[code] as number
  const out: FacetAnswer = { field: name }
  if (listed.length > 0) out.values = listed.map((code) => ({ value: column.values[code] ?? null, runs: counts[code] as number }))
  if (others > 0) out.others = others
  if ((counts[0] as number) > 0) out.missing = counts[0]
  if (column.numbers.length > bins) out.histogram = histogram(column, counts)
  return out
}

/** Bins of one width between the smallest and the largest number of all runs. */
function histogram(column: Column, counts: Int32Array): Histogram {
  const min = column.numbers[0] as number
  const max = column.numbers.at(-1) as number
  const width = max / bins - min / bins // max - min may exceed every number
  const low = min / width
  const runs = new Array<number>(bins).fill(0)
  column.values.forEach((v, code) => {
    if (typeof v !== 'number') return
    const bin = Math.max(0, Math.min(bins - 1, Math.trunc(v / width - low)))
    runs[bin] = (runs[bin] as number) + (counts[code] as number)
  })
  return { min, max, runs }
}

function stats(name: string, column: Column, runs: Mask): Stats {
  let [n, sum, min, max] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (let i = 0; i < runs.length; i++) {
    const v = column.of(i)
    if (runs[i] !== 1 || typeof v !== 'number') continue
    n++
    sum += v
    min = Math.min(min, v)
    max = Math.max(max, v)
  }
  if (n === 0) return { field: name, runs: 0, min: null, max: null, mean: null }
  const mean = sum / n
  return { field: name, runs: n, min, max, mean: Number.isFinite(mean) ? mean : null }
}
