import { Fragment } from 'react'
import type { Comparison, Delta } from '../api'
import { useKnown } from '../data'
import { nameOf } from '../format'
import { ColumnName } from './CompareNumbers'

/** Everything in which two runs differ. */
export function Differences({ d }: { d: Delta }) {
  const { fields } = useKnown()
  const groups = d.groups.filter((g) => g.differs && g.differs.length > 0)
  const same = d.groups.reduce((n, g) => n + g.same, 0)
  return (
    <section>
      <h2>What differs</h2>
      <p className="quiet">{[d.causal ?? (d.same_configuration ? 'Both runs have the same configuration' : ''), `${same} ${groups.length > 0 ? 'other ' : ''}fields are the same`].filter((x) => x).join('. ')}.</p>
      {groups.length > 0 && (
        <div className="scroll-x">
          <table className="list">
            <thead><tr><th scope="col">Field</th><th scope="col">Baseline</th><th scope="col">Compared</th></tr></thead>
            <tbody>
              {groups.map((g) => (
                <Fragment key={g.name}>
                  <tr className="head-row"><th scope="rowgroup" colSpan={3}>{g.name}</th></tr>
                  {g.differs?.map((u) => (
                    <tr key={u.field}><th scope="row">{nameOf(fields.get(u.field) ?? { name: u.field })}</th><td className="wrap">{u.first || '–'}</td><td className="wrap">{u.second || '–'}</td></tr>
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
export function SettingsApart({ c, names }: { c: Comparison; names?: [string, string] }) {
  const keys = [...new Set((c.columns ?? []).flatMap((col) => (col.difference ?? []).map((s) => s.key)))]
  if (keys.length === 0) return <section><h2>What differs</h2><p className="quiet">The runs have the same settings.</p></section>
  return (
    <section>
      <h2>What differs</h2>
      <div className="scroll-x">
        <table className="list">
          <thead><tr><th scope="col">Setting</th>{(c.columns ?? []).map((col, i) => <th key={col.name} scope="col" title={col.label}><ColumnName c={c} i={i} names={names} /></th>)}</tr></thead>
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
