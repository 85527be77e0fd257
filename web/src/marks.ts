// Marks of what the page has drawn, for whoever measures it (web/bench).
import { useEffect } from 'react'

/** Sets a mark once the frame that shows a new answer is drawn: the second frame begins after the first was. */
export function useDrawn(name: string, answer: unknown): void {
  useEffect(() => {
    if (answer === undefined) return undefined
    let frame = requestAnimationFrame(() => {
      frame = requestAnimationFrame(() => {
        performance.clearMarks(name)
        performance.mark(name)
      })
    })
    return () => cancelAnimationFrame(frame)
  }, [name, answer])
}
