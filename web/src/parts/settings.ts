import type { Setting } from '../api'
import { nameOf } from '../format'

/** Settings in a line. */
export function settingsText(list: Setting[] | null | undefined, other = 'one configuration'): string {
  return list?.length ? list.map((s) => `${nameOf({ name: s.key })} ${s.value || 'not set'}`).join(', ') : other
}
