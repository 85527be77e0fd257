package apicheck

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/redact"
	"github.com/profllm/profllm/pkg/source"
)

const (
	modelsPath      = "/v1/models"
	completionsPath = "/v1/completions"
	chatPath        = "/v1/chat/completions"

	// answerLimit bounds the body of one answer, in bytes. The largest that is asked for has
	// 20 tokens; a list of models with their permissions has some hundred bytes a model.
	answerLimit = 4 << 20
	// connectLimit bounds the time to a connection.
	connectLimit = 10 * time.Second
)

// Options say which server is asked, and how.
type Options struct {
	Address  string        // see [Base]
	Model    string        // default: the first that the server lists
	APIKey   string        // sent as a bearer token unless empty
	Insecure bool          // do not verify the server's certificate
	Timeout  time.Duration // of one check, above 0
	// Proxy chooses the proxy of a request, as [http.ProxyFromEnvironment] does; nil means none.
	Proxy func(*http.Request) (*url.URL, error)
}

// A Server is one that has answered.
type Server struct {
	base, model string
	owner       string // of the first model
	key         string
	secrets     redact.Values
	timeout     time.Duration
	client      *http.Client
}

// URL is the address of the API, without a password.
func (s *Server) URL() string {
	u, err := url.Parse(s.base)
	if err != nil { // Base has parsed it
		return ""
	}
	return u.Redacted()
}

// Model is the model that is asked for.
func (s *Server) Model() string { return s.model }

// An UnknownModelError says that the server does not have the model that was named.
type UnknownModelError struct {
	Model string
	Known []string
}

func (e *UnknownModelError) Error() string {
	return fmt.Sprintf("the server has no model %q\n\thint: %s", e.Model, source.Suggest(e.Model, e.Known))
}

// Open looks for the server and its models. It fails if nothing answers, if the model is not one
// of those listed ([UnknownModelError]), or if none is named and none can be found.
func Open(ctx context.Context, o Options) (*Server, error) {
	base, err := Base(o.Address)
	if err != nil {
		return nil, err
	}
	s := newServer(base, o, &http.Transport{
		Proxy:                  o.Proxy,
		DialContext:            (&net.Dialer{Timeout: connectLimit}).DialContext,
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: o.Insecure},
		MaxResponseHeaderBytes: answer.HeadLimit,
		DisableCompression:     true, // so that the limit of an answer is that of its bytes
	})
	ctx, cancel := s.limited(ctx)
	defer cancel()
	ids, err := s.models(ctx)
	var silent *silentError
	switch {
	case err == nil && o.Model == "":
		s.model = ids[0]
	case err == nil && !slices.Contains(ids, o.Model):
		return nil, &UnknownModelError{o.Model, ids}
	case errors.Is(err, context.Canceled):
		return nil, err
	case errors.As(err, &silent), err != nil && o.Model == "":
		return nil, fmt.Errorf("%s%s: %s%s", s.URL(), modelsPath, s.plain(err.Error()), hintOf(err))
	}
	return s, nil
}

// newServer is a server that is reached by a transport.
func newServer(base string, o Options, transport http.RoundTripper) *Server {
	return &Server{
		base: base, model: o.Model, key: o.APIKey, secrets: redact.Known(o.APIKey), timeout: o.Timeout,
		client: &http.Client{
			Transport: transport,
			// Load clients do not follow a redirect: it would be measured with every request.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// limited is ctx for one check.
func (s *Server) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout, &timeoutError{s.timeout})
}

// A timeoutError is the end of the time for one check.
type timeoutError struct{ limit time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no whole answer within %s", e.limit) }

// ended says why ctx ended: the time is over, or somebody interrupted.
func ended(ctx context.Context) error {
	var timeout *timeoutError
	if errors.As(context.Cause(ctx), &timeout) {
		return timeout
	}
	return ctx.Err()
}

// plain is a text, perhaps of the server, as one line without the API key: servers quote a key
// that they refuse.
func (s *Server) plain(text string) string { return line(s.secrets.Text(text)) }

// models asks for the names of the models; there is at least one.
func (s *Server) models(ctx context.Context) ([]string, error) {
	var list struct {
		Data []struct {
			ID      string `json:"id"`
			OwnedBy any    `json:"owned_by"`
		} `json:"data"`
	}
	if err := s.call(ctx, http.MethodGet, modelsPath, nil, &list); err != nil {
		return nil, err
	}
	var ids []string
	for _, m := range list.Data {
		if m.ID == "" {
			return nil, errors.New("a model without an id")
		}
		ids = append(ids, m.ID)
		if owner, ok := m.OwnedBy.(string); ok && s.owner == "" {
			s.owner = owner
		}
	}
	if len(ids) == 0 {
		return nil, errors.New("a list without models")
	}
	return ids, nil
}

// call sends in as JSON, unless nil, and decodes the answer into out.
func (s *Server) call(ctx context.Context, method, path string, in, out any) error {
	resp, err := s.ask(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit+1))
	switch {
	case len(body) > answerLimit:
		return errTooLong
	case err != nil:
		return broken(ctx, err)
	}
	return decode(body, out)
}

var errTooLong = fmt.Errorf("the answer is longer than %d MiB", answerLimit>>20)

// decode reads the JSON of a whole answer.
func decode(body []byte, out any) error {
	var failed struct {
		Error json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(body, out); {
	case len(bytes.TrimSpace(body)) == 0:
		return errors.New("an empty answer instead of JSON")
	case isPage(body):
		return &foreignError{"an HTML page instead of JSON"}
	case err != nil && !json.Valid(body):
		return &foreignError{fmt.Sprintf("not JSON: %.100q", body)}
	case json.Unmarshal(body, &failed) == nil && !answer.Empty(failed.Error):
		return errors.New(answer.StatusText("200 OK with an error", body))
	case err != nil:
		return fmt.Errorf("an answer of another form (%s): %.100q", wrongPart(err), body)
	}
	return nil
}

// wrongPart says which key of an answer has the wrong type.
func wrongPart(err error) string {
	var e *json.UnmarshalTypeError
	if errors.As(err, &e) && e.Field != "" {
		return fmt.Sprintf("%s is a JSON %s", e.Field, e.Value)
	}
	return "it is no JSON object"
}

// isPage reports whether a body is a page for people, such as a proxy's.
func isPage(body []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) }

// ask sends one request, and returns an answer that is 200.
func (s *Server) ask(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode the request to %s: %w", path, err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, unanswered(ctx, req.URL, err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, answer.ErrorBytes)) // what arrived is enough
	return nil, refusal(req, resp, text)
}

// refusal is an answer that is not 200.
func refusal(req *http.Request, resp *http.Response, body []byte) error {
	code := resp.StatusCode
	switch {
	case resp.Header.Get("Location") != "" && code >= 300 && code < 400:
		to, err := resp.Location()
		if err != nil {
			return &statusError{code, resp.Status + " to an address that cannot be read"}
		}
		return &statusError{code, fmt.Sprintf("%s to %s", resp.Status, to.Redacted())}
	case isPage(body):
		return &statusError{code, resp.Status + " with an HTML page instead of JSON"}
	case !isError(body) && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusNotImplemented}, code):
		return &statusError{code, fmt.Sprintf("the server does not offer %s %s (%s)", req.Method, req.URL.Path, resp.Status)}
	}
	return &statusError{code, answer.StatusText(resp.Status, body)}
}

