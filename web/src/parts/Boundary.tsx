import { Component, type ReactNode } from 'react'
import { home } from '../state'

/** Says that the page failed, in place of a blank page. */
export class Boundary extends Component<{ children: ReactNode }, { error?: Error }> {
  state: { error?: Error } = {}

  static getDerivedStateFromError(error: unknown) {
    return { error: error instanceof Error ? error : new Error(String(error)) }
  }

  render() {
    const { error } = this.state
    if (!error) return this.props.children
    return (
      <main className="alone">
        <h1>The page has a fault</h1>
        <div className="trouble" role="alert">
          <p>{error.message}</p>
          <p className="quiet">The data are not affected. Reload the page, or start again without the filter and view of this address.</p>
          <p><button type="button" className="plain" onClick={() => location.reload()}>Reload</button> or <a href={home()}>start again</a></p>
        </div>
      </main>
    )
  }
}
