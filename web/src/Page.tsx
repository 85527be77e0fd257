import { Button } from '@mantine/core'
import { useCallback, useEffect, useState } from 'react'
import { FilterBar } from './bar/FilterBar'
import { Strip } from './bar/Strip'
import { useAnswer, useKnown } from './data'
import { FacetPanel } from './facets/FacetPanel'
import { Head } from './Head'
import { Trouble } from './parts/Trouble'
import { useAddress, type State } from './state'
import { CapacityView } from './views/CapacityView'
import { CompareView } from './views/CompareView'
import { EmptyStore } from './views/EmptyStore'
import { ImpactView } from './views/ImpactView'
import { RunView } from './views/RunView'
import { ScalingView } from './views/ScalingView'
import { ScatterView } from './views/ScatterView'
import { TableView } from './views/TableView'
import { TrendView } from './views/TrendView'
import { UploadView } from './views/UploadView'
import type { Answer } from './api'

const names: Record<State['view'], string> = {
  table: 'Table of runs', scatter: 'Scatter of two metrics', trend: 'Trends over time', impact: 'Impact of settings',
  scaling: 'Scaling over GPUs', capacity: 'Capacity within limits', compare: 'Comparison', run: 'One run', upload: 'Upload',
}

export function Page({ scheme }: { scheme: 'light' | 'dark' }) {
  const state = useAddress()
  const known = useKnown()
  const answer = useAnswer(state, known)
  const [facets, setFacets] = useState(false) // the panel, on narrow screens
  const close = useCallback(() => setFacets(false), [])
  useEffect(() => {
    document.title = `${names[state.view]} · profllm`
  }, [state.view])
  const chosen = state.view === 'compare' && state.runs.length > 1 && !(state.a && state.b)
  const filtered = !['run', 'upload'].includes(state.view) && !chosen
  const empty = known.options.runs === 0 && state.view !== 'upload'
  return (
    <div className="page">
      <Head state={state} scheme={scheme} busy={answer.isFetching} />
      {empty ? <EmptyStore /> : (
        <div className="body">
          {filtered && <FacetPanel state={state} answer={answer.data} failed={answer.error !== null} open={facets} close={close} />}
          <main className="main" id="main">
            {state.view !== 'run' && <h1 className="sr">{names[state.view]}</h1>}
            {filtered && (
              <>
                <FilterBar state={state}>
                  <Button className="narrow" size="xs" variant="default" onClick={() => setFacets(true)}>Filters</Button>
                </FilterBar>
                {!answer.error && <Strip state={state} answer={answer.data} />}
              </>
            )}
            {answer.error && filtered
              ? <Trouble error={answer.error} retry={() => void answer.refetch()} />
              : <View state={state} answer={answer.data} stale={answer.isPlaceholderData} scheme={scheme} />}
          </main>
        </div>
      )}
    </div>
  )
}

interface ViewProps {
  state: State
  answer: Answer | undefined
  stale: boolean
  scheme: 'light' | 'dark'
}

function View({ state, answer, stale, scheme }: ViewProps) {
  switch (state.view) {
    case 'scatter': return <ScatterView state={state} answer={answer} scheme={scheme} />
    case 'trend': return <TrendView state={state} scheme={scheme} />
    case 'impact': return <ImpactView state={state} />
    case 'scaling': return <ScalingView state={state} scheme={scheme} />
    case 'capacity': return <CapacityView state={state} />
    case 'compare': return <CompareView state={state} />
    case 'run': return <RunView state={state} scheme={scheme} />
    case 'upload': return <UploadView />
    case 'table': return <TableView state={state} answer={answer} stale={stale} />
  }
}
