//go:build !linux

package process

import "time"

// Ends waits so long.
func Ends(limit time.Duration, _ ...int) { time.Sleep(limit) }
