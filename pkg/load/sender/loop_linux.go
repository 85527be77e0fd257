package sender

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
)

// HaveLoop says whether this system has an event loop of ours.
const HaveLoop = true

// loops shares the requests of a load between event loops.
type loops struct {
	loops []*loop
}

// newLoops resolves the server's address once and makes as many loops as the streams need, as
// far as there are processors.
func newLoops(ctx context.Context, t *Target) (Sender, error) {
	u := t.URL
	port := u.Port()
	if port == "" {
		port = "80"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("port of %s: %w", u.Redacted(), err)
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil, fmt.Errorf("resolve the server: %w", err)
	}
	addr := reachable(ctx, addrs, uint16(number))
	perLoop := cmp.Or(t.PerLoop, streamsPerLoop)
	n := max(1, min(runtime.GOMAXPROCS(0), (t.Streams+perLoop-1)/perLoop))
	ls := &loops{}
	for range n {
		l, err := newLoop(addr, t, requestHead(t, u.RequestURI()))
		if err != nil {
			ls.Close()
			return nil, err
		}
		ls.loops = append(ls.loops, l)
	}
	return ls, nil
}

// probeLimit is how long an address may take to accept a connection before the next one is tried.
const probeLimit = time.Second

// reachable returns the first address that accepts a connection, as "localhost" may have two
// and the server listen on one. If none does, or there is only one, it returns the first, IPv4
// before IPv6 like vLLM's default host.
func reachable(ctx context.Context, addrs []netip.Addr, port uint16) netip.AddrPort {
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	d := net.Dialer{Timeout: probeLimit}
	for _, a := range addrs {
		if len(addrs) == 1 {
			break // no choice
		}
		if c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, port).String()); err == nil {
			c.Close()
			return netip.AddrPortFrom(a, port)
		}
	}
	return netip.AddrPortFrom(addrs[0], port)
}

func (ls *loops) Connect(ctx context.Context, n int, clock func() int64) {
	var wg sync.WaitGroup
	for k, l := range ls.loops {
		wg.Go(func() { l.connect(ctx, Part(n, k, len(ls.loops)), clock) })
	}
	wg.Wait()
}

func (ls *loops) Run(ctx context.Context, load *Load) Stats {
	feed := newFeeder(load)
	used := ls.loops[:min(len(ls.loops), load.Limit)] // every loop needs a slot
	stats := make([]Stats, len(used))
	var wg sync.WaitGroup
	for k, l := range used {
		wg.Go(func() { stats[k] = l.run(ctx, feed, Part(load.Limit, k, len(used))) })
	}
	wg.Wait()
	var all Stats
	for i := range stats {
		all.Add(&stats[i])
	}
	return all
}

func (ls *loops) Close() {
	for _, l := range ls.loops {
		l.close()
	}
}

// CPUTime returns the processor time this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A loop sends and reads on many connections from one goroutine: a ready connection costs one
// read, without the read that finds nothing and the goroutine switch that a goroutine per
// connection costs.
type loop struct {
	*poller
	addr   syscall.Sockaddr
	family int
	head   []byte // of every request
	form   answer.Form

	byReading bool // the kernel is not asked when bytes arrive

	links   []*link // by descriptor
	idle    []*link // the last one was used last
	opening int
	waiting []int // requests that wait for a connection
	inbox   *inbox
	out     []byte
	body    []byte

	load     *Load
	feed     *feeder
	slots    int
	inFlight int   // requests in flight, and chains between two of them
	later    []int // requests that follow others, by when they are due; the first is the last one
	full     bool  // no slot was free at the last look
	freed    int64 // when a slot became free after that
	stats    Stats
	swept    int64

	arrivals arrivals
}

func newLoop(addr netip.AddrPort, t *Target, head []byte) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &loop{poller: p, head: head, form: t.Form, byReading: t.ByReading, inbox: newInbox(), family: syscall.AF_INET}
	if ip := addr.Addr(); ip.Is4() {
		l.addr = &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: ip.As4()}
	} else {
		zone := 0
		if i, err := net.InterfaceByName(ip.Zone()); err == nil {
			zone = i.Index
		}
		l.family = syscall.AF_INET6
		l.addr = &syscall.SockaddrInet6{Port: int(addr.Port()), Addr: ip.As16(), ZoneId: uint32(zone)}
	}
	return l, nil
}

func (l *loop) close() {
	for _, c := range l.links {
		if c != nil {
			syscall.Close(c.fd)
		}
	}
	l.links, l.idle = nil, nil
	l.poller.close()
}

