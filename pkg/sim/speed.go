package sim

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// SpeedVar is how many times faster than its knobs say the engine goes. A rehearsal
// sets it for its jobs, see docs/explanation/decisions/simulated-speed.md.
const SpeedVar = "PROFLLM_SIM_SPEED"

// MaxSpeed is the highest speed.
const MaxSpeed = 1000

// Speed reads SpeedVar; 1 if it is not set.
func Speed(env func(string) string) (int, error) {
	s := env(SpeedVar)
	if s == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && (n < 1 || n > MaxSpeed) {
		err = errors.New("out of range")
	}
	return n, named(SpeedVar, s, fmt.Sprintf("a whole number from 1 to %d", MaxSpeed), err)
}

// faster divides every time of the simulation by n. Limits, such as how long a
// worker looks for its head, stay.
func (k *knobs) faster(n int) {
	for _, d := range []*time.Duration{&k.timing.ttft, &k.timing.itl, &k.startup} {
		*d /= time.Duration(n)
	}
	k.faults.faster(n)
}

// faster divides the times of faults by n.
func (f *faults) faster(n int) {
	for _, d := range []*time.Duration{
		&f.dieAfter, &f.slowing, &f.stall.by, &f.stall.after, &f.freeze.by, &f.freeze.after, &f.step.by, &f.step.after,
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
	k, err := readKnobs(func(name string) string {
		if name == SpeedVar {
			return ""
		}
		return env(name)
	})
	return Pace{k.startup, k.timing.ttft, k.timing.itl}, err
}
