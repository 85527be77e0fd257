// What a page offers. Its entry says so: a server can do more than a page that is a file.
import { createContext, useContext, type ComponentType, type ReactNode } from 'react'
import type { Answer } from './api'
import type { State, View } from './state'

export interface ViewProps {
  state: State
  answer: Answer | undefined
  stale: boolean
  scheme: 'light' | 'dark'
}

export interface Tab {
  view: View
  name: string // of its tab
  title: string
  show: (p: ViewProps) => ReactNode
  unlisted?: boolean // it has no tab until it is open
  ofAll?: boolean // it shows what was found in all runs, whatever the filter
}

export interface Offer {
  tabs: Tab[]
  presets?: ComponentType<{ state: State }>
  token?: ComponentType // takes the token of a server that wants one for reading
  overTime?: ComponentType<{ id: string; scheme: 'light' | 'dark' }>
  traces?: ComponentType<{ id: string }>
  licenses?: string // address of those of its libraries; without, they begin its script
  records: boolean // the whole record of a run is there
  statistics: 'of the matching runs' | 'of all runs' // and then of the main metrics
  back?: { name: string; href: string } // a tab that leads out of the views
}

export const OfferContext = createContext<Offer>({ tabs: [], records: false, statistics: 'of all runs' })

export const useOffer = () => useContext(OfferContext)

export const offers = (o: Offer, view: View) => o.tabs.some((t) => t.view === view)
