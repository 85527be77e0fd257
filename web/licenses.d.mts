import type { Plugin } from 'vite'

export function licenses(): Plugin
export function noticesOf(ids: Iterable<string>): string
