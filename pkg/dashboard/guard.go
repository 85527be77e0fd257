package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"
)

// The limits of a request.
const (
	maxQuery  = 1 << 20
	timeLimit = 30 * time.Second
)

// streams begin the paths of answers that may be long; their clients read them at their own pace.
const streams = "/api/export/"

// exportLimit is how long a client may take to read an export.
const exportLimit = time.Hour

// patience bounds how long a client may take to send a request's body and to read the answer. Uploads have
// the server's own limit.
func patience(w http.ResponseWriter, r *http.Request) {
	c := http.NewResponseController(w)
	now := time.Now()
	write := now.Add(2 * timeLimit)
	if strings.HasPrefix(r.URL.Path, streams) {
		write = now.Add(exportLimit)
	}
	if !strings.HasPrefix(r.URL.Path, "/api/upload/") {
		_ = c.SetReadDeadline(now.Add(timeLimit)) // where the connection has one
		_ = c.SetWriteDeadline(write)
	}
}

// policy keeps the page to what the server itself sends.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"font-src 'self'; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"

// guarded refuses what may not be asked before anything is done about it, and gives every
// answer the headers that keep a browser from doing more than it should.
func (d *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		if status, detail := d.refuses(r); status != 0 {
			problem(w, status, detail)
			return
		}
		ctx := r.Context()
		if !strings.HasPrefix(r.URL.Path, streams) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeLimit)
			defer cancel()
		}
		within := r.WithContext(ctx)
		next.ServeHTTP(w, within)
		r.Pattern = within.Pattern // for whoever counts
	})
}

// refuses gives the status of a request that may not be answered, and says why; 0 for others.
func (d *Server) refuses(r *http.Request) (status int, detail string) {
	if !d.ours(r.Host) {
		return http.StatusMisdirectedRequest, "the server does not answer for this host name; --host adds names"
	}
	if clean := path.Clean(r.URL.Path); clean != r.URL.Path && clean+"/" != r.URL.Path {
		return http.StatusBadRequest, "the path is not in its shortest form"
	}
	if !d.writes(r) {
		return 0, ""
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
		return http.StatusForbidden, "a page of another server may not do this"
	}
	if d.opts.ReadOnly {
		return http.StatusForbidden, "the server is read-only"
	}
	if d.opts.Token != "" && !authorized(r, d.opts.Token) {
		return http.StatusUnauthorized, "this needs the server's token: Authorization: Bearer TOKEN"
	}
	return 0, ""
}

// reads are the requests by POST that write nothing.
var reads = []string{"/api/filters/apply", "/api/data/", "/api/export/", "/api/analysis/"}

// writes reports whether a request may change the store.
func (d *Server) writes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodPost:
		return !slices.ContainsFunc(reads, func(p string) bool { return strings.HasPrefix(r.URL.Path, p) })
	}
	return true
}

// ours reports whether a host name is one that the server answers for: a page that makes a browser
// believe that its own name is this machine's must not read from here.
func (d *Server) ours(hostport string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	return net.ParseIP(host) != nil || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(d.opts.Hosts, func(h string) bool { return strings.EqualFold(h, host) })
}

func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host
}

// authorized compares in a time that does not tell how much of the token is right.
func authorized(r *http.Request, token string) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return ok && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// problem writes an error as the API's others are written.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	writeJSON(w, map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}

// writeJSON writes an answer. If that fails, its client is gone.
func writeJSON(w io.Writer, v any) { _ = json.NewEncoder(w).Encode(v) }
