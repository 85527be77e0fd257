package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/sender"
)

// A Worker is a process that sends a share of a load.
type Worker struct {
	*line
	Word string // from the coordinator
}

// joinPause is the time between two looks at the rendezvous file.
const joinPause = 100 * time.Millisecond

// Join connects to the coordinator that file names. It waits for the file, and as long as nobody
// listens where it says: it may be that of an earlier run.
func Join(ctx context.Context, file string, rank, ranks int, options string) (*Worker, error) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	for {
		w, err := join(ctx, file, hello{rank, ranks, options})
		if err == nil {
			return w, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("join the first client process: %w", err)
		case <-time.After(joinPause):
		}
	}
}

func join(ctx context.Context, file string, h hello) (*Worker, error) {
	m, err := readMeeting(file)
	if err != nil {
		return nil, err
	}
	if len(m.Secret) != 2*secretBytes {
		return nil, fmt.Errorf("%s is no rendezvous file", file)
	}
	err = fmt.Errorf("%s names no address", file)
	for _, address := range m.Addresses {
		d := net.Dialer{Timeout: time.Second}
		conn, e := d.DialContext(ctx, "tcp", address)
		if e != nil {
			err = e
			continue
		}
		w := &Worker{newLine(conn), m.Word}
		if err = w.greet(m.Secret, h); err == nil {
			return w, nil
		}
		conn.Close()
	}
	return nil, err
}

// Fail tells the coordinator why this process cannot take part, and waits until it has heard.
func (w *Worker) Fail(why error) {
	defer w.Close()
	if w.out.Encode(report{Problem: why.Error()}) == nil { // else it sees that the connection ends
		w.SetReadDeadline(time.Now().Add(greetLimit))
		io.Copy(io.Discard, w.Conn)
	}
}

// errAlone ends a load whose coordinator is gone.
var errAlone = errors.New("the first client process is gone")

// Work follows the orders of the coordinator until it has sent what came of the load. The
// requests of load are due as far apart as their times say. requests are a digest of them.
func (w *Worker) Work(ctx context.Context, snd sender.Sender, load *sender.Load, requests string) error {
	defer w.Close()
	keepOpen := context.AfterFunc(ctx, func() { w.Close() }) // stops the function
	defer keepOpen()
	for {
		var o order
		if err := w.in.Decode(&o); err != nil {
			return cmp.Or(context.Cause(ctx), fmt.Errorf("%w: %w", errAlone, err))
		}
		switch o.Kind {
		case connect:
			snd.Connect(ctx, o.Streams, load.Clock)
		case start:
			keepOpen() // what an interrupted load has measured is sent
			return w.run(ctx, snd, load, o.First)
		case stop:
			return nil
		}
		if err := w.out.Encode(report{Clock: load.Clock(), Requests: requests}); err != nil {
			return cmp.Or(context.Cause(ctx), fmt.Errorf("%w: %w", errAlone, err))
		}
	}
}

// progressPause is the time between two reports of how far a load is.
const progressPause = time.Second

// run sends the load, and then what came of it.
func (w *Worker) run(ctx context.Context, snd sender.Sender, load *sender.Load, first int64) error {
	shift := first - load.Outcomes[0].Due
	for i := range load.Scheduled() {
		load.Outcomes[i].Due += shift
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // the next order, if any, is to stop; so is the end of the connection
		var o order
		if err := w.in.Decode(&o); err != nil {
			cancel(errAlone)
			return
		}
		cancel(errStopped)
	}()
	var stats sender.Stats
	cpu := sender.CPUTime()
	over := make(chan struct{})
	go func() {
		defer close(over)
		stats = snd.Run(running, load)
	}()
	tick := time.NewTicker(progressPause)
	defer tick.Stop()
	for going := true; going; {
		select {
		case <-over:
			going = false
		case <-tick.C:
			if w.out.Encode(report{Ended: load.Ended.N.Load(), Last: load.Ended.Last.Load()}) != nil {
				cancel(errAlone)
			}
		}
	}
	if errors.Is(context.Cause(running), errAlone) {
		return errAlone
	}
	err := w.deliver(load, report{Over: true, Stats: stats, CPU: sender.CPUTime() - cpu})
	return errors.Join(context.Cause(ctx), err)
}

var errStopped = errors.New("the first client process stopped the load")

// deliveryPart is how many outcomes are sent at a time.
const deliveryPart = 256

// deliver sends the outcomes of all requests that were sent or decided, then last.
func (w *Worker) deliver(load *sender.Load, last report) error {
	var r report
	send := func() error {
		r.Ended, r.Last = load.Ended.N.Load(), load.Ended.Last.Load()
		err := w.out.Encode(r)
		r = report{}
		return err
	}
	for i := range load.Outcomes {
		if load.Outcomes[i].State == answer.Unsent {
			continue
		}
		r.Indices, r.Outcomes = append(r.Indices, i), append(r.Outcomes, load.Outcomes[i])
		if len(r.Indices) == deliveryPart {
			if err := send(); err != nil {
				return fmt.Errorf("send what was measured: %w", err)
			}
		}
	}
	if err := send(); err != nil {
		return fmt.Errorf("send what was measured: %w", err)
	}
	last.Ended, last.Last = load.Ended.N.Load(), load.Ended.Last.Load()
	if err := w.out.Encode(last); err != nil {
		return fmt.Errorf("send what was measured: %w", err)
	}
	return nil
}
