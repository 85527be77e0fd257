package dynamo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/knobs"
	"github.com/profllm/profllm/pkg/sim/program"
)

// defaultPort is the frontend's default of --http-port.
const defaultPort = 8000

// serveFrontend is python3 -m dynamo.frontend.
func serveFrontend(ctx context.Context, p program.Process, args []string) int {
	f := program.ParseFlags(args)
	port, err := f.Size("http-port", defaultPort, 0)
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("dynamo.frontend: %w", err))
	}
	k, err := knobs.Read(p.Env)
	if err != nil {
		return p.Fail(program.Usage, err)
	}
	log := &engine.Logger{Writer: p.Stdout, Now: time.Now, PID: os.Getpid()}
	log.Info("dynamo.frontend %s (simulated by profllm)", program.Version)
	engine.LogConfig(p, log, engine.Config{}, k, f)
	if how := f.Text("router-mode", "round-robin"); how != "round-robin" {
		log.Info("--router-mode %s is simulated as round-robin", how)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(engine.NodeHost(f.Text("http-host", ""), k.NodeAddr), strconv.Itoa(port)))
	if err != nil {
		return p.Fail(program.Failed, fmt.Errorf("[Errno 98] Address already in use: %w", err))
	}
	x := &frontend{folder: folder(p.Env(folderVar)), log: log, gone: map[uint64]bool{},
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}}
	srv := &http.Server{Handler: x.handler(), ErrorLog: stdlog.New(io.Discard, "", 0)}
	defer context.AfterFunc(ctx, func() { srv.Close() })()
	log.Info("Starting HTTP service (profllm sim) on http://%s", l.Addr())
	if err := srv.Serve(l); ctx.Err() == nil {
		return p.Fail(program.Failed, err)
	}
	return program.OK
}

// A frontend routes requests to the registered workers, in turn. Where workers of prefill are
// registered, one of them is asked first, and what it says of its KV cache goes to decode.
type frontend struct {
	folder folder
	log    *engine.Logger
	client *http.Client
	totals totals

	mu    sync.Mutex
	next  int
	gone  map[uint64]bool // instances that take no connection any more
	known []string        // models
}

func (x *frontend) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		list, status := x.present(), "healthy"
		if len(list) == 0 {
			status = "unhealthy"
		}
		endpoints := []string{}
		for _, one := range list {
			name := fmt.Sprintf("dyn://%s.%s.%s", one.Namespace, one.Component, one.Endpoint)
			if !slices.Contains(endpoints, name) {
				endpoints = append(endpoints, name)
			}
		}
		writeJSON(w, http.StatusOK, map[string]any{"status": status, "endpoints": endpoints, "instances": list,
			"simulated": true})
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		w.Write(x.totals.page(x.served()))
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		cards := []map[string]any{}
		for _, name := range x.models() {
			cards = append(cards, map[string]any{"id": name, "object": "model", "created": time.Now().Unix(),
				"owned_by": program.Version, "context_window": 0})
		}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": cards})
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": program.Version})
	})
	// Dynamo has neither: the stand-in of AIPerf has no tokenizer of its own.
	mux.HandleFunc("POST /tokenize", x.forward)
	mux.HandleFunc("POST /detokenize", x.forward)
	mux.HandleFunc("POST /v1/completions", x.generation("completions"))
	mux.HandleFunc("POST /v1/chat/completions", x.generation("chat_completions"))
	return mux
}

// present are the registered instances without those that are gone.
func (x *frontend) present(components ...string) []instance {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(x.folder.instances(), func(one instance) bool {
		return x.gone[one.ID] || len(components) > 0 &&
			(one.Endpoint != generate || !slices.Contains(components, one.Component))
	})
}

// served are the models that are or were served, so that counters keep their labels.
func (x *frontend) served() []string {
	now := x.models()
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(now) > 0 {
		x.known = now
	}
	return x.known
}

// models are what the workers that answer serve.
func (x *frontend) models() (names []string) {
	for _, one := range x.present(backend) {
		if !slices.Contains(names, one.Model) {
			names = append(names, one.Model)
		}
	}
	return names
}

// pick is the next instance of a component, nil if there is none.
func (x *frontend) pick(component string) *instance {
	list := x.present(component)
	if len(list) == 0 {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.next++
	return &list[x.next%len(list)]
}

// A failure is an answer that says why there is none.
type failure struct {
	status int
	kind   string // error_type of the counters
	err    error
}

func (f *failure) Error() string { return f.err.Error() }

// maxBody bounds a request, and an answer of prefill.
const maxBody = 64 << 20

// generation answers requests for tokens.
func (x *frontend) generation(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x.totals.begin()
		o := outcome{path: path, kind: "unary", status: "error"}
		var prompt, cached string
		defer func() { x.totals.end(o, prompt, cached) }() // also where the connection is cut
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
		if err != nil {
			o.failure = "cancelled"
			return
		}
		var q map[string]json.RawMessage
		if err := json.Unmarshal(body, &q); err != nil {
			o.failure = "validation"
			refuse(w, &failure{http.StatusBadRequest, o.failure, err})
			return
		}
		if string(q["stream"]) == "true" {
			o.kind = "stream"
		}
		res, early, fail := x.ask(r, q)
		if fail != nil {
			o.failure = fail.kind
			refuse(w, fail)
			return
		}
		defer res.Body.Close()
		prompt, cached = res.Header.Get(engine.PromptHeader), res.Header.Get(engine.CachedHeader)
		if early != "" {
			cached = early
		}
		o.failure = "internal" // unless all of the answer comes
		if err := relay(w, res); err != nil {
			if r.Context().Err() != nil {
				o.failure = "cancelled"
			}
			panic(http.ErrAbortHandler)
		}
		if o.failure = failureOf(res.StatusCode); o.failure == "" {
			o.status = "success"
		}
	}
}

