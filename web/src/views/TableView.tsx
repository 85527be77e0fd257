import { Button, Menu } from '@mantine/core'
import { useQueries } from '@tanstack/react-query'
import { memo, useEffect, useMemo, useRef, useState } from 'react'
import { api, type Answer, type Field, type Rows, type Value } from '../api'
import { columnsOf, countsOf, pageSize, reasons, rowFields, useKnown, type Known } from '../data'
import { follow } from '../Head'
import { formatExact, formatValue, nameOf } from '../format'
import { Verdict } from '../parts/Badge'
import { isMixed } from '../kind'
import { useLate } from '../late'
import { offers, useOffer } from '../offer'
import { link, parse, search, update, type State } from '../state'
import { ColumnChooser } from './ColumnChooser'
import { useWindow } from './useWindow'

const rowHeight = 30
const widest: Record<string, number> = { case: 210, cause_line: 560 } // pixels; others: 205
const mostRows = 400_000 // browsers limit the height of an element

interface Props {
  state: State
  answer: Answer | undefined
  stale: boolean
}

/** All matching runs. Only the rows in sight are drawn; pages are fetched as they come into sight. */
export function TableView({ state, answer, stale }: Props) {
  const known = useKnown()
  const compares = offers(useOffer(), 'compare')
  const before = compares ? 34 : 0 // pixels of the column of checkboxes
  const wanted = state.columns?.join('~')
  const columns = useMemo(() => columnsOf(state, known), [wanted, known])
  const fields = useMemo(() => columns.flatMap((n) => known.fields.get(n) ?? []), [columns, known])
  const total = Math.min(answer?.matches ?? 0, mostRows)
  const scroll = useRef<HTMLDivElement>(null)
  const { first, last, top } = useWindow(scroll, rowHeight, total)
  const question = JSON.stringify([state.filter, state.sort])
  useEffect(() => {
    if (top.current > 0 && scroll.current) scroll.current.scrollTop = 0 // which makes the browser lay out the page at once
  }, [question])

  const items = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i)
  const pages = usePages(state, columns, answer, stale ? [] : items.map((i) => Math.floor(i / pageSize)))
  const widths = useWidths(answer?.rows, known)
  const mixed = answer !== undefined && isMixed(countsOf(answer, 'kind', state), answer.matches)
  const width = ['case', 'verdict', ...columns].reduce((sum, n) => sum + (widths.get(n) ?? 0), before)
  const above = first * rowHeight
  const below = Math.max(0, total - last) * rowHeight
  return (
    <section className="view" aria-label="Table of runs">
      <TableTools state={state} columns={columns} matches={answer?.matches ?? 0} />
      <div className={useLate(stale) ? 'grid late' : 'grid'} ref={scroll} tabIndex={0} role="region" aria-label="Runs">
        <table className={compares ? undefined : 'unpicked'} aria-rowcount={total + 1} style={{ width }}>
          <colgroup>
            {compares && <col style={{ width: before }} />}
            {['case', 'verdict', ...columns].map((n) => <col key={n} style={{ width: widths.get(n) }} />)}
          </colgroup>
          <thead>
            <tr aria-rowindex={1}>
              {compares && <th scope="col" className="pick"><span className="sr">Compare</span></th>}
              <Heading state={state} field={known.fields.get('case')} className="case" />
              <Heading state={state} field={known.fields.get('verdict')} />
              {fields.map((f) => <Heading key={f.name} state={state} field={f} />)}
            </tr>
          </thead>
          <tbody>
            {above > 0 && <tr className="space" aria-hidden="true"><td style={{ height: above }} colSpan={fields.length + 3} /></tr>}
            {items.map((item) => {
              const page = pages.get(Math.floor(item / pageSize))
              const at = item % pageSize
              return (
                <Row
                  key={item} index={item} page={page} at={at} fields={fields} columns={columns} compares={compares} mixed={mixed}
                  picked={page !== undefined && state.runs.includes(page.ids[at] ?? '')}
                />
              )
            })}
            {below > 0 && <tr className="space" aria-hidden="true"><td style={{ height: below }} colSpan={fields.length + 3} /></tr>}
          </tbody>
        </table>
        {answer && answer.matches === 0 && (
          <div className="nothing">
            <p>No run meets the filter.</p>
            <Button size="xs" variant="default" onClick={() => update({ filter: undefined })}>Clear the filter</Button>
          </div>
        )}
      </div>
      {(answer?.matches ?? 0) > mostRows && (
        <p className="quiet pad">The table ends after {mostRows.toLocaleString('en-US')} runs. Narrow the filter, or sort, to see the others.</p>
      )}
    </section>
  )
}

