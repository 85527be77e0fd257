import { ActionIcon, Tooltip } from '@mantine/core'
import { useEffect, useRef } from 'react'
import { useKnown } from './data'
import { plural } from './format'
import { link, update, type State, type View } from './state'

const tabs: { view: View; name: string }[] = [
  { view: 'table', name: 'Table' }, { view: 'scatter', name: 'Scatter' }, { view: 'trend', name: 'Trend' },
  { view: 'impact', name: 'Impact' }, { view: 'scaling', name: 'Scaling' }, { view: 'capacity', name: 'Capacity' },
  { view: 'compare', name: 'Compare' }, { view: 'upload', name: 'Upload' },
]

interface Props {
  state: State
  scheme: 'light' | 'dark'
  busy: boolean
}

export function Head({ state, scheme, busy }: Props) {
  const { options } = useKnown()
  const nav = useRef<HTMLElement>(null)
  useEffect(() => { // on a narrow screen, the tabs scroll
    nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [state.view])
  const other = scheme === 'dark' ? 'light' : 'dark'
  return (
    <header className="head">
      <a className="skip" href="#main">Skip to the results</a>
      <a className="mark" href={location.pathname} title="All runs">profllm</a>
      <nav className="tabs" aria-label="Views" ref={nav}>
        {tabs.map((t) => (
          <a
            key={t.view} href={link({ view: t.view })} aria-current={t.view === state.view ? 'page' : undefined}
            onClick={(e) => follow(e, { view: t.view })}
          >
            {t.name}
            {t.view === 'compare' && state.runs.length > 0 && <span className="count">{state.runs.length}</span>}
          </a>
        ))}
        {state.view === 'run' && <a href={link({})} aria-current="page">Run</a>}
      </nav>
      <span className="store">
        {options.demo && <span className="badge simulated">simulated data</span>}
        <span>{plural(options.runs, 'run')}</span>
      </span>
      <Tooltip label={`Switch to the ${other} theme`} openDelay={300}>
        <ActionIcon
          variant="subtle" color="gray" aria-label={`Switch to the ${other} theme`}
          onClick={() => update({ theme: other }, true)}
        >
          <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
            <circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" strokeWidth="1.5" />
            <path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor" />
          </svg>
        </ActionIcon>
      </Tooltip>
      <span className={busy ? 'busy on' : 'busy'} aria-hidden="true" />
    </header>
  )
}

/** Follows a link inside the page; with a modifier key, the browser opens it elsewhere. */
export function follow(e: React.MouseEvent, change: Partial<State>) {
  if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return
  e.preventDefault()
  update(change)
}