// isError reports whether a body is an error of the API, rather than of the web server below.
func isError(body []byte) bool {
	var e struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	return json.Unmarshal(body, &e) == nil && (len(e.Error) > 0 || e.Message != "")
}

// A statusError is an answer that is not 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// A foreignError is an answer that no OpenAI-compatible server gives.
type foreignError struct{ text string }

func (e *foreignError) Error() string { return e.text }

// A silentError is a request without an answer.
type silentError struct{ text, hint string }

func (e *silentError) Error() string { return e.text }

// hintOf says what to do about a server whose models cannot be listed.
func hintOf(err error) string {
	var silent *silentError
	var status *statusError
	var foreign *foreignError
	errors.As(err, &status)
	switch {
	case errors.As(err, &silent):
		return "\n\thint: " + silent.hint
	case errors.As(err, &foreign):
		return "\n\thint: this is no OpenAI-compatible API: name the server itself, such as http://HOST:8000"
	case status != nil && (status.code == http.StatusUnauthorized || status.code == http.StatusForbidden):
		return "\n\thint: put the server's key into OPENAI_API_KEY"
	case status != nil && status.code >= 300 && status.code < 400:
		return "\n\thint: use the address to which it leads"
	case status != nil && status.code >= 500:
		return "\n\thint: the server, or a proxy before it, is not ready: look at its log"
	}
	return "\n\thint: name the model with --model, or another address"
}

// broken is an answer that ended early.
func broken(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the server closed the connection in the middle of its answer")
	}
	return fmt.Errorf("the answer broke off: %w", bare(err))
}

// bare is a transport's error without the request, which the caller names.
func bare(err error) error {
	var e *url.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// plainHTTP is what net/http says of an https request that a server without TLS answered.
const plainHTTP = "server gave HTTP response to HTTPS client"

// unanswered says why a request got no answer.
func unanswered(ctx context.Context, to *url.URL, err error) error {
	err = bare(err)
	start := "start the server, or name another address: profllm check HOST:PORT"
	var dns *net.DNSError
	var op *net.OpError
	var timeout *timeoutError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(ended(ctx), &timeout):
		return &silentError{timeout.Error(), "raise --timeout, or look at the server's log"}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return &silentError{fmt.Sprintf("the proxy of this machine's environment does not answer: %v", op.Err),
			"name the server in NO_PROXY, or unset HTTP_PROXY and HTTPS_PROXY"}
	case errors.Is(err, syscall.ECONNREFUSED):
		return &silentError{fmt.Sprintf("nothing listens on %s", to.Host), start}
	case errors.As(err, &dns) && dns.IsNotFound:
		return &silentError{fmt.Sprintf("there is no host %q", dns.Name), "name another address: profllm check HOST:PORT"}
	case errors.As(err, &cert):
		return &silentError{fmt.Sprintf("the server's certificate is not trusted: %v", cert.Err),
			"--insecure skips the verification"}
	case strings.Contains(err.Error(), plainHTTP):
		return &silentError{"the server speaks http, not https", "write http:// before the address"}
	case errors.Is(err, io.EOF):
		return &silentError{"the server closed the connection without an answer", start}
	}
	return &silentError{err.Error(), start}
}
