package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Peers is one process of a server over several nodes. The processes meet at the address of the
// first; what they say there is understood by this package only.
type Peers struct {
	Address  string            // host:port of the first process
	Own      []int             // the ranks that this process brings; nil: it is the first
	Expected []int             // the ranks that the first waits for, each once
	Patience time.Duration     // how long a process waits for the others; 0: without a limit
	Waiting  func(missing int) // called now and then by the first while it waits
}

// ErrFirstGone is why the context of a process ended with the first.
var ErrFirstGone = errors.New("the first process is gone")

// A MissingError says that not all processes came.
type MissingError struct {
	Joined int // ranks that the first heard of
	Err    error
}

func (e *MissingError) Error() string { return e.Err.Error() }
func (e *MissingError) Unwrap() error { return e.Err }

// A StrangerError says that the first heard of a rank that is not expected, or is there already.
type StrangerError struct {
	Rank int // -1 where it is no number
	From string
	Err  error
}

func (e *StrangerError) Error() string {
	return fmt.Sprintf("rank %d from %s: %v", e.Rank, e.From, e.Err)
}

// waitingEvery is how often vLLM says that it waits (STARTUP_POLL_PERIOD_MS of v1/engine/utils.py,
// 0.32).
const waitingEvery = 10 * time.Second

// Meet waits until all processes are there. The context that it returns ends with ctx, and in
// every process but the first also with the first. The caller calls end when it ends itself.
func (m Peers) Meet(ctx context.Context) (joined context.Context, end func(), err error) {
	limit, cancel := ctx, func() {}
	if m.Patience > 0 {
		limit, cancel = context.WithTimeout(ctx, m.Patience)
	}
	defer cancel()
	if m.Own != nil {
		return m.join(ctx, limit)
	}
	l, err := net.Listen("tcp", m.Address)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(limit, func() { l.Close() })()
	var left atomic.Int32
	left.Store(int32(len(m.Expected)))
	defer m.remind(limit, &left)()
	var conns []net.Conn
	end = func() {
		l.Close()
		for _, c := range conns {
			c.Close()
		}
	}
	missing := slices.Clone(m.Expected)
	for len(missing) > 0 {
		conn, err := l.Accept()
		if err != nil {
			end()
			return nil, nil, &MissingError{len(m.Expected) - len(missing), err}
		}
		conns = append(conns, conn)
		ranks, err := announced(conn)
		for _, rank := range ranks {
			i := slices.Index(missing, rank)
			if i < 0 {
				end()
				return nil, nil, &StrangerError{rank, conn.RemoteAddr().String(), err}
			}
			missing = slices.Delete(missing, i, i+1)
			left.Store(int32(len(missing)))
		}
	}
	return ctx, end, nil
}

// remind calls Waiting every so often, until limit or the function that it returns.
func (m Peers) remind(limit context.Context, left *atomic.Int32) (stop func()) {
	ctx, cancel := context.WithCancel(limit)
	if m.Waiting != nil {
		go func() {
			for program.Wait(ctx, waitingEvery) {
				m.Waiting(int(left.Load()))
			}
		}()
	}
	return cancel
}

// announced reads the ranks of a process; -1, which nobody expects, for what is no number.
func announced(conn net.Conn) ([]int, error) {
	const longest = 1 << 12
	conn.SetReadDeadline(time.Now().Add(handshakeTimeout))
	line, err := bufio.NewReader(io.LimitReader(conn, longest)).ReadString('\n')
	if err != nil {
		return []int{-1}, err
	}
	var ranks []int
	for word := range strings.FieldsSeq(line) {
		rank, err := strconv.Atoi(word)
		if err != nil {
			return []int{-1}, err
		}
		ranks = append(ranks, rank)
	}
	return ranks, nil
}

// join connects to the first process, which may start later.
func (m Peers) join(ctx, limit context.Context) (context.Context, func(), error) {
	var d net.Dialer
	for {
		conn, err := d.DialContext(limit, "tcp", m.Address)
		if err == nil {
			fmt.Fprintln(conn, strings.Trim(fmt.Sprint(m.Own), "[]"))
			joined, cancel := context.WithCancelCause(ctx)
			go func() {
				io.Copy(io.Discard, conn) // the first says nothing until it ends
				cancel(ErrFirstGone)
			}()
			return joined, func() { conn.Close() }, nil
		}
		if !program.Wait(limit, 200*time.Millisecond) {
			return nil, nil, &MissingError{Err: err}
		}
	}
}

// Absent reports whether this process is the rank that is planted never to join the others.
func Absent(p program.Process, log *Logger, k knobs.Settings) bool {
	if k.Planted.Absent == "" || k.Planted.Absent != p.Env("SLURM_PROCID") {
		return false
	}
	log.Info("rank %s never joins the others (planted)", k.Planted.Absent)
	return true
}
