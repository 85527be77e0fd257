package workers

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/sender"
)

// A prompt sender answers each of its requests at once, in its own time.
type prompt struct{ gone bool }

func (*prompt) Connect(context.Context, int, func() int64) {}
func (*prompt) Close()                                     {}

func (p *prompt) Run(_ context.Context, load *sender.Load) sender.Stats {
	for i := range load.Outcomes {
		if !load.Mine(i) || p.gone {
			continue
		}
		o := &load.Outcomes[i]
		o.State, o.Start, o.Tokens = answer.Completed, o.Due+1, []int64{o.Due + 2, o.Due + 3}
		load.Ended.Add(1, o.Due+3)
	}
	var s sender.Stats
	s.Loops = 1
	s.Lag.Add(7)
	return s
}

// clockFrom returns a clock that began a while ago.
func clockFrom(ago time.Duration) func() int64 {
	origin := time.Now().Add(-ago)
	return func() int64 { return int64(time.Since(origin)) }
}

func loadOf(n int, clock func() int64) *sender.Load {
	l := &sender.Load{Outcomes: make([]answer.Outcome, n), Limit: 5, Clock: clock}
	for i := range l.Outcomes {
		l.Outcomes[i].Due = int64(i) * 10
	}
	return l
}

func TestLoadOfSeveral(t *testing.T) {
	const ranks, n = 4, 1000
	file := filepath.Join(t.TempDir(), "rendezvous.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"addresses":["127.0.0.1:1"],"secret":"`+newSecret()+`"}`), 0o600))
	done := make(chan error, ranks)
	for rank := 1; rank < ranks; rank++ {
		go func() {
			w, err := Join(t.Context(), file, rank, ranks, "options")
			if err == nil && w.Word != "word" {
				err = io.ErrUnexpectedEOF
			}
			if err == nil {
				load := loadOf(n, clockFrom(time.Duration(rank)*time.Hour))
				Take(load, rank, ranks)
				err = w.Work(t.Context(), &prompt{}, load, "requests")
			}
			done <- err
		}()
	}
	clock := clockFrom(time.Minute)
	c, err := Meet(file, ranks, true, "options", "word", clock)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Gather(t.Context(), "requests"))
	snd := c.Share(&prompt{}, func(err error) { t.Error(err) })
	load := loadOf(n, clock)
	now := clock()
	for i := range load.Outcomes {
		load.Outcomes[i].Due += now
	}
	snd.Connect(t.Context(), 8, clock)
	stats := snd.Run(t.Context(), load)
	for range ranks - 1 {
		require.NoError(t, <-done)
	}
	require.EqualValues(t, n, load.Ended.N.Load())
	require.Equal(t, ranks, stats.Loops)
	require.EqualValues(t, ranks, stats.Lag.N)
	for i := range load.Outcomes {
		o := &load.Outcomes[i]
		due := now + int64(i)*10
		require.Equal(t, answer.Completed, o.State)
		require.InDelta(t, due, o.Due, float64(c.ClockError())+1, "by the clock of the first process")
		require.Equal(t, o.Due+1, o.Start)
		require.Equal(t, []int64{o.Due + 2, o.Due + 3}, o.Tokens)
	}
}

// Whoever does not know the secret is not listened to, and holds up nobody; whoever does not fit ends
// the load.
func TestWhoMayJoin(t *testing.T) {
	for want, h := range map[string]hello{
		"joins a load of 3 processes":   {1, 2, "options"},
		"client process 0 of 3":         {0, 3, "options"},
		"client process 3 of 3":         {3, 3, "options"},
		"has other options":             {1, 3, "others"},
		"two client processes are numb": {1, 3, "options"},
	} {
		t.Run(want, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rendezvous.json")
			c, err := Meet(file, 3, true, "options", "", clockFrom(0))
			require.NoError(t, err)
			defer c.Close()
			for _, says := range []string{strings.Repeat("x", 4*secretBytes), ""} {
				stranger, err := net.Dial("tcp", c.meeting.Addresses[0])
				require.NoError(t, err)
				defer stranger.Close()
				_, err = stranger.Write([]byte(says))
				require.NoError(t, err)
			}
			ended := make(chan error)
			go func() { ended <- c.Gather(t.Context(), "requests") }()
			for range 2 {
				w, err := join(t.Context(), file, h)
				if err != nil {
					break // the load has ended
				}
				defer w.Close()
			}
			require.ErrorContains(t, <-ended, want)
		})
	}
}

// A process tells nothing to a program that listens where a coordinator did.
func TestFormerAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	file := filepath.Join(t.TempDir(), "rendezvous.json")
	m := meeting{[]string{l.Addr().String()}, newSecret(), ""}
	require.NoError(t, m.write(file))
	heard := make(chan []byte)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write(make([]byte, 2*secretBytes))
		conn.(*net.TCPConn).CloseWrite()
		all, _ := io.ReadAll(conn)
		heard <- all
	}()
	_, err = join(t.Context(), file, hello{1, 2, ""})
	require.ErrorIs(t, err, errStranger)
	require.NotContains(t, string(<-heard), m.Secret)
}

