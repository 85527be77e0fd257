package load

import (
	"errors"
	"os"
	"strconv"
	"syscall"
)

// A link is one connection.
type link struct {
	fd      int
	phase   linkPhase
	request int // index in the job while busy
	answer  answer
	out     []byte // rest of a request the kernel had no room for
	used    bool   // has carried a request before
	since   int64  // when it was opened, or became idle
}

type linkPhase byte

const (
	linkOpening linkPhase = iota
	linkIdle
	linkBusy
)

// start sends request i on an idle connection, or lets it wait for a new one.
func (l *loop) start(i int) {
	for len(l.idle) > 0 {
		c := l.idle[len(l.idle)-1]
		l.idle = l.idle[:len(l.idle)-1]
		if !l.stale(c) {
			l.request(c, i)
			return
		}
		l.drop(c)
	}
	if err := l.dial(); err != nil {
		l.fail(i, err)
		return
	}
	l.waiting = append(l.waiting, i)
}

// stale reports whether c has been idle for so long that the server may be closing it.
func (l *loop) stale(c *link) bool {
	return c.used && l.job.clock()-c.since > int64(idleLimit)
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
	l.links[fd] = &link{fd: fd, since: l.job.clock()}
	l.opening++
	return nil
}

// drop closes a connection and forgets it. It must not be in idle.
func (l *loop) drop(c *link) {
	syscall.Close(c.fd)
	l.links[c.fd] = nil
}

// request sends request i on c.
func (l *loop) request(c *link, i int) {
	j := l.job
	l.body = j.render(l.body[:0], i)
	l.out = append(l.out[:0], l.head...)
	if id := j.id(i); id != "" {
		l.out = append(append(append(l.out, "X-Request-Id: "...), id...), "\r\n"...)
	}
	l.out = strconv.AppendInt(append(l.out, "Content-Length: "...), int64(len(l.body)), 10)
	l.out = append(append(l.out, "\r\n\r\n"...), l.body...)

	o := j.prepare(i)
	c.answer.reset(o, j.keepText)
	c.phase, c.request, c.out = linkBusy, i, c.out[:0]
	o.start = j.clock()
	n, err := syscall.Write(c.fd, l.out)
	switch {
	case err == nil && n == len(l.out):
	case err == nil || err == syscall.EAGAIN || err == syscall.EINTR:
		c.out = append(c.out, l.out[max(n, 0):]...)
	default:
		l.broken(c, os.NewSyscallError("send", err))
	}
}

// flush sends what the kernel had no room for.
func (l *loop) flush(c *link) error {
	for len(c.out) > 0 {
		n, err := syscall.Write(c.fd, c.out)
		if err == syscall.EAGAIN {
			return nil
		}
		if err != nil && err != syscall.EINTR {
			return os.NewSyscallError("send", err)
		}
		c.out = c.out[max(n, 0):]
	}
	return nil
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
	switch c.phase {
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
				l.broken(c, err)
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
		l.drop(c)
		if len(l.waiting) > 0 {
			i := l.waiting[0]
			l.waiting = l.waiting[1:]
			l.fail(i, err)
		}
		return
	}
	l.free(c)
}

// free gives a connection without a request the next one that waits for a connection.
func (l *loop) free(c *link) {
	c.phase, c.since = linkIdle, l.job.clock()
	if len(l.waiting) > 0 {
		i := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.request(c, i)
		return
	}
	l.idle = append(l.idle, c)
}

// read takes what has arrived on a busy connection. Events are edge-triggered: it reads until a read comes back
// short, or to the very end if the server closed its side.
func (l *loop) read(c *link, ended bool) {
	for {
		n, err := syscall.Read(c.fd, l.buf)
		if err == syscall.EAGAIN {
			return
		}
		if err == syscall.EINTR {
			continue
		}
		at := l.job.clock()
		if err != nil {
			l.broken(c, os.NewSyscallError("receive", err))
			return
		}
		if n == 0 {
			if err := c.answer.eof(); err != nil {
				l.broken(c, err)
			} else {
				l.done(c, at, nil)
			}
			return
		}
		over, err := c.answer.feed(l.buf[:n], at)
		if over || err != nil {
			l.done(c, at, err)
			return
		}
		if n < len(l.buf) && !ended {
			return
		}
	}
}

// done ends the answer on c, whole or malformed.
func (l *loop) done(c *link, at int64, malformed error) {
	if malformed != nil && c.answer.phase == phaseOver { // the answer itself is whole
		c.answer.keepAlive, malformed = false, nil
	}
	c.answer.close(at, malformed)
	l.release()
	c.used = true
	if malformed != nil || !c.answer.keepAlive || len(c.out) > 0 {
		l.drop(c)
		return
	}
	l.free(c)
}

// broken ends a connection that failed under a request. If it had been idle before and the server has not begun to
// answer, the server has closed it for its age: the request is sent again, once, on a new connection.
func (l *loop) broken(c *link, err error) {
	i, again := c.request, c.used && c.answer.bytes == 0
	if !again {
		c.answer.close(l.job.clock(), err)
	}
	l.drop(c)
	if !again {
		l.release()
		return
	}
	l.stats.retried++
	if err := l.dial(); err != nil {
		l.fail(i, err)
		return
	}
	l.waiting = append(l.waiting, i)
}

// fail ends a request that got no connection.
func (l *loop) fail(i int, err error) {
	o := &l.job.outcomes[i]
	o.state, o.err = failed, err.Error()
	if o.start = l.job.clock(); errors.Is(err, syscall.EMFILE) {
		o.err += " (raise the limit on open files: ulimit -n)"
	}
	l.release()
}

// release gives back the slot of a request that has ended.
func (l *loop) release() {
	l.inFlight--
	l.freed = l.job.clock()
	l.job.done.Add(1)
}