/** Widths of columns, from the texts of the first page. A column never gets narrower, so that nothing jumps. */
function useWidths(rows: Rows | undefined, known: Known): Map<string, number> {
  const kept = useRef(new Map<string, number>())
  return useMemo(() => {
    rows?.fields.forEach((name, i) => {
      const f = known.fields.get(name)
      const longest = Math.max(0, ...(rows.columns[i] ?? []).map((v) => formatValue(v, f).length))
      const words = (f ? nameOf(f) : name).split(/(?<=[_ ])/)
      const head = Math.max(...words.map((w) => w.length), Math.ceil(words.join('').length / 2), f?.unit ? f.unit.length + 2 : 0)
      const wide = name === 'verdict' ? Math.min(172, Math.max(92, 80 + 7.2 * Math.max(0, ...rows.ids.map((_, at) => whyOf(rows, at, known).length)))) : Math.min(widest[name] ?? 205, Math.max(longest * (f?.kind === 'time' ? 7 : longest < 20 ? 8 : 7.4), head * 7.6, 40) + 22)
      kept.current.set(name, Math.max(kept.current.get(name) ?? 0, Math.round(wide)))
    })
    return new Map(kept.current)
  }, [rows, known])
}

/** The pages in sight. The first came with the counts; the others are fetched. */
function usePages(state: State, columns: string[], answer: Answer | undefined, wanted: number[]): Map<number, Rows> {
  const known = useKnown()
  const missing = [...new Set(wanted)].filter((p) => p > 0)
  const fetched = useQueries({
    queries: missing.map((page) => {
      const rows = { fields: rowFields(columns, known), sort: state.sort, offset: page * pageSize, limit: pageSize }
      const query = { filter: state.filter, rows }
      return {
        queryKey: ['rows', query],
        queryFn: ({ signal }: { signal: AbortSignal }) => api.apply(query, signal),
      }
    }),
  })
  const pages = new Map<number, Rows>()
  if (answer?.rows) pages.set(0, answer.rows)
  missing.forEach((page, i) => {
    const rows = fetched[i]?.data?.rows
    if (rows) pages.set(page, rows)
  })
  return pages
}

function TableTools({ state, columns, matches }: { state: State; columns: string[]; matches: number }) {
  const [busy, setBusy] = useState(false)
  const [failed, setFailed] = useState('')
  const { records } = useOffer()
  const save = async (format: 'csv' | 'json', fields?: string[]) => {
    setBusy(true)
    setFailed('')
    try {
      download(await api.saved(format, { filter: state.filter, fields, sort: state.sort }), `runs.${format}`)
    } catch (error) {
      setFailed(error instanceof Error ? error.message : String(error))
    }
    setBusy(false)
  }
  return (
    <div className="tools">
      <ColumnChooser columns={columns} />
      <Button size="xs" variant="default" loading={busy} disabled={matches === 0} onClick={() => void save('csv', [...new Set(['case', 'verdict', 'kind', ...columns])])}>Save as CSV</Button>
      <Menu position="bottom-start">
        <Menu.Target><Button size="xs" variant="subtle" disabled={matches === 0 || busy}>All fields…</Button></Menu.Target>
        <Menu.Dropdown>
          <Menu.Item onClick={() => void save('csv')}>All fields as CSV</Menu.Item>
          {records && <Menu.Item onClick={() => void save('json')}>All fields as JSON</Menu.Item>}
        </Menu.Dropdown>
      </Menu>
      {failed && <span role="alert" className="bad">{failed}</span>}
      <span className="grow" />
      {state.runs.length > 0 && (
        <>
          <span className="quiet">{state.runs.length} chosen{state.runs.length === 1 && ', choose another to compare'}</span>
          <Button size="xs" variant="subtle" onClick={() => update({ runs: [] }, true)}>Clear</Button>
          <Button size="xs" disabled={state.runs.length < 2} onClick={() => update({ view: 'compare' })}>Compare</Button>
        </>
      )}
    </div>
  )
}

export function download(blob: Blob, name: string) {
  const a = document.createElement('a')
  a.href = URL.createObjectURL(blob)
  a.download = name
  a.click()
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000)
}

