import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { Loading } from './Loading'
import { Trouble } from './Trouble'

interface Props<T> {
  got: UseQueryResult<T>
  what: string
  children: (data: T) => ReactNode
}

/** What the server found. While it works on a new question, the earlier answer is dim and says so. */
export function Answered<T>({ got, what, children }: Props<T>) {
  if (got.error) return <Trouble error={got.error} retry={() => void got.refetch()} />
  if (got.data === undefined) return got.isLoading ? <Loading what={what} /> : null
  return (
    <div className={got.isPlaceholderData ? 'scroll pad-x stale' : 'scroll pad-x'} aria-busy={got.isPlaceholderData}>
      {got.isPlaceholderData && <p className="updating" role="status"><span>Updating {what}…</span></p>}
      {children(got.data)}
    </div>
  )
}
