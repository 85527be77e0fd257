import { useEffect, useState } from 'react'

/** Whether something has been so for a moment: most answers come before, and need no frame that says that they come. */
export function useLate(on: boolean): boolean {
  const [late, setLate] = useState(false)
  useEffect(() => {
    if (!on) return undefined
    const timer = setTimeout(() => setLate(true), 200)
    return () => {
      clearTimeout(timer)
      setLate(false)
    }
  }, [on])
  return on && late
}
