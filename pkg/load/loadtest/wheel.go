package loadtest

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// tick is the resolution of the schedule: a token leaves at the first tick after it is due.
const tick = 250 * time.Microsecond

// ring bounds the slots of a wheel: 2 s. An answer due later is filed again each time round.
const ring = 8192

// An answer is one stream on the wheel. Only the wheel touches it after it was added.
type answer struct {
	conn    net.Conn
	id      string
	arrived time.Time // end of the request, in the kernel
	read    time.Time // the same, in the server
	due     time.Time // next token
	gap     time.Duration
	tokens  int // to send
	prompt  int
	sent    int
	last    time.Time // when the last token left
	chat    bool
	fault   Fault
	over    chan<- bool // receives whether the connection can go on
}

// A wheel holds answers by the tick of their next token. Answers due in one tick are written
// together.
type wheel struct {
	epoch time.Time
	clock clock

	mu      sync.Mutex
	slots   [][]*answer // ring; index is a tick modulo its length
	done    int64       // last tick whose answers were written
	stopped bool

	streams        int
	first, maxTTFT time.Duration
	late, maxLate  time.Duration
	tokens         int
	ttfts, gaps    histogram
	unread         histogram
	timed          bool // keep times
	times          []Times
}

func newWheel(o Options) *wheel {
	return &wheel{epoch: time.Now(), clock: newClock(tick), timed: o.Time,
		slots: make([][]*answer, min(max(o.TTFT, o.ITL)/tick+64, ring))}
}

// add puts a on the wheel. It returns false if the wheel has stopped.
func (w *wheel) add(a *answer) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	w.place(a)
	return true
}

// place files a under the tick of its next token, or the next tick if that has passed.
func (w *wheel) place(a *answer) {
	at := int64((a.due.Sub(w.epoch) + tick - 1) / tick)
	at = min(max(at, w.done+1), w.done+int64(len(w.slots))-1)
	i := at % int64(len(w.slots))
	w.slots[i] = append(w.slots[i], a)
}

func (w *wheel) run() {
	defer w.clock.close()
	for w.clock.wait() {
		w.mu.Lock()
		if w.stopped {
			w.mu.Unlock()
			return
		}
		for now := int64(time.Since(w.epoch) / tick); w.done < now; {
			w.done++
			slot := &w.slots[w.done%int64(len(w.slots))]
			batch := *slot
			*slot = nil
			for _, a := range batch {
				w.write(a)
			}
			if *slot == nil {
				*slot = batch[:0]
			}
		}
		w.mu.Unlock()
	}
}

// stop ends the wheel; answers on it end with their connections.
func (w *wheel) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, slot := range w.slots {
		for _, a := range slot {
			a.over <- false
		}
	}
	w.slots = nil
}

// write sends the next token of a and files a again, or ends it.
func (w *wheel) write(a *answer) {
	now := time.Now()
	if now.Before(a.due) && a.due.Sub(now) > tick {
		w.place(a) // its time lay beyond the ring
		return
	}
	w.account(a, now)
	a.sent++
	last := a.sent == a.tokens
	fails := a.fault.ErrorAfter > 0 && a.sent == a.fault.ErrorAfter
	cut := a.fault.CutAfter > 0 && a.sent == a.fault.CutAfter
	_, err := a.conn.Write(a.bytes(last || fails))
	if w.timed && a.sent == 1 {
		w.times = append(w.times, Times{a.id, w.system(a.arrived), w.system(a.read), w.system(now), w.system(time.Now())})
	}
	switch {
	case err != nil || cut:
		a.conn.Close()
		fallthrough
	case last || fails:
		a.over <- err == nil && !cut
	default:
		a.due = a.due.Add(a.gap)
		w.place(a)
	}
}

// account notes how late a token is.
func (w *wheel) account(a *answer, now time.Time) {
	if a.sent == 0 {
		w.streams++
		w.first += now.Sub(a.arrived)
		w.maxTTFT = max(w.maxTTFT, now.Sub(a.arrived))
		w.ttfts.add(now.Sub(a.arrived))
		w.unread.add(a.read.Sub(a.arrived))
	} else {
		w.gaps.add(now.Sub(a.last))
	}
	a.last = now
	w.tokens++
	w.late += now.Sub(a.due)
	w.maxLate = max(w.maxLate, now.Sub(a.due))
}

