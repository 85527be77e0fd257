import { Button, TextInput } from '@mantine/core'
import { memo, useEffect, useState } from 'react'
import { useKnown } from '../data'
import { asChoice, join, parts, searchText, sentence, withText } from '../filter'
import { useOffer } from '../offer'
import { update, type State } from '../state'
import { FilterBuilder } from './FilterBuilder'

interface Props {
  state: State
  openFacets: () => void // on narrow screens
}

/** The filter in words, each part with a way to remove it, and the search box. An answer changes nothing of it. */
export const FilterBar = memo(function FilterBar({ state, openFacets }: Props) {
  const { fields } = useKnown()
  const { presets: Presets } = useOffer()
  const list = parts(state.filter)
  const words = list.filter((p) => !p.text)
  return (
    <div className="bar">
      <Button className="narrow" size="xs" variant="default" onClick={openFacets}>Filters</Button>
      <Search state={state} />
      <div className="chips">
        {words.length === 0 && !searchText(list) && <span className="quiet">All runs. Choose filters to narrow them.</span>}
        {words.length > 0 && <ul className="chip-list" aria-label="Filter">{list.map((p, i) => {
          const text = sentence(p, fields)
          if (p.text) return null
          return (
            <li key={text} className="chip">
              {i > 0 && words.indexOf(p) > 0 && <span className="sr">and </span>}
              {asChoice(p) ? <span className="clip">{text}</span> : (
                <FilterBuilder at={i} filter={state.filter}>
                  {(edit) => <button type="button" className="chip-edit clip" title="Edit" onClick={edit}>{text}</button>}
                </FilterBuilder>
              )}
              <button
                type="button" aria-label={`Remove: ${text}`}
                onClick={() => update({ filter: join(list.filter((_, j) => j !== i)) })}
              >×</button>
            </li>
          )
        })}</ul>}
        {list.length > 0 && <button type="button" className="plain" onClick={() => update({ filter: undefined })}>Clear all</button>}
      </div>
      <FilterBuilder at={-1} filter={state.filter}>
        {(open) => <Button size="xs" variant="default" onClick={open}>And / or…</Button>}
      </FilterBuilder>
      {Presets && <Presets state={state} />}
    </div>
  )
})

function Search({ state }: { state: State }) {
  const asked = searchText(parts(state.filter))
  const [text, setText] = useState(asked)
  useEffect(() => setText(asked), [asked])
  useEffect(() => {
    if (text === asked) return undefined
    const timer = setTimeout(() => update({ filter: join(withText(parts(state.filter), text)) }, true), 180)
    return () => clearTimeout(timer)
  }, [text, asked, state.filter])
  return (
    <TextInput
      className="search" size="xs" type="search" placeholder="Search all texts" aria-label="Search all texts of the runs"
      value={text} onChange={(e) => setText(e.currentTarget.value)}
    />
  )
}
