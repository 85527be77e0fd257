package sender

import (
	"context"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// A poller waits for many descriptors at once: an epoll instance with a timer. The Go runtime's
// own poller watches only the instance, so that waiting costs no thread and a ready descriptor
// costs no goroutine switch.
//
// A look does not tell the runtime that it is a system call. Otherwise, each one after a sleep
// would wake the runtime's monitor, a thread that then itself wakes every 20 to 50 µs: a third of the
// client's processor time at 64 streams. Without its monitor the runtime neither interrupts a goroutine
// nor serves the others' connections. So after quietLooks looks in a row that found something, one look
// is an ordinary system call.
type poller struct {
	ep     int
	file   *os.File // the instance, as the runtime sees it
	raw    syscall.RawConn
	look   func(uintptr) bool // fills events
	got    int                // events filled
	slept  bool               // the last wait found nothing at first
	quiet  int                // looks since the last sleep of which the runtime was not told
	events [128]syscall.EpollEvent
	timer  int   // timerfd: an epoll timeout counts in milliseconds, too coarse for a schedule
	armed  int64 // when the timer goes off by the caller's clock, in ns; 0 is never
}

// edge is EPOLLET, which package syscall declares as a negative int: an event tells of a change
// only.
const edge = 1 << 31

// longestWait bounds how long the timer sleeps, in ns.
const longestWait = int64(time.Second)

func newPoller() (*poller, error) {
	ep, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := syscall.SetNonblock(ep, true); err != nil { // tells os.NewFile that the descriptor can be polled
		syscall.Close(ep)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &poller{ep: ep, file: os.NewFile(uintptr(ep), "epoll"), timer: -1}
	p.look = func(uintptr) bool {
		errno := p.poll()
		return p.got > 0 || (errno != 0 && errno != syscall.EINTR)
	}
	if p.raw, err = p.file.SyscallConn(); err == nil {
		err = p.addTimer()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *poller) addTimer() error {
	const clockMonotonic = 1
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockMonotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return os.NewSyscallError("timerfd_create", errno)
	}
	p.timer = int(fd)
	return p.add(p.timer, syscall.EPOLLIN)
}

// add watches fd for events. Closing fd ends that.
func (p *poller) add(fd int, events uint32) error {
	event := syscall.EpollEvent{Events: events, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", syscall.EpollCtl(p.ep, syscall.EPOLL_CTL_ADD, fd, &event))
}

// arm makes the timer go off at that reading of the clock, or after [longestWait] if that is
// earlier.
func (p *poller) arm(at, now int64) {
	if p.armed != 0 && p.armed > now && p.armed <= at { // a clock that was set back reads less than 0
		return // it goes off early enough, and is then set again
	}
	p.armed = min(at, now+longestWait)
	spec := [2]syscall.Timespec{{}, syscall.NsecToTimespec(max(p.armed-now, 1))} // an itimerspec: interval, first
	syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(p.timer), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// rang reports whether fd is the timer, which it then quiets.
func (p *poller) rang(fd int) bool {
	if fd != p.timer {
		return false
	}
	var count [8]byte
	syscall.Read(fd, count[:]) // how often it went off does not matter
	p.armed = 0
	return true
}

// wait sleeps until something is ready, or only looks if block is false. It returns early when
// interrupted.
func (p *poller) wait(block bool) {
	p.got, p.slept = 0, false
	if p.look(0); p.got > 0 || !block {
		return
	}
	p.slept, p.quiet = true, 0
	_ = p.raw.Read(p.look) // an error is the deadline set by interruptible, whose caller looks at its context
}

// quietLooks is how many looks in a row the runtime is not told of: 64 ms or more for a loop that rests
// between two looks.
const quietLooks = 256

// poll fills in the events that are ready now.
func (p *poller) poll() (errno syscall.Errno) {
	call := syscall.RawSyscall6
	if p.quiet++; p.quiet > quietLooks {
		call, p.quiet = syscall.Syscall6, 0
	}
	n, _, errno := call(syscall.SYS_EPOLL_PWAIT, uintptr(p.ep), uintptr(unsafe.Pointer(&p.events)),
		uintptr(len(p.events)), 0, 0, 0)
	if p.got = int(n); errno != 0 {
		p.got = 0
	}
	return errno
}

// ready returns what the last wait found.
func (p *poller) ready() []syscall.EpollEvent { return p.events[:p.got] }

// interruptible makes waiting end when ctx does, until the function it returns is called.
func (p *poller) interruptible(ctx context.Context) (release func()) {
	past := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		p.file.SetReadDeadline(time.Unix(1, 0))
		close(past)
	})
	return func() {
		if !stop() {
			<-past
			p.file.SetReadDeadline(time.Time{})
		}
	}
}

func (p *poller) close() {
	if p.timer >= 0 {
		syscall.Close(p.timer)
	}
	p.file.Close()
}

// pause sleeps for so many ns, with its processor: that is too short to lend it to others.
func pause(ns int64) {
	t := syscall.NsecToTimespec(ns)
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0) // a signal may end it early
}
