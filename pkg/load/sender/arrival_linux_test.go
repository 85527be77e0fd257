package sender

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

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

// Bytes that the kernel says came at an impossible time have the time of their reading.
func TestArrivalBeyondBelief(t *testing.T) {
	l, now := &loop{}, int64(100)
	l.load = requestsOf(8, 1)
	l.load.Clock = func() int64 { return now }
	o := &l.load.Outcomes[0]
	o.Start = 50
	for _, tt := range []struct {
		unix, want int64
		late       bool
	}{
		{1060, 60, false},
		{1040, 100, true}, // before the request
		{1101, 100, true}, // not yet
		{0, 100, true},    // not said
	} {
		l.fromUnix, l.late, o.Tokens = -1000, false, nil
		c := &link{}
		c.answer.ResetBody(o, answer.Wanted{Tokens: 2})
		at, over, err := l.take(c, []byte(answertest.TokenEvent), tt.unix)
		require.NoError(t, err)
		require.False(t, over)
		require.Equal(t, tt.want, at)
		require.Equal(t, []int64{tt.want}, o.Tokens)
		require.Equal(t, tt.late, l.late)
		require.Equal(t, tt.unix == 0, l.unstamped)
	}
}
