import { useCallback, useEffect, useState } from 'react'
import { FilterBar } from './bar/FilterBar'
import { Strip } from './bar/Strip'
import { useAnswer, useKnown } from './data'
import { FacetPanel } from './facets/FacetPanel'
import { parts } from './filter'
import { plural } from './format'
import { Head } from './Head'
import { useDrawn } from './marks'
import { Trouble } from './parts/Trouble'
import { useOffer, type ViewProps } from './offer'
import { useAddress } from './state'
import { EmptyStore } from './views/EmptyStore'

export function Page({ scheme }: { scheme: 'light' | 'dark' }) {
  const state = useAddress()
  const known = useKnown()
  const { tabs } = useOffer()
  const tab = tabs.find((t) => t.view === state.view) ?? tabs[0]
  const title = tab?.title ?? ''
  const answer = useAnswer(state, known)
  useDrawn('profllm:answer', answer.isPlaceholderData ? undefined : answer.data)
  const [facets, setFacets] = useState(false) // the panel, on narrow screens
  const close = useCallback(() => setFacets(false), [])
  const openFacets = useCallback(() => setFacets(true), [])
  useEffect(() => {
    document.title = `${title} · profllm`
  }, [title])
  const chosen = state.view === 'compare' && state.runs.length > 1 && !(state.a && state.b)
  const filtered = !['run', 'upload'].includes(state.view) && !chosen && !tab?.ofAll
  const empty = known.options.runs === 0 && state.view !== 'upload'
  return (
    <div className="page">
      <Head state={state} scheme={scheme} />
      {empty ? <EmptyStore /> : (
        <div className="body">
          {filtered && <FacetPanel state={state} answer={answer.data} failed={answer.error !== null} open={facets} close={close} />}
          <main className="main" id="main" tabIndex={-1}>
            {state.view !== 'run' && <h1 className="sr">{title}</h1>}
            {filtered && (
              <>
                <FilterBar state={state} openFacets={openFacets} />
                {!answer.error && <Strip state={state} answer={answer.data} />}
              </>
            )}
            {tab?.ofAll && (
              <p className="quiet pad">For all {plural(known.options.runs, 'run')} of this page{parts(state.filter).length > 0 && ', whatever the filter'}.</p>
            )}
            {answer.error && filtered
              ? <Trouble error={answer.error} retry={() => void answer.refetch()} />
              : tab && <View show={tab.show} state={state} answer={answer.data} stale={answer.isPlaceholderData} scheme={scheme} />}
          </main>
        </div>
      )}
    </div>
  )
}

function View({ show, ...props }: ViewProps & { show: (p: ViewProps) => React.ReactNode }) {
  return show(props)
}
