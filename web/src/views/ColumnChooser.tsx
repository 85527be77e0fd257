import { Button, Popover, TextInput } from '@mantine/core'
import { memo, useState } from 'react'
import { useKnown } from '../data'
import { nameOf } from '../format'
import { update } from '../state'

/** Which columns the table has, and in which order. */
export const ColumnChooser = memo(function ColumnChooser({ columns }: { columns: string[] }) {
  return (
    <Popover position="bottom-start" width={320} shadow="md" trapFocus>
      <Popover.Target>
        <Button size="xs" variant="default">Columns ({columns.length})</Button>
      </Popover.Target>
      <Popover.Dropdown className="chooser"><Columns columns={columns} /></Popover.Dropdown>
    </Popover>
  )
}, (a, b) => a.columns.join() === b.columns.join())

function Columns({ columns }: { columns: string[] }) {
  const { options, fields } = useKnown()
  const [search, setSearch] = useState('')
  const wanted = search.trim().toLowerCase()
  const rest = options.fields.filter((f) => (wanted !== '' || !columns.includes(f.name)) && f.runs > 0 && f.name !== 'case' && f.name !== 'verdict' &&
    `${nameOf(f)} ${f.name}`.toLowerCase().includes(wanted))
  const set = (list: string[]) => update({ columns: list }, true)
  const move = (i: number, by: number) => {
    const list = [...columns]
    const [one] = list.splice(i, 1)
    if (one !== undefined) list.splice(i + by, 0, one)
    set(list)
  }
  return (
    <>
      <TextInput
        size="xs" type="search" placeholder="Find a column" aria-label="Find a column" value={search}
        onChange={(e) => setSearch(e.currentTarget.value)} data-autofocus
      />
      <div className="chooser-list">
        {!wanted && columns.map((name, i) => {
          const title = nameOf(fields.get(name) ?? { name })
          return (
            <div key={name} className="chooser-row">
              <label title={name}><input type="checkbox" checked onChange={() => set(columns.filter((n) => n !== name))} /><span className="clip">{title}</span></label>
              <button type="button" className="plain" disabled={i === 0} aria-label={`Move ${title} left`} onClick={() => move(i, -1)}>↑</button>
              <button type="button" className="plain" disabled={i === columns.length - 1} aria-label={`Move ${title} right`} onClick={() => move(i, 1)}>↓</button>
            </div>
          )
        })}
        {!wanted && <hr />}
        {rest.slice(0, 100).map((f) => (
          <div key={f.name} className="chooser-row">
            <label title={f.help || f.name}>
              <input type="checkbox" checked={columns.includes(f.name)} onChange={() => set(columns.includes(f.name) ? columns.filter((n) => n !== f.name) : [...columns, f.name])} />
              <span className="clip">{nameOf(f)}</span><span className="quiet">{f.group}</span>
            </label>
          </div>
        ))}
        {rest.length > 100 && <p className="quiet">{rest.length - 100} more: type a part of the name.</p>}
        {rest.length === 0 && wanted && <p className="quiet">No other field of this store is called “{search}”.</p>}
      </div>
      <div className="chooser-foot">
        <Button size="xs" variant="default" onClick={() => update({ columns: undefined }, true)}>Default columns</Button>
      </div>
    </>
  )
}
