package sender

import "time"

// A breach is how a connection broke under a request. Times are in ns.
type breach struct {
	used      bool  // the connection has carried a request before: the server may have closed it for its age
	resent    bool  // the request was sent before, and broke there too
	whole     bool  // every byte of the request was handed to the system
	answered  bool  // a byte of an answer came
	after     int64 // from the end of the request to when the breach was seen
	roundTrip int64 // of the connection
	slack     int64 // [closeSlack]
}

const (
	// closeSlack is how long a close that was under way may take to be seen beyond a round
	// trip: both machines are busy.
	closeSlack = int64(10 * time.Millisecond)
	// farthest bounds the round trip that is believed: a connection that opened late had lost a
	// packet.
	farthest = int64(100 * time.Millisecond)
)

// neverArrived reports whether the server cannot have read the request, so that it may be sent
// again: the connection had been used before, nothing was answered, and the request either
// never left whole or met a close that was under way. A server that held a request for longer
// may have worked on it: that request has failed. A second breach is no accident any more: no
// request is sent more than twice.
func (b breach) neverArrived() bool {
	return b.used && !b.resent && !b.answered && (!b.whole || b.after <= min(b.roundTrip, farthest)+b.slack)
}
