package workers

import (
	"context"
	"fmt"
	"math"
	"net"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/load/sender"
)

// joinLimit is how long processes may take to join and to make their requests ready.
const joinLimit = 10 * time.Minute

// stopLimit is how long a process may take to send what it has measured, once it is told to stop.
const stopLimit = 30 * time.Second

// A Coordinator leads the processes that share a load, and is the first of them.
type Coordinator struct {
	listener net.Listener
	meeting  meeting
	ranks    int
	options  string
	clock    func() int64
	peers    []*peer // the others, by rank - 1
	cpu      time.Duration
}

// A peer is another process.
type peer struct {
	*line
	rank       int
	offset     int64 // what makes its clock this one's, in ns
	clockError int64 // how far that may be off
	reports    chan report
	lost       error // why reports has ended
}

// Meet listens for ranks-1 other processes, and says in file where; they get word with it.
// local is for processes on this machine only. options are the load, as a digest: a process with
// others is refused.
func Meet(file string, ranks int, local bool, options, word string, clock func() int64) (*Coordinator, error) {
	host := ""
	if local {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for other client processes: %w", err)
	}
	c := &Coordinator{listener: l, ranks: ranks, options: options, clock: clock, peers: make([]*peer, ranks-1),
		meeting: meeting{addresses(l, local), newSecret(), word}}
	if err := c.meeting.write(file); err != nil {
		l.Close()
		return nil, fmt.Errorf("tell other client processes where to connect: %w", err)
	}
	return c, nil
}

// addresses returns where other processes reach l.
func addresses(l net.Listener, local bool) []string {
	_, port, _ := net.SplitHostPort(l.Addr().String()) // a listener's address has both
	if local {
		return []string{net.JoinHostPort("127.0.0.1", port)}
	}
	var out []string
	all, _ := net.InterfaceAddrs() // without any, nobody joins, and Gather says so
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			out = append(out, net.JoinHostPort(ip.IP.String(), port))
		}
	}
	return append(out, net.JoinHostPort("127.0.0.1", port)) // all may be on this machine
}

// Gather waits until every other process has joined and made its requests ready. requests are those
// of this one, as a digest: a process that made others is refused.
func (c *Coordinator) Gather(ctx context.Context, requests string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, joinLimit, fmt.Errorf("not all joined within %s", joinLimit))
	defer cancel()
	arrived := make(chan arrival)
	go c.receive(ctx, arrived)
	defer c.listener.Close()
	for missing := c.ranks - 1; missing > 0; missing-- {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %d of %d client processes: %w", missing, c.ranks, context.Cause(ctx))
		case a := <-arrived:
			if a.err != nil {
				return fmt.Errorf("wait for %d of %d client processes: %w", missing, c.ranks, a.err)
			}
			if err := c.admit(a); err != nil {
				a.Close()
				return err
			}
		}
	}
	for _, p := range c.peers {
		if err := p.compare(ctx, c.clock, requests); err != nil {
			return err
		}
	}
	return nil
}

// An arrival is a process that knows the secret, or why no more will come.
type arrival struct {
	*line
	hello
	err error
}

// receive greets whoever connects, until ctx is done or the listener closed. Strangers are sent away.
func (c *Coordinator) receive(ctx context.Context, arrived chan<- arrival) {
	tell := func(a arrival) {
		select {
		case arrived <- a:
		case <-ctx.Done():
			if a.line != nil {
				a.Close()
			}
		}
	}
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			tell(arrival{err: err})
			return
		}
		go func() {
			l := newLine(conn)
			if h, err := l.welcome(c.meeting.Secret); err != nil {
				l.Close()
			} else {
				tell(arrival{l, h, nil})
			}
		}()
	}
}

func (c *Coordinator) admit(a arrival) error {
	switch {
	case a.Ranks != c.ranks || a.Rank < 1 || a.Rank >= c.ranks:
		return fmt.Errorf("client process %d of %d joins a load of %d processes", a.Rank, a.Ranks, c.ranks)
	case a.Options != c.options:
		return fmt.Errorf("client process %d has other options than the first", a.Rank)
	case c.peers[a.Rank-1] != nil:
		return fmt.Errorf("two client processes are number %d of %d", a.Rank, c.ranks)
	}
	p := &peer{line: a.line, rank: a.Rank, reports: make(chan report, 1)}
	c.peers[p.rank-1] = p
	go p.listen()
	return nil
}

// listen hands on the reports of a process until its connection ends.
func (p *peer) listen() {
	for {
		var r report
		if err := p.in.Decode(&r); err != nil {
			p.lost = fmt.Errorf("client process %d is gone: %w", p.rank, err)
			close(p.reports)
			return
		}
		p.reports <- r
	}
}

// ask sends an order and returns the report that answers it.
func (p *peer) ask(ctx context.Context, o order) (report, error) {
	if p.out.Encode(o) != nil {
		return report{}, p.farewell()
	}
	return p.next(ctx)
}

// farewell returns why a process is gone: what it said last, or how its connection ended.
func (p *peer) farewell() error {
	for r := range p.reports {
		if r.Problem != "" {
			return fmt.Errorf("client process %d: %s", p.rank, r.Problem)
		}
	}
	return p.lost
}

