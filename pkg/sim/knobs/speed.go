package knobs

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// speedVar is how many times faster than its knobs say the engine goes. A rehearsal
// sets it for its jobs, see docs/explanation/decisions/simulated-speed.md.
const speedVar = "PROFLLM_SIM_SPEED"

// MaxSpeed is the highest speed.
const MaxSpeed = 1000

// Speed reads speedVar; 1 if it is not set.
func Speed(env func(string) string) (int, error) {
	s := env(speedVar)
	if s == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && (n < 1 || n > MaxSpeed) {
		err = errors.New("out of range")
	}
	return n, Named(speedVar, s, fmt.Sprintf("a whole number from 1 to %d", MaxSpeed), err)
}

// faster divides every time of the simulation by n. Limits, such as how long a
// worker looks for its head, stay.
func (k *Settings) faster(n int) {
	for _, d := range []*time.Duration{&k.Timing.TTFT, &k.Timing.ITL, &k.Startup} {
		*d /= time.Duration(n)
	}
	k.Planted.Faster(n)
}

// Faster divides the times of faults by n.
func (f *Planted) Faster(n int) {
	for _, d := range []*time.Duration{
		&f.DieAfter, &f.Slowing, &f.Stall.by, &f.Stall.after, &f.freeze.by, &f.freeze.after, &f.step.by, &f.step.after,
	} {
		*d /= time.Duration(n)
	}
}

// Pace is how long a simulated engine takes for what it does, at speed 1.
type Pace struct {
	Startup   time.Duration // until the port is open
	TTFT, ITL time.Duration
}

// PaceOf reads the knobs of the engine's pace.
func PaceOf(env func(string) string) (Pace, error) {
	k, err := Read(func(name string) string {
		if name == speedVar {
			return ""
		}
		return env(name)
	})
	return Pace{k.Startup, k.Timing.TTFT, k.Timing.ITL}, err
}
