import { useEffect, useRef, useState, type RefObject } from 'react'

const spare = 6 // rows drawn above and below what is in sight

interface Window {
  first: number // row in sight
  last: number // the row behind those in sight
  top: RefObject<number> // pixels that were scrolled
}

/** The rows in sight of a list whose rows are equally high. */
export function useWindow(box: RefObject<HTMLElement | null>, rowHeight: number, total: number): Window {
  const top = useRef(0)
  const [seen, setSeen] = useState({ from: 0, rows: 40 })
  useEffect(() => {
    const e = box.current
    if (!e) return undefined
    const look = () => {
      // In steps, so that not every pixel of a scroll draws the rows again.
      top.current = e.scrollTop
      const from = Math.floor(top.current / rowHeight / 4) * 4
      const rows = Math.ceil(e.clientHeight / rowHeight) + 4
      setSeen((old) => (old.from === from && old.rows === rows ? old : { from, rows }))
    }
    look()
    e.addEventListener('scroll', look, { passive: true })
    const watch = new ResizeObserver(look)
    watch.observe(e)
    return () => {
      e.removeEventListener('scroll', look)
      watch.disconnect()
    }
  }, [box, rowHeight])
  const from = Math.max(0, Math.min(seen.from, total - seen.rows))
  return { first: Math.max(0, from - spare), top, last: Math.min(total, from + seen.rows + spare) }
}