// A process whose files differ would send another load.
func TestOtherRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rendezvous.json")
	c, err := Meet(file, 2, true, "options", "", clockFrom(0))
	require.NoError(t, err)
	defer c.Close()
	go func() {
		if w, err := Join(t.Context(), file, 1, 2, "options"); err == nil {
			w.Work(t.Context(), &prompt{}, loadOf(3, clockFrom(0)), "others")
		}
	}()
	require.ErrorContains(t, c.Gather(t.Context(), "requests"), "client process 1 made other requests")
}

// A result in the place of the rendezvous file stays, and so does nothing that others may read.
func TestRendezvousFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"duration":1}`), 0o644))
	_, err := Meet(file, 2, true, "", "", clockFrom(0))
	require.ErrorContains(t, err, "--rendezvous")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, `{"duration":1}`, string(text))

	require.NoError(t, os.WriteFile(file, []byte(`{"addresses":[]}`), 0o644))
	c, err := Meet(file, 2, true, "", "", clockFrom(0))
	require.NoError(t, err)
	defer c.Close()
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode().Perm())
}

func TestGatherCanBeInterrupted(t *testing.T) {
	c, err := Meet(filepath.Join(t.TempDir(), "r"), 2, true, "", "", clockFrom(0))
	require.NoError(t, err)
	defer c.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	require.ErrorIs(t, c.Gather(ctx, "requests"), io.ErrClosedPipe)
}

// A process that fails says why, and one that vanishes is noticed.
func TestProcessesThatFail(t *testing.T) {
	for want, act := range map[string]func(w *Worker){
		"client process 1: no prompts": func(w *Worker) { w.Fail(errors.New("no prompts")) },
		"client process 1 is gone":     func(w *Worker) { w.Close() },
	} {
		t.Run(want, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "r")
			c, err := Meet(file, 2, true, "", "", clockFrom(0))
			require.NoError(t, err)
			defer c.Close()
			acted := make(chan struct{})
			go func() {
				defer close(acted)
				if w, err := Join(t.Context(), file, 1, 2, ""); err == nil {
					act(w)
				}
			}()
			require.ErrorContains(t, c.Gather(t.Context(), "requests"), want)
			c.Close()
			<-acted
		})
	}
}

// Processes on other machines are told every address, those on this one its own.
func TestAddresses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r")
	for _, local := range []bool{true, false} {
		c, err := Meet(file, 2, local, "", "", clockFrom(0))
		require.NoError(t, err)
		defer c.Close()
		require.NotEmpty(t, c.meeting.Addresses)
		for _, a := range c.meeting.Addresses {
			conn, err := net.Dial("tcp", a)
			require.NoError(t, err)
			conn.Close()
		}
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.EqualValues(t, 0o600, info.Mode().Perm(), "it holds a secret")
	}
}

// Shares add up, and nobody with a place in flight is without requests.
func TestShares(t *testing.T) {
	for _, tt := range []struct{ places, ranks, requests int }{{7, 3, 50}, {3, 3, 3}, {1 << 62, 4, 1001}, {5, 1, 9}} {
		places, requests := 0, 0
		for rank := range tt.ranks {
			l := &sender.Load{Limit: tt.places}
			Take(l, rank, tt.ranks)
			mine := 0
			for i := range tt.requests {
				if l.Mine(i) {
					mine++
				}
			}
			require.Positive(t, mine)
			require.Positive(t, l.Limit)
			places, requests = places+l.Limit, requests+mine
		}
		require.Equal(t, tt.places, places)
		require.Equal(t, tt.requests, requests)
	}
}

func FuzzMeeting(f *testing.F) {
	f.Add([]byte(`{"addresses":["127.0.0.1:1"],"secret":"x","word":"w"}`))
	f.Add([]byte("\x00"))
	file := filepath.Join(f.TempDir(), "r")
	f.Fuzz(func(t *testing.T, raw []byte) {
		require.NoError(t, os.WriteFile(file, raw, 0o600))
		if m, err := readMeeting(file); err == nil {
			require.NotNil(t, m)
		}
	})
}

// What a stranger sends is neither decoded nor waited for longer than it takes to be sent.
func FuzzWelcome(f *testing.F) {
	f.Add([]byte("x"))
	f.Add([]byte(strings.Repeat("0", 2*secretBytes) + "\x07\xff\x81"))
	f.Add(make([]byte, secretBytes))
	f.Fuzz(func(t *testing.T, raw []byte) {
		here, there := net.Pipe()
		go io.Copy(io.Discard, there)
		go func() {
			there.Write(raw)
			there.Close()
		}()
		_, err := newLine(here).welcome(newSecret())
		require.Error(t, err)
		here.Close()
	})
}
