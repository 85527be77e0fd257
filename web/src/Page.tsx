import { Button } from '@mantine/core'
import { useCallback, useEffect, useState } from 'react'
import { FilterBar } from './bar/FilterBar'
import { Strip } from './bar/Strip'
import { useAnswer, useKnown } from './data'
import { FacetPanel } from './facets/FacetPanel'
import { Head } from './Head'
import { Trouble } from './parts/Trouble'
import { useAddress, type State } from './state'
import { EmptyStore } from './views/EmptyStore'
import { TableView } from './views/TableView'
import type { Answer } from './api'

export function Page({ scheme }: { scheme: 'light' | 'dark' }) {
  const state = useAddress()
  const known = useKnown()
  const answer = useAnswer(state, known)
  const [facets, setFacets] = useState(false) // the panel, on narrow screens
  const close = useCallback(() => setFacets(false), [])
  useEffect(() => {
    document.title = `${state.view[0]?.toUpperCase()}${state.view.slice(1)} · profllm`
  }, [state.view])
  const filtered = !['run', 'upload'].includes(state.view)
  const empty = known.options.runs === 0 && state.view !== 'upload'
  return (
    <div className="page">
      <Head state={state} scheme={scheme} busy={answer.isFetching} />
      {empty ? <EmptyStore /> : (
        <div className="body">
          {filtered && <FacetPanel state={state} answer={answer.data} open={facets} close={close} />}
          <main className="main" id="main">
            {filtered && (
              <>
                <FilterBar state={state}>
                  <Button className="narrow" size="xs" variant="default" onClick={() => setFacets(true)}>Filters</Button>
                </FilterBar>
                <Strip state={state} answer={answer.data} />
              </>
            )}
            {answer.error && filtered
              ? <Trouble error={answer.error} retry={() => void answer.refetch()} />
              : <View state={state} answer={answer.data} stale={answer.isPlaceholderData} />}
          </main>
        </div>
      )}
    </div>
  )
}

function View({ state, answer, stale }: { state: State; answer: Answer | undefined; stale: boolean }) {
  switch (state.view) {
    default:
      return <TableView state={state} answer={answer} stale={stale} />
  }
}