/** A column's name, unit and order. */
function Heading({ state, field, className }: { state: State; field: Field | undefined; className?: string }) {
  if (!field) return <th scope="col" className={className} />
  const at = state.sort.findIndex((o) => o.field === field.name)
  const order = state.sort[at]
  const sorted = order ? (order.descending ? 'descending' : 'ascending') : undefined
  const sort = (add: boolean) => {
    // First the better end, then the other, then none.
    const first = field.better === 'higher' || field.kind === 'time'
    const next = !order ? [{ field: field.name, descending: first }]
      : !!order.descending === first ? [{ field: field.name, descending: !first }] : []
    update({ sort: add ? [...state.sort.filter((o) => o.field !== field.name), ...next] : next })
  }
  const numeric = field.kind !== 'text'
  return (
    <th scope="col" className={[className, numeric ? 'num' : ''].join(' ')} aria-sort={sorted ?? 'none'}>
      <button
        type="button" onClick={(e) => sort(e.shiftKey)}
        title={`${field.help || field.name}. Click to sort; with Shift, to sort by this too.`}
      >
        <span className="name">{broken(nameOf(field))}</span>
        <span className="unit">
          {field.unit}
          {sorted && <span aria-hidden="true"> {sorted === 'descending' ? '↓' : '↑'}{state.sort.length > 1 ? at + 1 : ''}</span>}
        </span>
      </button>
    </th>
  )
}

/** A name that may be broken behind each underscore. */
function broken(name: string) {
  return name.split(/(?<=_)/).flatMap((part, i) => (i > 0 ? [<wbr key={i} />, part] : [part]))
}

interface RowProps {
  index: number
  page: Rows | undefined
  at: number
  fields: Field[]
  columns: string[]
  compares: boolean
  mixed: boolean // measured and simulated runs in one table
  picked: boolean
}

const Row = memo(function Row({ index, page, at, fields, columns, compares, mixed, picked }: RowProps) {
  const known = useKnown()
  const id = page?.ids[at]
  const cell = (name: string): Value | undefined => page?.columns[page.fields.indexOf(name)]?.[at]
  if (!page || id === undefined) {
    return <tr className="row wait" aria-rowindex={index + 2}><td colSpan={fields.length + 3}><span className="sr">Loading</span></td></tr>
  }
  const name = formatValue(cell('case')) === '–' ? id : formatValue(cell('case'))
  return (
    <tr className={picked ? 'row picked' : 'row'} aria-rowindex={index + 2}>
      {compares && (
        <td className="pick">
          <input type="checkbox" aria-label={`Compare ${name}`} checked={picked} onChange={() => pick(id)} />
        </td>
      )}
      <th scope="row" className="case">
        <a className="clip" href={link({ view: 'run', run: id })} title={name} onClick={(e) => follow(e, { view: 'run', run: id })}>{name}</a>
      </th>
      <td><Verdict verdict={cell('verdict')} kind={mixed ? cell('kind') : undefined} why={whyOf(page, at, known)} line={columns.includes('cause_line') ? undefined : cell('cause_line')} /></td>
      {fields.map((f) => {
        const v = cell(f.name)
        return (
          <td key={f.name} className={typeof v === 'number' ? 'num' : f.kind === 'text' ? 'clip' : 'num'} title={typeof v === 'string' ? v : f.kind === 'number' && typeof v === 'number' ? formatExact(v) : undefined}>
            {formatValue(v, f)}
          </td>
        )
      })}
    </tr>
  )
}, (a, b) => a.index === b.index && a.page === b.page && a.picked === b.picked && a.at === b.at && a.mixed === b.mixed && same(a.columns, b.columns))

/** Why a run is not valid: the cause of its failure, or else the checks that found something. */
function whyOf(page: Rows, at: number, known: Known): string {
  const cell = (name: string) => page.columns[page.fields.indexOf(name)]?.[at]
  const verdict = cell('verdict')
  if (verdict === 'valid') return ''
  const cause = cell('cause')
  return cause ? String(cause) : reasons(known).filter((n) => n !== 'cause' && n !== 'cause_line' && cell(n) === verdict).map((n) => nameOf(known.fields.get(n) ?? { name: n }).replace(/^check\./, '')).join(', ')
}

function same(a: string[], b: string[]): boolean {
  return a.length === b.length && a.every((x, i) => x === b[i])
}

function pick(id: string) {
  const runs = parse(search()).runs
  if (runs.includes(id)) update({ runs: runs.filter((r) => r !== id) }, true)
  else if (runs.length < 10) update({ runs: [...runs, id] }, true)
}
