package proxy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// controls are the paths that belong to every instance of both roles: they change
// an engine's state, or ask for it. All else that is no completion is answered by
// one decode instance. The method does not matter: SGLang takes GET where vLLM
// wants POST, and says so itself.
//
// From vLLM 0.32.0 (vllm/entrypoints: serve, rl) and SGLang 0.5
// (srt/entrypoints/http_server.py).
var controls = map[string]bool{
	// Profilers: both engines.
	"/start_profile": true, "/stop_profile": true,
	// Caches: vLLM with VLLM_SERVER_DEV_MODE, SGLang.
	"/reset_prefix_cache": true, "/reset_mm_cache": true, "/reset_encoder_cache": true,
	"/flush_cache": true, "/clear_hicache_storage_backend": true,
	// Sleep, pause and memory.
	"/sleep": true, "/wake_up": true, "/is_sleeping": true, "/release_kv_cache_memory": true,
	"/pause": true, "/resume": true, "/is_paused": true, "/abort_requests": true,
	"/pause_generation": true, "/continue_generation": true, "/abort_request": true,
	"/release_memory_occupation": true, "/resume_memory_occupation": true, "/slow_down": true, "/freeze_gc": true,
	// Weights and adapters.
	"/init_weight_transfer_engine": true, "/shutdown_weight_transfer_engine": true,
	"/start_weight_update": true, "/start_draft_weight_update": true, "/update_weights": true,
	"/finish_weight_update":  true,
	"/update_weight_version": true, "/weight_info": true, "/weight_checker": true, "/get_weight_version": true,
	"/update_weights_from_disk": true, "/update_weights_from_tensor": true,
	"/update_weights_from_distributed": true, "/update_weights_from_ipc": true,
	"/init_weights_update_group": true, "/destroy_weights_update_group": true,
	"/init_weights_send_group_for_remote_instance": true, "/send_weights_to_remote_instance": true,
	"/v1/load_lora_adapter": true, "/v1/unload_lora_adapter": true, "/load_lora_adapter": true,
	"/unload_lora_adapter": true,
	// The engine as a whole.
	"/collective_rpc": true, "/scale_elastic_ep": true, "/is_scaling_elastic_ep": true, "/get_world_size": true,
	"/fault_tolerance/apply": true, "/fault_tolerance/status": true, "/kv_event_sources": true, "/load": true,
	"/get_load":    true,
	"/server_info": true, "/get_server_info": true, "/set_internal_state": true, "/configure_logging": true,
	"/start_expert_distribution_record": true, "/stop_expert_distribution_record": true,
	"/dump_expert_distribution_record": true,
}

// maxOutcome bounds an instance's answer to a control request.
const maxOutcome = 16 << 20

func isControl(path string) bool { return controls[strings.TrimRight(path, "/")] }

// controlJSON is the answer to a control request: what each instance answered,
// and an error beside it if one of them did not do it.
type controlJSON struct {
	Error     *errorBody    `json:"error,omitempty"`
	Instances []outcomeJSON `json:"instances"`
}

// outcomeJSON is what one instance answered.
type outcomeJSON struct {
	Role    string          `json:"role"`
	URL     string          `json:"url"`
	Status  int             `json:"status,omitempty"` // absent without an answer
	Seconds float64         `json:"seconds"`
	Body    json.RawMessage `json:"body,omitempty"` // as the instance wrote it, a string if it is no JSON
	Error   string          `json:"error,omitempty"`

	backend *backend
	noRoom  bool // the answer came, but there was no memory to read it
}

// everywhere sends the request to every instance of both roles at once and
// answers when all have: 200 if all did what was asked.
func (x *exchange) everywhere(body []byte) {
	var all []*backend
	x.p.eachBackend(func(b *backend) { all = append(all, b) })
	outcomes := make([]outcomeJSON, len(all))
	var asked sync.WaitGroup
	for i, b := range all {
		asked.Go(func() { outcomes[i] = x.ask(b, body) })
	}
	asked.Wait()
	x.settle(outcomes)
}

// ask sends the request to one instance.
func (x *exchange) ask(b *backend, body []byte) outcomeJSON {
	began := time.Now()
	o := outcomeJSON{Role: b.role, URL: b.url, backend: b}
	a, err := x.send(b, body, true)
	if err == nil {
		o.Status = a.StatusCode
		o.Body, err = x.outcome(b, a)
	}
	o.Seconds = time.Since(began).Seconds()
	switch {
	case err != nil:
		o.Error, o.noRoom = err.Error(), errors.Is(err, errNoRoom)
	case o.Status >= 300:
		o.Error = fmt.Sprintf("status %d", o.Status)
	case refused(o.Body):
		o.Error = `"success": false`
	}
	return o
}

// outcome reads the body of an instance's answer.
func (x *exchange) outcome(b *backend, a *answer) (json.RawMessage, error) {
	text, err := x.read(nil, a, a.ContentLength, maxOutcome)
	a.finish()
	switch {
	case errors.Is(err, errTooBig):
		err = &fault{reason: tooLarge, err: err}
	case errors.Is(err, errNoRoom):
		return nil, err // not the instance's fault
	}
	if err != nil {
		x.lost(b, err)
		return nil, fmt.Errorf("read answer: %w", err)
	}
	b.counts.answers.add(a.StatusCode)
	if len(text) == 0 || json.Valid(text) {
		return text, nil
	}
	quoted, err := json.Marshal(string(text))
	if err == nil && !x.take(int64(len(quoted)-len(text))) {
		return nil, errNoRoom
	}
	return quoted, err
}

// refused reports whether an answer of status 2xx says that nothing was done:
// vLLM's reset_prefix_cache answers so while a request holds blocks.
func refused(body []byte) bool {
	var said struct{ Success *bool }
	return json.Unmarshal(body, &said) == nil && said.Success != nil && !*said.Success
}

// settle answers the client. Of instances that failed alike the status is theirs,
// such as 404 where a route is not enabled; else it is 502. It is 503 if there was
// no room for an answer: then nobody knows what that instance did.
func (x *exchange) settle(outcomes []outcomeJSON) {
	var failed []string
	var first *backend
	status := 0
	for _, o := range outcomes {
		if o.Error == "" {
			continue
		}
		failed = append(failed, fmt.Sprintf("%s: %s", o.backend, o.Error))
		if first = cmp.Or(first, o.backend); status == 0 {
			status = o.Status
		} else if status != o.Status {
			status = http.StatusBadGateway
		}
	}
	if len(failed) == 0 {
		x.answer(http.StatusOK, nil, controlJSON{Instances: outcomes})
		return
	}
	err := fmt.Errorf("%d of %d instances failed: %s", len(failed), len(outcomes), strings.Join(failed, "; "))
	if len(failed) < len(outcomes) || status < 400 {
		status = http.StatusBadGateway
	}
	if slices.ContainsFunc(outcomes, func(o outcomeJSON) bool { return o.noRoom }) {
		status = http.StatusServiceUnavailable
	}
	if x.clientGone() {
		x.fail(failure{err: err})
	}
	x.answer(status, first, controlJSON{
		Error:     &errorBody{Message: err.Error(), Type: errorType(status), Code: status},
		Instances: outcomes,
	})
	x.report(status, first, err)
}
