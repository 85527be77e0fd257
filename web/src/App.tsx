import { MantineProvider, createTheme } from '@mantine/core'
import { useMediaQuery } from '@mantine/hooks'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import { Problem } from './api'
import { KnownContext, useOptions, type Known } from './data'
import { OfferContext, useOffer, type Offer } from './offer'
import { Page } from './Page'
import { Boundary } from './parts/Boundary'
import { Trouble } from './parts/Trouble'
import { useTheme } from './state'

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      networkMode: 'always', // a server on this machine, or the page itself, answers without a network too
      refetchOnWindowFocus: false,
      retry: (count, error) => count < 1 && error instanceof Problem && error.status >= 502,
    },
  },
})

const theme = createTheme({ primaryColor: 'blue', defaultRadius: 'sm', cursorType: 'pointer' })

export function App({ offer }: { offer: Offer }) {
  const chosen = useTheme()
  const dark = useMediaQuery('(prefers-color-scheme: dark)', false, { getInitialValueInEffect: false })
  const scheme = chosen ?? (dark ? 'dark' : 'light')
  return (
    <MantineProvider theme={theme} forceColorScheme={scheme} withCssVariables={false} withGlobalClasses={false} deduplicateCssVariables={false}>
      <QueryClientProvider client={client}>
        <OfferContext.Provider value={offer}>
          <Boundary><Start scheme={scheme} /></Boundary>
        </OfferContext.Provider>
      </QueryClientProvider>
    </MantineProvider>
  )
}

function Start({ scheme }: { scheme: 'light' | 'dark' }) {
  const options = useOptions()
  const { token: Token } = useOffer()
  const known: Known | undefined = useMemo(
    () => options.data && { options: options.data, fields: new Map(options.data.fields.map((f) => [f.name, f])) },
    [options.data],
  )
  useEffect(() => {
    document.documentElement.dataset.theme = scheme
  }, [scheme])
  if (options.error) {
    const locked = options.error instanceof Problem && options.error.status === 401
    return (
      <main className="alone">
        <h1>profllm</h1>
        {locked && Token && <Token />}
        <Trouble error={options.error} retry={() => void options.refetch()} hint={locked ? 'Enter the token, then try again.' : undefined} />
      </main>
    )
  }
  if (!known) return <main className="alone" aria-busy="true"><p className="quiet">Loading the fields of the store…</p></main>
  return (
    <KnownContext.Provider value={known}>
      <Page scheme={scheme} />
    </KnownContext.Provider>
  )
}
