package sender

import (
	"math"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/profllm/profllm/pkg/load/answer"
)

// A link is one connection.
type link struct {
	fd      int
	state   linkState
	request int // index in the load while busy
	answer  answer.Reader
	out     []byte // rest of a request the kernel had no room for
	sent    int64  // when the end of the request was handed to the kernel
	used    bool   // has carried a request before
	since   int64  // when it was opened, or became idle
}

type linkState byte

const (
	linkOpening linkState = iota
	linkIdle
	linkBusy
)

// start sends request i on an idle connection, or lets it wait for a new one.
func (l *loop) start(i int) {
	for len(l.idle) > 0 {
		c := l.idle[len(l.idle)-1]
		l.idle = l.idle[:len(l.idle)-1]
		if l.usable(c) {
			l.request(c, i)
			return
		}
		l.drop(c)
	}
	l.await(i)
}

// await opens a connection for request i.
func (l *loop) await(i int) {
	if err := l.dial(); err != nil {
		l.fail(i, err)
		return
	}
	l.waiting = append(l.waiting, i)
}

// usable reports whether an open connection may carry a request: it has not been idle for so
// long that the server may be closing it, and nothing has arrived on it, neither its end nor
// bytes that would be read as the next answer.
func (l *loop) usable(c *link) bool {
	return l.load.Clock()-c.since <= int64(IdleLimit) && silent(c.fd)
}

// dial begins to open a connection.
func (l *loop) dial() error {
	fd, err := syscall.Socket(l.family, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	// Without these a request is slower or a dead host is noticed later; neither stops the run.
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
	syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1)
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15)
	syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15)
	if !l.byReading {
		stamped(fd)
	}
	if err := syscall.Connect(fd, l.addr); err != nil && err != syscall.EINPROGRESS {
		syscall.Close(fd)
		return os.NewSyscallError("connect", err)
	}
	if err := l.add(fd, syscall.EPOLLIN|syscall.EPOLLOUT|syscall.EPOLLRDHUP|edge); err != nil {
		syscall.Close(fd)
		return err
	}
	for fd >= len(l.links) {
		l.links = append(l.links, nil)
	}
	l.links[fd] = &link{fd: fd, since: l.load.Clock()}
	l.opening++
	return nil
}

// drop closes a connection and forgets it. It must not be in idle.
func (l *loop) drop(c *link) {
	syscall.Close(c.fd)
	l.links[c.fd] = nil
}

// request sends request i on c. A request that is sent again keeps its first start.
func (l *loop) request(c *link, i int) {
	load := l.load
	l.body = load.Requests.Body(l.body[:0], i)
	l.out = load.request(l.out[:0], l.head, l.body, i)
	o := load.prepare(i)
	c.answer.Reset(o, load.wanted(i, l.form))
	c.state, c.request, c.out = linkBusy, i, c.out[:0]
	if o.Resends == 0 {
		o.Start = load.Clock()
	}
	rest, err := write(c.fd, l.out)
	c.out, c.sent = append(c.out, rest...), load.Clock()
	if err != nil {
		l.unsent(c, err)
	}
}

// write hands p to the kernel, and returns what it had no room for.
func write(fd int, p []byte) (rest []byte, err error) {
	for len(p) > 0 {
		n, err := syscall.Write(fd, p)
		if err == syscall.EAGAIN {
			return p, nil
		}
		if err != nil && err != syscall.EINTR {
			return p, os.NewSyscallError("send", err)
		}
		p = p[max(n, 0):]
	}
	return nil, nil
}

// flush sends what the kernel had no room for.
func (l *loop) flush(c *link) (err error) {
	c.out, err = write(c.fd, c.out)
	c.sent = l.load.Clock()
	return err
}

// unsent ends a request that the server will not take: with the answer that it gave instead, if
// any.
func (l *loop) unsent(c *link, err error) {
	if !l.read(c, true) {
		l.broken(c, err)
	}
}

// handle deals with one ready descriptor.
func (l *loop) handle(e syscall.EpollEvent) {
	fd := int(e.Fd)
	if l.rang(fd) {
		return
	}
	c := l.links[fd]
	if c == nil {
		return // closed while its event was in the batch
	}
	ended := e.Events&(syscall.EPOLLRDHUP|syscall.EPOLLHUP|syscall.EPOLLERR) != 0
	switch c.state {
	case linkOpening:
		if ended || e.Events&syscall.EPOLLOUT != 0 {
			l.opened(c)
		}
	case linkIdle:
		if ended || e.Events&syscall.EPOLLIN != 0 { // the server closes it, or speaks unasked
			l.unlist(c)
			l.drop(c)
		}
	case linkBusy:
		if len(c.out) > 0 && e.Events&syscall.EPOLLOUT != 0 {
			if err := l.flush(c); err != nil {
				l.unsent(c, err)
				return
			}
		}
		if ended || e.Events&syscall.EPOLLIN != 0 {
			l.read(c, ended)
		}
	}
}

