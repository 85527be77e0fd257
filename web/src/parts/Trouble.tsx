import { Button } from '@mantine/core'
import { Problem } from '../api'
import { withHints } from '../format'

/** What went wrong, and what to do about it. */
export function Trouble({ error, retry, hint }: { error: Error; retry?: () => void; hint?: string }) {
  const problem = error instanceof Problem ? error : undefined
  return (
    <div className="trouble" role="alert">
      {withHints(error.message).map((line) => <p key={line}>{line}</p>)}
      {problem?.details.map((d) => <p key={d} className="quiet">{d}</p>)}
      <p className="quiet">{hint ?? mend(problem?.status)}</p>
      {retry && <Button size="xs" variant="default" onClick={retry}>Try again</Button>}
    </div>
  )
}

function mend(status: number | undefined): string {
  if (status === 401 || status === 403) return 'The server wants a token for this. Enter it under Upload.'
  if (status === 404) return 'The run may have been removed from the store since the page was loaded. Go back and choose another.'
  if (status === 422 || status === 400) return 'Change the filter or the chosen field, then try again.'
  if (status === 408 || status === 503 || status === 504) return 'The question took too long. Narrow the filter and try again.'
  if (status !== undefined && status >= 500) return 'This is a fault of the server. Its log has the details.'
  return ''
}
