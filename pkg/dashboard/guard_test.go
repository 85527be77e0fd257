package dashboard_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/dashboard"
)

const (
	token  = "secret-of-the-server"
	bearer = "Bearer " + token
)

// questions are the requests by POST that write nothing. Whatever else is in the API's document and not by GET
// writes.
var questions = []string{
	"/api/filters/apply", "/api/data/compare", "/api/export/csv", "/api/export/json", "/api/analysis/trends", "/api/analysis/regression",
	"/api/analysis/impact", "/api/analysis/scaling", "/api/analysis/capacity", "/api/analysis/pareto",
}

// documented is an operation of the API's document.
type documented struct {
	method, path string
	secured      bool
}

func (d documented) writes() bool {
	return d.method != http.MethodGet && !slices.Contains(questions, d.path)
}

// operations are all of the document of a server.
func (s *site) operations() (list []documented) {
	s.t.Helper()
	status, answer, _ := s.send("GET", "/api/openapi.json", "", nil)
	require.Equal(s.t, 200, status)
	var doc struct {
		Paths map[string]map[string]struct{ Security []map[string][]string }
	}
	require.NoError(s.t, json.Unmarshal(answer, &doc))
	for path, methods := range doc.Paths {
		for method, op := range methods {
			list = append(list, documented{strings.ToUpper(method), path, len(op.Security) > 0})
		}
	}
	require.Greater(s.t, len(list), 20)
	return list
}

// ask sends a request that says nothing to an operation.
func (s *site) ask(d documented, headers ...string) (int, http.Header) {
	s.t.Helper()
	path := strings.NewReplacer("{name}", "x", "{id}", "x", "{job_id}", "x").Replace(d.path)
	status, answer, head := s.send(d.method, path, "application/json", strings.NewReader("{}"), headers...)
	if status >= 400 {
		require.Equal(s.t, "application/problem+json", head.Get("Content-Type"), "%s %s: %s", d.method, path, answer)
	}
	return status, head
}

// Each operation of the document that writes wants the token, and if reads are guarded, each that tells something
// of the store does; the document says so. A read-only server refuses each that writes, with the token too.
//
// covers: API-1, API-2, API-3, API-8, DASH-6
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name string
		opts dashboard.Options
	}{
		{"no token", dashboard.Options{}},
		{"writes", dashboard.Options{Token: token}},
		{"all", dashboard.Options{Token: token, TokenForReads: true}},
		{"read-only", dashboard.Options{ReadOnly: true}},
		{"read-only, all", dashboard.Options{Token: token, TokenForReads: true, ReadOnly: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, t.TempDir(), config{opts: c.opts, idle: true})
			writing := 0
			for _, d := range s.operations() {
				open := d.path == "/api/health" || d.path == "/api/ready"
				want := c.opts.Token != "" && (d.writes() || c.opts.TokenForReads && !open)
				require.Equal(t, want, d.secured, "%s %s", d.method, d.path)
				for _, with := range []string{"", "Bearer wrong", "Basic " + token, bearer + "x", "bearer" + token, token} {
					status, head := s.ask(d, "Authorization", with)
					switch {
					case c.opts.ReadOnly && d.writes():
						require.Equal(t, 403, status, "%s %s", d.method, d.path)
					case want:
						require.Equal(t, 401, status, "%s %s %q", d.method, d.path, with)
						require.Contains(t, head.Get("WWW-Authenticate"), "Bearer")
					default:
						require.NotContains(t, []int{401, 403}, status, "%s %s", d.method, d.path)
					}
				}
				status, _ := s.ask(d, "Authorization", bearer)
				if c.opts.ReadOnly && d.writes() {
					require.Equal(t, 403, status)
				} else {
					require.NotContains(t, []int{401, 403}, status)
				}
				if d.writes() {
					writing++
					status, _ := s.ask(d, "Authorization", bearer, "Origin", "https://elsewhere.example")
					require.Equal(t, 403, status, "a page of another server")
					status, _ = s.ask(d, "Authorization", bearer, "Origin", "null")
					require.Equal(t, 403, status, "a page without a place")
				}
			}
			require.GreaterOrEqual(t, writing, 5)
			for path, secret := range map[string]bool{"/": false, "/table": false, "/api/openapi.json": false, "/metrics": true, "/api/nothing": true, "/api": true} {
				status, _ := s.ask(documented{"GET", path, false})
				require.Equal(t, secret && c.opts.TokenForReads, status == 401, "%s: %d", path, status)
			}
			_, answer, _ := s.send("GET", "/api/ready", "", nil)
			require.Equal(t, !c.opts.TokenForReads, strings.Contains(string(answer), "runs"), "%s", answer)
		})
	}
}

