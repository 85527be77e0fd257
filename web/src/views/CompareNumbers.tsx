import { Fragment } from 'react'
import type { Compared, Comparison, Measured, MetricRow } from '../api'
import { formatExact, formatMeasured, formatNumber, formatPercent } from '../format'
import { Badge } from '../parts/Badge'
import { RunLink } from '../parts/RunLink'

/** The numbers of every run; the best of each row is bold. */
export function Numbers({ c, got, names }: { c: Comparison; got: Compared; names?: [string, string] }) {
  return (
    <section>
      <h2>Numbers{c.kind && <> <span className="badge simulated">{c.kind}</span></>}</h2>
      <div className="scroll-x">
        <table className="list compare">
          <thead>
            <tr>
              <th scope="col">Metric</th>
              {(c.columns ?? []).map((col, i) => (
                <th key={col.name} scope="col" className="num" title={col.label}>
                  <RunLink id={got.ids?.[col.dir]}><ColumnName c={c} i={i} names={names} /></RunLink><br /><Badge word={col.verdict} />
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

/** Two columns are the sides of the verdict; more have letters. */
export function ColumnName({ c, i, names }: { c: Comparison; i: number; names?: [string, string] }) {
  if (c.columns?.length === 2) return <SideName second={i === 1} name={names?.[i]} />
  return c.columns?.[i]?.name ?? ''
}

/** A side by its place and, if it has one, its name. */
export function SideName({ second, name }: { second?: boolean; name?: string }) {
  return <>{second ? 'Compared' : 'Baseline'}{name && <span className="side-name clip" title={name}> {name}</span>}</>
}
