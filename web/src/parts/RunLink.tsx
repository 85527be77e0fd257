import type { ReactNode } from 'react'
import { follow } from '../Head'
import { link } from '../state'

/** A link to the page of one run, if its id is known. */
export function RunLink({ id, title, children }: { id: string | undefined; title?: string; children: ReactNode }) {
  if (id === undefined) return children
  return <a href={link({ view: 'run', run: id })} title={title} onClick={(e) => follow(e, { view: 'run', run: id })}>{children}</a>
}