// said is the answer to bytes that are no request as a client of Go would send it.
func (s *site) said(request string) (status int, body string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s.t, err)
	defer c.Close()
	go func() {
		_, _ = io.WriteString(c, request) // the server may have closed the connection before
	}()
	r := bufio.NewReader(c)
	got, err := http.ReadResponse(r, &http.Request{Method: strings.Fields(request)[0]})
	if err != nil { // closed without an answer
		return 0, ""
	}
	defer got.Body.Close()
	data, _ := io.ReadAll(got.Body)
	return got.StatusCode, string(data)
}

// Requests of odd shapes reach no write, and the server goes on.
//
// covers: API-3, DASH-6
func TestOddRequests(t *testing.T) {
	s := start(t, t.TempDir(), config{opts: dashboard.Options{Token: token, TokenForReads: true, Hosts: []string{"runs.example"}}, idle: true})
	host := "Host: " + s.addr + "\r\n"
	auth := "Authorization: " + bearer + "\r\n"
	record := "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	for _, c := range []struct {
		name, request string
		status        []int
	}{
		{"a name that is not the server's", "GET /api/health HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n", []int{421}},
		{"a name that ends as the server's", "GET /api/health HTTP/1.1\r\nHost: evil.runs.example\r\n\r\n", []int{421}},
		{"a name that begins with an address", "GET /api/health HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", []int{421}},
		{"a name of the server", "GET /api/health HTTP/1.1\r\nHost: RUNS.example:99\r\n\r\n", []int{200}},
		{"no name", "GET /api/health HTTP/1.1\r\n\r\n", []int{400}},
		{"no name in HTTP 1.0", "GET /api/health HTTP/1.0\r\n\r\n", []int{421}},
		{"two names", "GET /api/health HTTP/1.1\r\n" + host + "Host: elsewhere.example\r\n\r\n", []int{400}},
		{"a name in the address", "GET http://elsewhere.example/api/health HTTP/1.1\r\n" + host + "\r\n", []int{421}},
		{"two slashes", "POST //api/upload/raw HTTP/1.1\r\n" + host + record, []int{400}},
		{"two slashes, by GET", "GET //api/filters/options HTTP/1.1\r\n" + host + "\r\n", []int{400}},
		{"dots", "POST /api/data/../upload/raw HTTP/1.1\r\n" + host + record, []int{400}},
		{"encoded dots", "POST /api/data/%2e%2e/upload/raw HTTP/1.1\r\n" + host + record, []int{400}},
		{"an encoded slash", "POST /api/data%2f..%2fupload/raw HTTP/1.1\r\n" + host + record, []int{400}},
		{"an encoded letter", "POST /api/%75pload/raw HTTP/1.1\r\n" + host + record, []int{401}},
		{"another case", "POST /API/upload/raw HTTP/1.1\r\n" + host + record, []int{401, 404, 405}},
		{"an encoded NUL", "GET /api/data/experiments/%00 HTTP/1.1\r\n" + host + auth + "\r\n", []int{404}},
		{"a page's path with dots", "GET /assets/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + host + "\r\n", []int{400}},
		{"a method that there is not", "BREW /api/upload/raw HTTP/1.1\r\n" + host + auth + record, []int{405}},
		{"TRACE", "TRACE /api/health HTTP/1.1\r\n" + host + auth + "\r\n", []int{405}},
		{"CONNECT", "CONNECT elsewhere.example:443 HTTP/1.1\r\n" + host + auth + "\r\n", []int{400, 404, 405, 421}},
		{"OPTIONS", "OPTIONS /api/upload/raw HTTP/1.1\r\n" + host + "\r\n", []int{401}},
		{"OPTIONS of everything", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", []int{200, 400}},
		{"HEAD of a secret", "HEAD /api/filters/options HTTP/1.1\r\n" + host + "\r\n", []int{401}},
		{"HEAD", "HEAD /api/health HTTP/1.1\r\n" + host + "\r\n", []int{200}},
		{"a method by a header", "GET /api/filters/presets/x HTTP/1.1\r\n" + host + "X-HTTP-Method-Override: DELETE\r\n\r\n", []int{401}},
		{"a method by a header, with the token", "GET /api/filters/presets/x HTTP/1.1\r\n" + host + auth + "X-HTTP-Method-Override: DELETE\r\n\r\n", []int{404, 405}},
		{"two tokens", "POST /api/upload/raw HTTP/1.1\r\n" + host + "Authorization: Bearer x\r\n" + auth + record, []int{401}},
		{"two lengths", "POST /api/upload/raw HTTP/1.1\r\n" + host + auth + "Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}", []int{400}},
		{"two lengths in one", "POST /api/upload/raw HTTP/1.1\r\n" + host + auth + "Content-Length: 2, 60\r\n\r\n{}", []int{400}},
		{"a length and chunks", "POST /api/filters/apply HTTP/1.1\r\n" + host + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nPOST /api/upload/raw HTTP/1.1\r\n" + host + record, []int{400, 401}},
		{"unknown chunks", "POST /api/upload/raw HTTP/1.1\r\n" + host + auth + "Transfer-Encoding: xchunked\r\n\r\n{}", []int{400, 501}},
		{"chunks twice", "POST /api/upload/raw HTTP/1.1\r\n" + host + auth + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []int{400, 501}},
		{"a chunk of a size that is no number", "POST /api/upload/raw HTTP/1.1\r\n" + host + auth + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n{}\r\n0\r\n\r\n", []int{422}},
		{"a negative length", "POST /api/upload/raw HTTP/1.1\r\n" + host + auth + "Content-Length: -1\r\n\r\n", []int{400}},
		{"a folded head", "GET /api/health HTTP/1.1\r\n" + host + "X: a\r\n b\r\n\r\n", []int{200, 400}},
		{"a space before the colon", "GET /api/health HTTP/1.1\r\n" + host + "Content-Length : 5\r\n\r\n", []int{400}},
		{"a long address", "GET /api/health?" + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\n" + host + "\r\n", []int{0, 431}},
		{"a long address that fits", "GET /api/data/experiments?filter=" + strings.Repeat("x", 30_000) + " HTTP/1.1\r\n" + host + auth + "\r\n", []int{422}},
		{"many heads", "GET /api/health HTTP/1.1\r\n" + host + strings.Repeat("X-A: b\r\n", 100_000) + "\r\n", []int{0, 431}},
		{"no HTTP", "\x16\x03\x01 \x00\x00\r\n\r\n", []int{0, 400}},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := s.said(c.request)
			require.Contains(t, c.status, status, body)
		})
	}
	require.Zero(t, mustCount(t, s))
	status, _, _ := s.send("GET", "/api/health", "", nil)
	require.Equal(t, 200, status)
}

// mustCount is how many uploads a server has accepted.
func mustCount(t *testing.T, s *site) int {
	t.Helper()
	_, page, _ := s.send("GET", "/metrics", "", nil, "Authorization", bearer)
	return strings.Count(string(page), `status="202"`)
}

// Clients that send a head or a body too slowly, or nothing at all, are cut off.
func TestSlowClients(t *testing.T) {
	s := start(t, t.TempDir(), config{opts: dashboard.Options{Patience: 200 * time.Millisecond}, idle: true})
	for name, begin := range map[string]string{
		"nothing":      "",
		"a head":       "GET /api/health HTTP/1.1\r\nHost: x\r\nX: ",
		"half a body":  "POST /api/filters/apply HTTP/1.1\r\nHost: " + s.addr + "\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"half a chunk": "POST /api/upload/raw HTTP/1.1\r\nHost: " + s.addr + "\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", s.addr)
			require.NoError(t, err)
			defer c.Close()
			_, err = fmt.Fprint(c, begin)
			require.NoError(t, err)
			_, err = io.ReadAll(c) // ends when the server closes the connection
			if err != nil {
				require.ErrorContains(t, err, "reset")
			}
		})
	}
	s.well()
}