// connect opens connections until n are idle, and gives up on those that cannot be opened.
func (l *loop) connect(ctx context.Context, n int, clock func() int64) {
	defer l.interruptible(ctx)()
	l.load = &Load{Clock: clock}
	limit := clock() + int64(ConnectLimit)
	for range n - len(l.idle) {
		if l.dial() != nil {
			break
		}
	}
	for l.opening > 0 && ctx.Err() == nil && clock() < limit {
		now := clock()
		l.arm(math.MaxInt64, now)
		l.wait(true)
		for _, e := range l.ready() {
			l.handle(e)
		}
	}
}

// run sends requests from feed, at most slots at a time, until none is left and all answers
// have ended.
func (l *loop) run(ctx context.Context, feed *feeder, slots int) Stats {
	defer l.interruptible(ctx)()
	l.load, l.feed, l.slots, l.inFlight, l.full, l.waiting = feed.load, feed, slots, 0, false, l.waiting[:0]
	l.later = l.later[:0]
	l.stats, l.got = Stats{Kind: "epoll", Loops: 1}, 0
	l.arrivals = arrivals{looked: l.load.Clock()}
	for ctx.Err() == nil {
		woken := l.arrivals.look(l.load.Clock, l.slept)
		for _, e := range l.ready() {
			l.handle(e)
		}
		l.arrivals.count(&l.stats.Lag)
		more, left := l.send()
		if !left && l.inFlight == 0 {
			break
		}
		now := l.load.Clock()
		l.sweep(now)
		if !more {
			l.rest(woken+turn, now)
		}
		l.wait(!more)
	}
	l.abandon()
	return l.stats
}

// A busy client wakes once for many events: with restStreams or more requests in flight, the time
// between two looks at the connections is at least turn, in ns.
const (
	turn        = 250_000
	restStreams = 64
)

// rest waits until then, or until a request is due. It does not where that would make events
// late.
func (l *loop) rest(until, now int64) {
	if l.arrivals.unstamped || l.inFlight < restStreams {
		return
	}
	if l.armed != 0 {
		until = min(until, l.armed)
	}
	if until > now {
		pause(until - now)
	}
}

// sendBurst is how many requests are sent before answers are looked at again.
const sendBurst = 16

// send sends the requests that are due and fit. more says that others are due already, left
// that some remain.
func (l *loop) send() (more, left bool) {
	for range sendBurst {
		now := l.load.Clock()
		i, soon := l.follower(now)
		if i >= 0 {
			l.load.Outcomes[i].Ready = l.load.Outcomes[i].Due
			l.start(i)
			continue
		}
		if l.inFlight >= l.slots {
			l.full = true
			l.arm(soon, now)
			return false, true
		}
		i, wait := l.feed.take(now)
		if i < 0 {
			l.full = false
			l.arm(min(wait, soon), now)
			return false, wait != math.MaxInt64
		}
		l.inFlight++
		o := &l.load.Outcomes[i]
		o.Ready = o.Due
		if l.full {
			o.Ready = max(o.Due, l.freed)
		}
		l.start(i)
	}
	return true, true
}

// follow lets request i wait until it is due.
func (l *loop) follow(i int) {
	due := l.load.Outcomes[i].Due
	k, _ := slices.BinarySearchFunc(l.later, due, func(j int, due int64) int {
		return cmp.Compare(due, l.load.Outcomes[j].Due) // the latest first
	})
	l.later = slices.Insert(l.later, k, i)
}

// follower returns a request that follows another and is due. Otherwise i is -1, and wait is when
// to ask again.
func (l *loop) follower(now int64) (i int, wait int64) {
	if len(l.later) == 0 {
		return -1, math.MaxInt64
	}
	last := len(l.later) - 1
	if i = l.later[last]; l.load.Outcomes[i].Due > now {
		return -1, l.load.Outcomes[i].Due
	}
	l.later = l.later[:last]
	return i, 0
}

// sweep fails requests that have lasted too long, and connections that take too long to open,
// once a second.
func (l *loop) sweep(now int64) {
	if now-l.swept < longestWait {
		return
	}
	l.swept = now
	for _, c := range l.links {
		switch {
		case c == nil:
		case c.state == linkBusy && now-l.load.Outcomes[c.request].Start > int64(requestLimit):
			l.end(c, now, errLasted)
		case c.state == linkOpening && now-c.since > int64(ConnectLimit):
			l.opening--
			l.unopened(c, fmt.Errorf("connect: no answer after %s", ConnectLimit))
		}
	}
}

// abandon interrupts what is in flight and closes its connections.
func (l *loop) abandon() {
	for _, i := range l.waiting {
		l.load.Outcomes[i].State = answer.Interrupted
	}
	l.waiting = l.waiting[:0]
	for _, c := range l.links {
		if c == nil || c.state == linkIdle {
			continue
		}
		if c.state == linkBusy {
			l.load.Outcomes[c.request].State = answer.Interrupted
		} else {
			l.opening--
		}
		l.drop(c)
	}
}
