package sender

import "time"

// arrivals tells when bytes arrived, and how late the times of events may be.
type arrivals struct {
	looked   int64 // when the last look at the connections began
	since    int64 // what is read now arrived after that
	fromUnix int64 // what turns Unix time into a reading of the clock, in ns
	aligned  bool  // fromUnix is known

	exact     int   // events of this look that have the time of their arrival
	late      int   // those that may have a later one
	latest    int64 // the latest time of those
	unstamped bool  // the kernel does not say when bytes arrive
}

const (
	readingLimit = 50_000    // longest time between two readings of clocks that are compared, in ns
	stepLimit    = 1_000_000 // a larger change between two looks is a step of the system's clock, in ns
)

// look begins to look at the connections. slept says that nothing was ready at the end of the last
// look, so that the thread slept until something was.
func (a *arrivals) look(clock func() int64, slept bool) (woken int64) {
	woken = clock()
	unix := time.Now().UnixNano()
	fromUnix := woken - unix
	step := fromUnix - a.fromUnix
	known := clock()-woken <= readingLimit
	a.aligned = known && (a.fromUnix == 0 || max(step, -step) <= stepLimit)
	if known {
		a.fromUnix = fromUnix
	}
	a.since, a.looked = a.looked, woken
	if slept {
		a.since = woken
	}
	a.exact, a.late, a.latest = 0, 0, 0
	return woken
}

// of returns when bytes arrived that were read just now, on a connection of which all before
// arrived by earliest: when the kernel received them, unless that is unknown or, as after a step of
// the system's clock, impossible.
func (a *arrivals) of(unixNano, earliest, now int64) (at int64, byKernel bool) {
	a.unstamped = unixNano == 0
	received := unixNano + a.fromUnix
	if unixNano == 0 || !a.aligned || received < earliest || received > now {
		return now, false
	}
	a.since = min(a.since, received) // the thread may have woken late
	return received, true
}

// add counts events that were read at once and got that time. All but the last of them arrived
// earlier.
func (a *arrivals) add(events int, at int64, byKernel bool) {
	if byKernel && events > 0 {
		a.exact, events = a.exact+1, events-1
	}
	if events > 0 {
		a.late, a.latest = a.late+events, max(a.latest, at)
	}
}

// count adds the events of a look to a spread.
func (a *arrivals) count(lag *Spread) {
	lag.AddTo(0, a.exact)
	lag.AddTo(a.latest-a.since, a.late)
}