func (p *peer) next(ctx context.Context) (report, error) {
	select {
	case <-ctx.Done():
		return report{}, context.Cause(ctx)
	case r, ok := <-p.reports:
		switch {
		case !ok:
			return report{}, p.lost
		case r.Problem != "":
			return report{}, fmt.Errorf("client process %d: %s", p.rank, r.Problem)
		}
		return r, nil
	}
}

// comparisons is how often two clocks are compared; the fastest exchange counts.
const comparisons = 16

// compare finds how far the clock of a process is from this one's, and whether its requests are the
// same.
func (p *peer) compare(ctx context.Context, clock func() int64, requests string) error {
	p.clockError = math.MaxInt64
	for range comparisons {
		asked := clock()
		r, err := p.ask(ctx, order{Kind: tellTime})
		if err != nil {
			return err
		}
		got := clock()
		if r.Requests != requests {
			return fmt.Errorf("client process %d made other requests than the first from the same options: "+
				"its files, its tokenizer or the server's answers to it differ", p.rank)
		}
		if e := (got - asked) / 2; e < p.clockError {
			p.offset, p.clockError = asked+e-r.Clock, e
		}
	}
	return nil
}

// ClockError returns how far the clock of another process, as this one's, was off at most before the
// load.
func (c *Coordinator) ClockError() time.Duration {
	var worst int64
	for _, p := range c.peers {
		worst = max(worst, p.clockError)
	}
	return time.Duration(worst)
}

// CPU returns the processor time that the other processes used for the load.
func (c *Coordinator) CPU() time.Duration { return c.cpu }

// Close lets the other processes go.
func (c *Coordinator) Close() {
	c.listener.Close()
	for _, p := range c.peers {
		if p != nil {
			p.Close()
		}
	}
}

// Share returns a sender that shares loads between own and the other processes. lost is called
// if one of these is lost, and then ends the context of the load.
func (c *Coordinator) Share(own sender.Sender, lost context.CancelCauseFunc) sender.Sender {
	return &shared{Sender: own, Coordinator: c, lost: lost}
}

type shared struct {
	sender.Sender // own
	*Coordinator
	lost context.CancelCauseFunc
}

func (s *shared) Close() { s.Sender.Close() }

func (s *shared) Connect(ctx context.Context, n int, clock func() int64) {
	var wg sync.WaitGroup
	for _, p := range s.peers {
		wg.Go(func() {
			if _, err := p.ask(ctx, order{Kind: connect, Streams: sender.Part(n, p.rank, s.ranks)}); err != nil {
				s.lost(err)
			}
		})
	}
	s.Sender.Connect(ctx, sender.Part(n, 0, s.ranks), clock)
	wg.Wait()
}

func (s *shared) Run(ctx context.Context, load *sender.Load) sender.Stats {
	stats := make([]sender.Stats, s.ranks)
	cpu := make([]time.Duration, s.ranks)
	var wg sync.WaitGroup
	for _, p := range s.peers {
		wg.Go(func() {
			var err error
			if stats[p.rank], cpu[p.rank], err = p.run(ctx, load); err != nil {
				s.lost(err)
			}
		})
	}
	Take(load, 0, s.ranks)
	stats[0] = s.Sender.Run(ctx, load)
	wg.Wait()
	for k := 1; k < s.ranks; k++ {
		stats[0].Add(&stats[k])
		s.cpu += cpu[k]
	}
	return stats[0]
}

// run lets a process send its share of load, and takes over what comes of it.
func (p *peer) run(ctx context.Context, load *sender.Load) (stats sender.Stats, cpu time.Duration, err error) {
	if p.out.Encode(order{Kind: start, First: load.Outcomes[0].Due - p.offset}) != nil {
		return stats, 0, p.farewell()
	}
	patience, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(ctx, func() {
		p.out.Encode(order{Kind: stop}) // if it is gone, so are its reports
		time.AfterFunc(stopLimit, end)
	})()
	var ended int64
	for {
		r, err := p.next(patience)
		if err != nil {
			return stats, 0, err
		}
		load.Ended.Add(r.Ended-ended, r.Last+p.offset)
		ended = max(ended, r.Ended)
		if err := p.takeOver(load, &r); err != nil {
			return stats, 0, err
		}
		if r.Over {
			return r.Stats, r.CPU, nil
		}
	}
}

// takeOver writes outcomes with times by this process's clock.
func (p *peer) takeOver(load *sender.Load, r *report) error {
	if len(r.Indices) != len(r.Outcomes) {
		return fmt.Errorf("client process %d reports %d requests and %d outcomes", p.rank, len(r.Indices),
			len(r.Outcomes))
	}
	for k, i := range r.Indices {
		if i < 0 || i >= len(load.Outcomes) {
			return fmt.Errorf("client process %d reports request %d of %d", p.rank, i, len(load.Outcomes))
		}
		o := r.Outcomes[k]
		for _, at := range []*int64{&o.Due, &o.Ready, &o.Start, &o.End} {
			if *at != 0 {
				*at += p.offset
			}
		}
		for t := range o.Tokens {
			o.Tokens[t] += p.offset
		}
		load.Outcomes[i] = o
	}
	return nil
}

// Take leaves of a load what one of several processes sends: the places in flight are dealt to the
// processes in turn, and the requests to the places, so that a process with one place more sends
// more.
func Take(load *sender.Load, rank, ranks int) {
	places := load.Limit
	load.Mine = func(i int) bool { return i%places%ranks == rank }
	load.Limit = sender.Part(places, rank, ranks)
}
