// Package httpclient makes HTTP clients that stay with the server that the user named. A redirect to another origin
// would carry the request there, with its headers and credentials, and profllm would take the answer for the named
// server's.
package httpclient

import (
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// New returns a client that follows redirects within one origin (scheme, host and port) only. limit is of
// one request, 0 for none.
func New(transport http.RoundTripper, limit time.Duration) *http.Client {
	return &http.Client{Transport: transport, Timeout: limit, CheckRedirect: sameOrigin}
}

// most is how often one request may be redirected.
const most = 5

func sameOrigin(next *http.Request, past []*http.Request) error {
	switch from := past[0].URL; {
	case origin(from) != origin(next.URL):
		return fmt.Errorf("%s redirects to %s, which is another server\n\thint: if that one is meant, name it",
			from.Redacted(), next.URL.Redacted())
	case len(past) >= most:
		return fmt.Errorf("%s redirects more than %d times, at last to %s", from.Redacted(), most, next.URL.Redacted())
	}
	return nil
}

// origin is a server, with the port that its scheme has by default.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + u.Hostname() + ":" + port
}
