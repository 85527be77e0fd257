import { Component, type ReactNode } from 'react'

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
          <p><a href={location.href}>Reload</a> or <a href={location.pathname}>start again</a></p>
        </div>
      </main>
    )
  }
}
