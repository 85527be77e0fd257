package dashboard

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// The limits of a request.
const (
	maxQuery  = 1 << 20
	timeLimit = 30 * time.Second
)

// streams begin the paths of answers that may be long; their clients read them at their own pace. uploads begin
// those of bodies that may be.
const (
	streams = "/api/export/"
	uploads = "/api/upload/"
)

// exportLimit is how long a client may take to read an export.
const exportLimit = time.Hour

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
			if status == http.StatusUnauthorized {
				h.Set("WWW-Authenticate", `Bearer realm="profllm"`)
			}
			problem(w, status, detail)
			return
		}
		ctx := r.Context()
		if !strings.HasPrefix(r.URL.Path, streams) {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeLimit)
			defer cancel()
		}
		ctx, release := d.reserving(ctx)
		defer release()
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
	if !isShortest(r.URL) {
		return http.StatusBadRequest, "the path is not in its shortest form"
	}
	if writes(r.Method, r.URL.Path) {
		if origin := r.Header.Get("Origin"); origin != "" && !sameOrigin(origin, r.Host) {
			return http.StatusForbidden, "a page of another server may not do this"
		}
		if d.opts.ReadOnly {
			return http.StatusForbidden, "the server is read-only"
		}
	}
	if d.wantsToken(r.Method, r.URL.Path) && !authorized(r, d.opts.Token) {
		return http.StatusUnauthorized, "this needs the server's token: Authorization: Bearer TOKEN"
	}
	if isUntyped(r) { // a page of another server can have a browser send that without asking
		return http.StatusUnsupportedMediaType, "the request does not say what its body is; say Content-Type: application/json"
	}
	return 0, ""
}

// isUntyped reports whether a request has a body and does not say of what kind. Uploads look for themselves.
func isUntyped(r *http.Request) bool {
	return r.ContentLength != 0 && r.Method != http.MethodGet && r.Method != http.MethodHead &&
		r.Header.Get("Content-Type") == "" && !strings.HasPrefix(r.URL.Path, uploads)
}

// wantsToken reports whether a request is answered only with the token.
func (d *Server) wantsToken(method, path string) bool {
	switch {
	case d.opts.Token == "":
		return false
	case writes(method, path):
		return true
	}
	return d.opts.TokenForReads && !open(path)
}

// named are the paths below which the rest is one name, in which slashes and dots are written as %2F and %2E.
var named = []string{"/api/filters/presets/", "/api/data/experiments/", "/api/export/traces/"}

// isShortest reports whether nothing in a path leads back or nowhere. What is decided by a path is decided by
// its beginning, so only a name may hold such a thing, as a part of itself.
func isShortest(u *url.URL) bool {
	escaped := u.EscapedPath()
	if clean := path.Clean(escaped); clean != escaped && clean+"/" != escaped {
		return false
	}
	if slices.ContainsFunc(named, func(p string) bool { return strings.HasPrefix(escaped, p) }) {
		return true
	}
	clean := path.Clean(u.Path)
	return clean == u.Path || clean+"/" == u.Path
}

// open reports whether a path says nothing of the store: that of the page's files, of the API's document, and of
// what a supervisor asks.
func open(path string) bool {
	if path == "/api/health" || path == "/api/ready" || strings.HasPrefix(path, "/api/openapi") {
		return true
	}
	return path != "/api" && !strings.HasPrefix(path, "/api/") && path != "/metrics"
}

// reads are the requests by POST that write nothing.
var reads = []string{"/api/filters/apply", "/api/data/", "/api/export/", "/api/analysis/"}

// writes reports whether a request may change the store.
func writes(method, path string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	case http.MethodPost:
		return !slices.ContainsFunc(reads, func(p string) bool { return strings.HasPrefix(path, p) })
	}
	return true
}

// documentTokens says in the API's document what needs the token.
func (d *Server) documentTokens() {
	if d.opts.Token == "" {
		return
	}
	api := d.api.OpenAPI()
	api.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	for path, item := range api.Paths {
		for method, op := range map[string]*huma.Operation{
			http.MethodGet: item.Get, http.MethodPost: item.Post, http.MethodPut: item.Put,
			http.MethodPatch: item.Patch, http.MethodDelete: item.Delete,
		} {
			if op != nil && d.wantsToken(method, path) {
				op.Security = []map[string][]string{{"token": {}}}
			}
		}
	}
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

// routed answers what the API lacks as its other errors are answered.
func routed(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		refusal := &heads{header: http.Header{}, status: http.StatusNotFound}
		h.ServeHTTP(refusal, r)
		detail := "the server has no " + r.URL.Path + "; /api/openapi.json lists what it has"
		if allow := refusal.header.Get("Allow"); allow != "" {
			w.Header().Set("Allow", allow)
			detail = fmt.Sprintf("%s takes no %.20s; it takes %s", r.URL.Path, r.Method, allow)
		}
		problem(w, refusal.status, detail)
	})
}

// heads keeps of an answer what comes before its body.
type heads struct {
	header http.Header
	status int
}

func (h *heads) Header() http.Header         { return h.header }
func (h *heads) WriteHeader(status int)      { h.status = status }
func (h *heads) Write(p []byte) (int, error) { return len(p), nil }

// problem writes an error as the API's others are written.
func problem(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	writeJSON(w, map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}

// writeJSON writes an answer. If that fails, its client is gone.
func writeJSON(w io.Writer, v any) { _ = json.NewEncoder(w).Encode(v) }
