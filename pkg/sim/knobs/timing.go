package knobs

import (
	"time"
)

// Timing says when tokens are due.
type Timing struct {
	TTFT, ITL time.Duration
	Jitter    float64 // 0-1
	Seed      uint64
}
