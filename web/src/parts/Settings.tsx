import type { Setting } from '../api'
import { nameOf } from '../format'

/** Settings in a line. */
export function settingsText(list: Setting[] | null | undefined, other = 'one configuration'): string {
  return list?.length ? list.map((s) => `${nameOf({ name: s.key })} ${s.value || 'not set'}`).join(', ') : other
}

/** The same, with names quieter than values. */
export function Settings({ list, other = 'one configuration' }: { list: Setting[] | null | undefined; other?: string }) {
  if (!list?.length) return other
  return (
    <span className="settings">
      {list.map((s) => (
        <span key={s.key} title={s.key}><span className="quiet">{nameOf({ name: s.key })}</span> {s.value || <i>not set</i>}</span>
      ))}
    </span>
  )
}
