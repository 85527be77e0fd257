import { ActionIcon, Tooltip } from '@mantine/core'
import { useIsFetching } from '@tanstack/react-query'
import { memo, useEffect, useRef } from 'react'
import { useKnown } from './data'
import { plural } from './format'
import { useOffer } from './offer'
import { home, link, update, type State } from './state'

interface Props {
  state: State
  scheme: 'light' | 'dark'
}

// Drawn again only if the address changes, not with each answer.
export const Head = memo(function Head({ state, scheme }: Props) {
  const { options } = useKnown()
  const { tabs, back } = useOffer()
  const nav = useRef<HTMLElement>(null)
  useEffect(() => { // on a narrow screen, the tabs scroll
    nav.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  }, [state.view])
  const other = scheme === 'dark' ? 'light' : 'dark'
  return (
    <header className="head">
      <a className="skip" href="#main" onClick={skip}>Skip to the results</a>
      <a className="mark" href={home()} title="All runs">profllm</a>
      <nav className="tabs" aria-label="Views" ref={nav}>
        {back && <a href={back.href}>{back.name}</a>}
        {tabs.filter((t) => !t.unlisted || t.view === state.view).map((t) => (
          <a
            key={t.view} href={link({ view: t.view })} aria-current={t.view === state.view ? 'page' : undefined}
            onClick={(e) => follow(e, { view: t.view })}
          >
            {t.name}
            {t.view === 'compare' && state.runs.length > 0 && <span className="count">{state.runs.length}</span>}
          </a>
        ))}
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
      <Busy />
    </header>
  )
})

/** Shows that the question of the page is under way. */
function Busy() {
  const asking = useIsFetching({ queryKey: ['apply'] }) > 0
  return <span className={asking ? 'busy on' : 'busy'} aria-hidden="true" />
}

/** Moves the focus itself: where the address keeps the state behind #, the link would lose it. */
function skip(e: React.MouseEvent) {
  e.preventDefault()
  document.getElementById('main')?.focus()
}

/** Follows a link inside the page; with a modifier key, the browser opens it elsewhere. */
export function follow(e: React.MouseEvent, change: Partial<State>) {
  if (e.metaKey || e.ctrlKey || e.shiftKey || e.button !== 0) return
  e.preventDefault()
  update(change)
}