// forward has a worker answer what is no request for tokens.
func (x *frontend) forward(w http.ResponseWriter, r *http.Request) {
	var q map[string]json.RawMessage
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&q); err != nil {
		refuse(w, &failure{http.StatusBadRequest, "validation", err})
		return
	}
	res, fail := x.send(r, backend, q)
	if fail != nil {
		refuse(w, fail)
		return
	}
	defer res.Body.Close()
	if relay(w, res) != nil {
		panic(http.ErrAbortHandler)
	}
}

// failureOf is the error_type of a status, "" for success.
func failureOf(status int) string {
	switch {
	case status < http.StatusMultipleChoices:
		return ""
	case status == http.StatusNotFound:
		return "not_found"
	case status < http.StatusInternalServerError:
		return "validation"
	}
	return "internal"
}

// refuse answers as Dynamo's frontend does.
func refuse(w http.ResponseWriter, f *failure) {
	writeJSON(w, f.status, map[string]any{"message": f.Error(), "type": http.StatusText(f.status), "code": f.status})
}

// ask has a worker answer, behind one of prefill if there are any; early are the tokens that prefill
// found in its cache.
func (x *frontend) ask(r *http.Request, q map[string]json.RawMessage) (res *http.Response, early string, _ *failure) {
	var model string
	_ = json.Unmarshal(q["model"], &model) // what is no text names no model
	if model != "" && !slices.Contains(x.models(), model) {
		//lint:ignore ST1005 the real frontend says it so
		return nil, "", &failure{http.StatusNotFound, "not_found", errors.New("Model not found")}
	}
	if len(x.present(prefill)) > 0 {
		params, found, fail := x.prefill(r, q)
		if fail != nil {
			return nil, "", fail
		}
		if early = found; params != nil {
			q["kv_transfer_params"] = params
		}
	}
	res, fail := x.send(r, backend, q)
	return res, early, fail
}

// prefill has a worker of prefill compute the prompt, and returns where its KV cache is.
func (x *frontend) prefill(r *http.Request, q map[string]json.RawMessage) (params json.RawMessage, cached string,
	_ *failure) {
	first := map[string]json.RawMessage{}
	for key, v := range q {
		if !slices.Contains([]string{"max_completion_tokens", "min_tokens", "stream_options"}, key) {
			first[key] = v
		}
	}
	first["max_tokens"], first["stream"] = json.RawMessage("1"), json.RawMessage("false")
	first["kv_transfer_params"] = json.RawMessage(`{"do_remote_decode":true,"do_remote_prefill":false}`)
	res, fail := x.send(r, prefill, first)
	if fail != nil {
		return nil, "", fail
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	var a struct {
		KV json.RawMessage `json:"kv_transfer_params"`
	}
	if err == nil {
		err = json.Unmarshal(data, &a)
	}
	switch {
	case res.StatusCode != http.StatusOK:
		err = fmt.Errorf("prefill answered %s: %.200s", res.Status, bytes.TrimSpace(data))
		return nil, "", &failure{res.StatusCode, failureOf(res.StatusCode), err}
	case err != nil:
		return nil, "", &failure{http.StatusInternalServerError, "internal", fmt.Errorf("prefill: %w", err)}
	case string(a.KV) == "null":
		a.KV = nil
	}
	return a.KV, res.Header.Get(engine.CachedHeader), nil
}

// send sends a request to a worker of a component. One that takes no connection is gone, as it is
// once its lease has ended.
func (x *frontend) send(r *http.Request, component string, q map[string]json.RawMessage) (*http.Response, *failure) {
	one := x.pick(component)
	if one == nil {
		return nil, &failure{http.StatusServiceUnavailable, "overload",
			fmt.Errorf("no instances found for endpoint %s/%s (profllm sim)", component, generate)}
	}
	body, err := json.Marshal(q)
	if err != nil {
		return nil, &failure{http.StatusInternalServerError, "internal", err}
	}
	url := "http://" + one.Transport["tcp"] + r.URL.Path
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, &failure{http.StatusInternalServerError, "internal", err}
	}
	req.Header.Set("Content-Type", "application/json")
	if id := r.Header.Get("X-Request-Id"); id != "" {
		req.Header.Set("X-Request-Id", id)
	}
	res, err := x.client.Do(req)
	if err == nil {
		return res, nil
	}
	kind := "internal"
	switch dial, ok := errors.AsType[*net.OpError](err); {
	case r.Context().Err() != nil:
		kind = "cancelled"
	case ok && dial.Op == "dial":
		x.mu.Lock()
		x.gone[one.ID] = true
		x.mu.Unlock()
		x.log.Info("instance %d of %s is gone: %v", one.ID, component, err)
	}
	return nil, &failure{http.StatusInternalServerError, kind, err}
}

// relay passes an answer on, each part at once.
func relay(w http.ResponseWriter, res *http.Response) error {
	for key, values := range res.Header {
		if !strings.HasPrefix(key, "X-Profllm-Sim-") && key != "Content-Length" {
			w.Header()[key] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	flush := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := flush.Flush(); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