func (w *wheel) truth() Truth {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := Truth{Streams: w.streams, MaxTTFT: ms(w.maxTTFT), MaxLate: ms(w.maxLate),
		TTFT: w.ttfts.ranks(w.streams), Unread: w.unread.ranks(w.streams),
		Gap: w.gaps.ranks(w.tokens - w.streams)}
	if w.streams > 0 {
		t.MeanTTFT = ms(w.first) / float64(w.streams)
		t.MeanLate = ms(w.late) / float64(w.tokens)
	}
	return t
}

// system returns an instant by the system's clock as it was when the wheel was made.
func (w *wheel) system(t time.Time) time.Time { return w.epoch.Round(0).Add(t.Sub(w.epoch)).UTC() }

// allTimes returns the times of the streams whose first token has left, in that order.
func (w *wheel) allTimes() []Times {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Times{}, w.times...)
}

// histogram counts times by unit; the last bin counts all longer ones.
type histogram [100_000]int

const unit = 10 * time.Microsecond

func (h *histogram) add(d time.Duration) { h[min(int(d/unit), len(h)-1)]++ }

// ranks are percentiles of n times.
func (h *histogram) ranks(n int) Ranks {
	if n == 0 {
		return Ranks{}
	}
	return Ranks{P50: h.rank(n - n/2), P99: h.rank(n - n/100)}
}

// rank is the time which so many are at most, in ms.
func (h *histogram) rank(n int) float64 {
	for i, count := range h {
		if n -= count; n <= 0 {
			return ms(time.Duration(i+1) * unit)
		}
	}
	return 0
}

func ms(d time.Duration) float64 { return d.Seconds() * 1000 }

const (
	head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

	textEvent = `data: {"id":"cmpl-0123456789abcdef0123456789abcdef","object":"text_completion","created":1790000000,` +
		`"model":"loadtest","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null,` +
		`"stop_reason":null}],"usage":null}` + "\n\n"
	chatEvent = `data: {"id":"chatcmpl-0123456789abcdef0123456789abcdef","object":"chat.completion.chunk",` +
		`"created":1790000000,"model":"loadtest","choices":[{"index":0,"delta":{"content":" token"},` +
		`"logprobs":null,"finish_reason":null}]}` + "\n\n"
	errorEvent = `data: {"error":{"message":"failed on purpose","type":"InternalServerError","code":500}}` + "\n\n"
	endEvent   = "data: [DONE]\n\n"
)

// Whole chunks of ordinary tokens and of last ones, made once.
var (
	textChunk, chatChunk         = []byte(chunk(textEvent)), []byte(chunk(chatEvent))
	lastTextChunk, lastChatChunk = []byte(chunk(ending(textEvent))), []byte(chunk(ending(chatEvent)))
)

// ending returns the event with which an answer of full length ends.
func ending(event string) string {
	return strings.Replace(event, `"finish_reason":null`, `"finish_reason":"length"`, 1)
}

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

// bytes returns what goes out for the next token: the head before the first, the end of the
// stream after the last.
func (a *answer) bytes(last bool) []byte {
	event, end := textChunk, lastTextChunk
	if a.chat {
		event, end = chatChunk, lastChatChunk
	}
	if a.sent == a.tokens {
		event = end
	}
	if a.sent > 1 && !last {
		return event
	}
	var out []byte
	if a.sent == 1 {
		out = append(out, head...)
	}
	out = append(out, event...)
	if !last {
		return out
	}
	switch {
	case a.fault.ErrorAfter > 0 && a.sent == a.fault.ErrorAfter:
		out = append(out, chunk(errorEvent)...)
	case !a.fault.NoUsage:
		out = append(out, chunk(fmt.Sprintf(`data: {"id":"cmpl-0","choices":[],"usage":{"prompt_tokens":%d,`+
			`"total_tokens":%d,"completion_tokens":%d}}`+"\n\n", a.prompt, a.prompt+a.sent, a.sent))...)
	}
	return append(append(out, chunk(endEvent)...), "0\r\n\r\n"...)
}
