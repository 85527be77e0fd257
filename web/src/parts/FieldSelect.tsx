import { Select } from '@mantine/core'
import { memo, useCallback, useMemo, useRef } from 'react'
import type { Field } from '../api'
import { useKnown } from '../data'
import { withUnit } from '../format'

interface Props {
  label: string
  value: string | undefined
  choose: (name: string | null) => void
  accept?: (f: Field) => boolean
  clearable?: boolean
  placeholder?: string
  hidden?: boolean // the label is for screen readers only
  w?: number
}

const numeric = (f: Field) => f.group === 'metric'

/** Chooses one field by typing a part of its name. Fields that no run has are left out. */
export function FieldSelect({ choose, ...props }: Props) {
  const latest = useRef(choose)
  latest.current = choose
  const stable = useCallback((name: string | null) => latest.current(name), [])
  return <Choice {...props} choose={stable} />
}

// Drawn again only if its own properties change: it has hundreds of options.
const Choice = memo(function Choice({ label, value, choose, accept = numeric, clearable, placeholder, hidden, w }: Props) {
  const { options } = useKnown()
  const data = useMemo(() => {
    const list = options.fields.filter((f) => accept(f) && (f.runs > 0 || f.name === value))
    const first = options.defaults.metrics
    const rank = (f: Field) => (first.includes(f.name) ? first.indexOf(f.name) : first.length)
    const names = new Set<string>()
    return [...list].sort((a, b) => rank(a) - rank(b)).map((f) => {
      const text = withUnit(f)
      const label = names.has(text) ? `${text} · ${f.name}` : text
      names.add(text)
      return { value: f.name, label }
    })
  }, [options, accept, value])
  return (
    <Select
      size="xs" w={w} label={hidden ? undefined : label} aria-label={label} data={data} value={value ?? null}
      onChange={choose} searchable limit={200} clearable={clearable} allowDeselect={false} placeholder={placeholder}
      nothingFoundMessage="No such field in this store" comboboxProps={{ width: 'max-content', position: 'bottom-start' }}
      maxDropdownHeight={320}
    />
  )
})
