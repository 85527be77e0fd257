package sender

import (
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/answer/answertest"
)

// slowToCompose keeps the loop busy with the second request until the first is being answered.
type slowToCompose struct {
	asking
	answered <-chan struct{}
	clock    func() int64
	composed int64 // when it was done with the second
}

func (s *slowToCompose) Body(dst []byte, i int) []byte {
	if i == 1 {
		<-s.answered
		s.composed = s.clock()
	}
	return s.asking.Body(dst, i)
}

// awaitStamps returns when the kernel says of bytes when they arrived: it takes a moment until it
// does so for the first socket that asks.
func awaitStamps(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	from, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	to, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { from.Close(); to.Close() }) // as long as one asks, the kernel goes on
	raw, err := to.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	box := newInbox()
	require.NoError(t, raw.Control(func(fd uintptr) {
		for stamped(int(fd)); ; {
			if _, err = from.Write([]byte("x")); err != nil {
				return
			}
			if _, at, _ := box.receive(int(fd)); at != 0 {
				return
			}
		}
	}))
	require.NoError(t, err)
}

// A token that arrives while the client is busy has the time of its arrival, not of its reading.
func TestArrivalWhileBusy(t *testing.T) {
	awaitStamps(t)
	token := strings.Index(wholeAnswer, answertest.TokenEvent) + len(answertest.TokenEvent)
	answered, third := make(chan struct{}), make(chan struct{})
	var requests atomic.Int64
	s := startScripted(t, false, func(v *visit) {
		for v.request() {
			switch requests.Add(1) {
			case 1:
				v.say(wholeAnswer[:token])
				close(answered)
				<-third
				v.say(wholeAnswer[token:])
			case 2:
				v.say(wholeAnswer)
			case 3: // there was room for it, so that the second is answered and all before that read
				close(third)
				v.say(wholeAnswer)
			}
		}
	})
	snd := openWay(t, "loop", s.url, "")
	load := requestsOf(8, 3)
	load.Limit = 2
	busy := &slowToCompose{asking{8}, answered, load.Clock, 0}
	load.Requests = busy
	snd.Connect(t.Context(), 2, load.Clock)
	snd.Run(t.Context(), load)
	first := &load.Outcomes[0]
	require.Equal(t, answer.Completed, first.State, first.Err)
	require.Less(t, first.Tokens[0], busy.composed)
	require.Greater(t, first.Tokens[0], first.Start)
}

// A client that stands for another takes the time of its reading.
func TestArrivalByReading(t *testing.T) {
	awaitStamps(t)
	s := startScripted(t, false, always(wholeAnswer))
	to := &Target{Streams: 1, ByReading: true}
	var err error
	to.URL, err = url.Parse(s.url + "/v1/completions")
	require.NoError(t, err)
	snd, err := Open(t.Context(), to)
	require.NoError(t, err)
	defer snd.Close()
	stats := snd.Run(t.Context(), requestsOf(8, 4))
	require.EqualValues(t, 8, stats.Lag.N)
	require.Positive(t, stats.Lag.Quantile(1), "each event waited to be read")
	require.True(t, snd.(*loops).loops[0].arrivals.unstamped)
}

// Bytes that the kernel says came at an impossible time have the time of their reading.
func TestArrivalBeyondBelief(t *testing.T) {
	for _, tt := range []struct {
		unix, want int64
		byKernel   bool
	}{
		{1060, 60, true},
		{1040, 100, false}, // before the request
		{1101, 100, false}, // not yet
		{0, 100, false},    // not said
	} {
		a := arrivals{fromUnix: -1000, aligned: true, since: 90}
		at, byKernel := a.of(tt.unix, 50, 100)
		require.Equal(t, tt.want, at)
		require.Equal(t, tt.byKernel, byKernel)
		require.Equal(t, tt.unix == 0, a.unstamped)
	}
	stepped := arrivals{fromUnix: -1000}
	at, byKernel := stepped.of(1060, 50, 100)
	require.EqualValues(t, 100, at)
	require.False(t, byKernel)
}

// The lag of an event is at least how late its time can be.
func TestLag(t *testing.T) {
	const ms = int64(time.Millisecond)
	for name, tt := range map[string]struct {
		slept        bool
		stamp        int64 // of the last byte, by the clock of the load; 0 is none
		read, events int64
		want         int64 // the longest lag
	}{
		"one event, by the kernel":                    {false, 31 * ms, 32 * ms, 1, 0},
		"one event, by its reading":                   {false, 0, 32 * ms, 1, 32 * ms},
		"one event, by its reading, after a sleep":    {true, 0, 32 * ms, 1, 2 * ms},
		"two events, by the kernel":                   {false, 31 * ms, 32 * ms, 2, 31 * ms},
		"two events, by the kernel, after a sleep":    {true, 31 * ms, 32 * ms, 2, ms},
		"two events, while the thread woke late":      {true, 25 * ms, 32 * ms, 2, 0},
		"two events by their reading, after a sleep":  {true, 0, 32 * ms, 2, 2 * ms},
		"three events by their reading, busy":         {false, 0, 40 * ms, 3, 40 * ms},
		"no event, such as the head of an answer":     {false, 0, 40 * ms, 0, 0},
		"a document by its reading, counted as one":   {true, 0, 40 * ms, 1, 10 * ms},
		"the last look began long before: not slept":  {false, 0, 30 * ms, 1, 30 * ms},
		"read at once after a sleep, not by a kernel": {true, 0, 30 * ms, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			a := arrivals{} // the last look began at 0
			a.look(func() int64 { return 30 * ms }, tt.slept)
			unix := int64(0)
			if tt.stamp != 0 {
				unix = tt.stamp - a.fromUnix
			}
			at, byKernel := a.of(unix, 0, tt.read)
			a.add(int(tt.events), at, byKernel)
			var lag Spread
			a.count(&lag)
			require.EqualValues(t, tt.events, lag.N)
			require.GreaterOrEqual(t, lag.Quantile(1), tt.want)
			require.LessOrEqual(t, lag.Quantile(1), tt.want+tt.want/8+1)
		})
	}
}

// A step of the system's clock, and a pause between two readings, make the kernel's times useless
// for one look.
func TestClocksThatDoNotAgree(t *testing.T) {
	var a arrivals
	now := int64(5e9)
	steady := func() int64 { return now }
	a.look(steady, false)
	require.True(t, a.aligned)
	now += 60_000_000_000 // the system's clock stays behind
	a.look(steady, false)
	require.False(t, a.aligned)
	a.look(steady, false)
	require.True(t, a.aligned)
	a.look(func() int64 { now += 2 * readingLimit; return now }, false)
	require.False(t, a.aligned)
}
