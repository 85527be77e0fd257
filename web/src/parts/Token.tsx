import { PasswordInput } from '@mantine/core'
import { useState } from 'react'
import { token } from '../http'

/** Takes the token of the server. */
export function Token() {
  const [text, setText] = useState(token.get())
  return (
    <PasswordInput
      size="xs" w={320} label="Token of the server" description="It is kept until the tab is closed."
      value={text} onChange={(e) => {
        setText(e.currentTarget.value)
        token.set(e.currentTarget.value.trim())
      }}
    />
  )
}
