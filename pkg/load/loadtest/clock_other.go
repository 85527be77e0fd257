//go:build !linux

package loadtest

import "time"

// A clock ticks, within what the system's timers allow.
type clock struct{ ticker *time.Ticker }

func newClock(every time.Duration) clock { return clock{time.NewTicker(every)} }

func (c clock) wait() bool { <-c.ticker.C; return true }

func (c clock) close() { c.ticker.Stop() }
