import type { Plugin } from 'vite'

export function licenses(): Plugin

export function licensesInside(): Plugin
