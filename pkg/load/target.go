package load

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/profllm/profllm/pkg/load/sender"
)

// target returns where the requests of a run go, and how.
func (o *Options) target() (*sender.Target, error) {
	u, err := url.Parse(o.url())
	if err != nil {
		return nil, err
	}
	via, err := o.via(u)
	if err != nil {
		return nil, err
	}
	return &sender.Target{
		URL: u, Via: via, Header: o.headers(), Insecure: o.Insecure,
		Streams: min(o.mostRequests(), o.concurrency()) / o.count(),
		Form:    o.protocol().form, ByReading: o.ByReading,
	}, nil
}

// mostRequests bounds how many requests there can be.
func (o *Options) mostRequests() int {
	if o.NumPrompts > 0 {
		return o.NumPrompts
	}
	return 1 << 20 // all of a file
}

// via returns the proxy of requests to u, or nil.
func (o *Options) via(u *url.URL) (*url.URL, error) {
	if o.Proxy == nil {
		return nil, nil
	}
	via, err := o.Proxy(&http.Request{URL: u})
	switch {
	case err != nil:
		return nil, fmt.Errorf("choose a proxy: %w", err)
	case via != nil && via.Scheme != "http" && via.Scheme != "https":
		return nil, fmt.Errorf("proxy %s: only http and https proxies are supported; "+
			"unset HTTP_PROXY and HTTPS_PROXY or name the server in NO_PROXY", via.Redacted())
	}
	return via, nil
}

// A traffic is the requests of a run, as a sender sends them.
type traffic struct {
	*bodies
	prefix string // of x-request-id
}

func (t traffic) Body(dst []byte, i int) []byte { return t.render(dst, i) }

func (t traffic) ID(i int) string { return t.prefix + strconv.Itoa(i) }

func (t traffic) Tokens(i int) (prompt, answer int, bounded bool) {
	r := &t.requests[i]
	return max(r.Input, 0), r.Output, t.counted
}

// heads returns how many requests are sent on the schedule; the others follow them.
func (t traffic) heads() int {
	if t.talks != nil {
		return t.talks.heads
	}
	return len(t.requests)
}

// An opener repeats the first request of a run, for the ready check and the warm-up. These
// requests are not measured and carry no ID, as in vLLM.
type opener struct{ traffic }

func (o opener) Body(dst []byte, _ int) []byte { return o.traffic.Body(dst, 0) }

func (o opener) ID(int) string { return "" }

func (o opener) Tokens(int) (prompt, answer int, bounded bool) { return o.traffic.Tokens(0) }