// unlist takes a connection out of the idle ones.
func (l *loop) unlist(c *link) {
	for k, other := range l.idle {
		if other == c {
			l.idle = append(l.idle[:k], l.idle[k+1:]...)
			return
		}
	}
}

// opened ends the opening of a connection: it carries the request that waits for it, if any.
func (l *loop) opened(c *link) {
	l.opening--
	code, err := syscall.GetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_ERROR)
	if err == nil && code != 0 {
		err = os.NewSyscallError("connect", syscall.Errno(code))
	}
	if err != nil {
		l.unopened(c, err)
		return
	}
	l.free(c)
}

// unopened drops a connection that could not be opened. A request fails with it only if those
// that are still opening are fewer than the requests that wait.
func (l *loop) unopened(c *link, err error) {
	l.drop(c)
	if len(l.waiting) > l.opening {
		i := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.fail(i, err)
	}
}

// free gives a connection without a request the next one that waits for a connection. A request
// that is sent again gets one that was opened after it broke: the server may be about to close
// the others too.
func (l *loop) free(c *link) {
	c.state, c.since = linkIdle, l.load.Clock()
	if len(l.waiting) == 0 || c.used && l.load.Outcomes[l.waiting[0]].Resends > 0 {
		l.idle = append(l.idle, c)
		return
	}
	i := l.waiting[0]
	l.waiting = l.waiting[1:]
	if c.used && !l.usable(c) {
		l.drop(c)
		l.await(i)
		return
	}
	l.request(c, i)
}

// read takes what has arrived on a busy connection, and reports whether that ended the request.
// Events are edge-triggered: it reads until a read comes back short, or to the very end if the
// server closed its side.
func (l *loop) read(c *link, ended bool) (over bool) {
	for {
		p, stamp, err := l.inbox.receive(c.fd)
		if err == syscall.EAGAIN {
			return false
		}
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			l.broken(c, os.NewSyscallError("receive", err))
			return true
		}
		if len(p) == 0 {
			if err := c.answer.EOF(); err != nil {
				l.broken(c, err)
			} else {
				l.done(c, l.load.Clock(), nil)
			}
			return true
		}
		at, over, err := l.take(c, p, stamp)
		if over || err != nil {
			l.done(c, at, err)
			return true
		}
		if len(p) < len(l.inbox.buf) && !ended {
			return false
		}
	}
}

// take feeds the answer on c, and returns when p arrived.
func (l *loop) take(c *link, p []byte, unixNano int64) (at int64, over bool, err error) {
	o := &l.load.Outcomes[c.request]
	before, earliest := len(o.Tokens), o.Start
	if before > 0 {
		earliest = o.Tokens[before-1]
	}
	at, byKernel := l.arrivals.of(unixNano, earliest, l.load.Clock())
	over, err = c.answer.Feed(p, at)
	events := len(o.Tokens) - before
	if over && events == 0 && before == 0 {
		events = 1 // a document: its end is its event
	}
	l.arrivals.add(events, at, byKernel)
	return at, over, err
}

// done ends the answer on c, whole or malformed.
func (l *loop) done(c *link, at int64, malformed error) {
	if malformed = c.answer.Ended(len(c.out) == 0, malformed); malformed != nil || !c.answer.KeepAlive {
		l.end(c, at, malformed)
		return
	}
	c.answer.Close(at, nil)
	l.release(c.request, at)
	c.used = true
	l.free(c)
}

// end ends the request on c, and the connection; broken is why the answer ended early, or nil.
func (l *loop) end(c *link, at int64, broken error) {
	c.answer.Close(at, broken)
	l.drop(c)
	l.release(c.request, at)
}

// broken ends a connection that failed under a request. A request that cannot have reached the
// server is sent again.
func (l *loop) broken(c *link, err error) {
	now := l.load.Clock()
	o := &l.load.Outcomes[c.request]
	b := breach{
		used: c.used, resent: o.Resends > 0, whole: len(c.out) == 0, answered: c.answer.Bytes > 0,
		after: now - c.sent, roundTrip: roundTrip(c.fd), slack: l.load.closeSlack(),
	}
	if !b.neverArrived() {
		l.end(c, now, err)
		return
	}
	l.drop(c)
	o.Resends++
	l.await(c.request)
}

// roundTrip returns the shortest round trip of a connection that the kernel has seen, in ns; 0
// is unknown.
func roundTrip(fd int) int64 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil || info.Min_rtt == math.MaxUint32 { // never measured
		return 0
	}
	return int64(info.Min_rtt) * int64(time.Microsecond)
}

// fail ends a request that got no connection.
func (l *loop) fail(i int, err error) {
	o := &l.load.Outcomes[i]
	if o.Resends == 0 {
		o.Start = l.load.Clock()
	}
	now := l.load.Clock()
	o.Refuse(now, err)
	l.release(i, now)
}

// release ends request i at that time. Its slot goes to the request that follows it, if any.
func (l *loop) release(i int, at int64) {
	l.load.Ended.Add(1, at)
	if next := l.load.follower(i, at); next >= 0 {
		l.follow(next)
		return
	}
	l.inFlight--
	l.freed = at
}
