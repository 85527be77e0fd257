package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
)

// registered asks a process of Dynamo whether it is ready by what its answer says: a worker whether it serves an
// endpoint, a frontend whether enough instances of each component have registered.
func registered(ctx context.Context, want plan.Endpoint, url string, limit time.Duration) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client(limit).Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, io.LimitReader(res.Body, maxBody)); err != nil {
		return err
	}
	if err := ready(want, body.Bytes()); err != nil {
		return &lacking{err}
	}
	if want.Model == "" {
		return nil
	}
	if err := askOne(ctx, strings.TrimSuffix(url, want.Path), want.Model, firstAnswer); err != nil {
		return &lacking{err}
	}
	return nil
}

// firstAnswer is how long a model may take for its first token, when all that it runs is still to be compiled.
const firstAnswer = time.Minute

// lacking is what a process that answers lacks.
type lacking struct{ error }

// askOne asks a server for one token, as a completion, or as a chat if it has none.
func askOne(ctx context.Context, base, model string, limit time.Duration) error {
	var refused error
	for _, ask := range []struct {
		path string
		body map[string]any
	}{
		{"/v1/completions", map[string]any{"prompt": "ping"}},
		{"/v1/chat/completions", map[string]any{"messages": []map[string]string{{"role": "user", "content": "ping"}}}},
	} {
		ask.body["model"], ask.body["max_tokens"] = model, 1
		body, err := json.Marshal(ask.body)
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+ask.path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client(limit).Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxBody))
		res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
		refused = &statusError{url: base + ask.path, status: res.Status, code: res.StatusCode}
	}
	return refused
}

// ready says what an answer of Dynamo's /health lacks.
func ready(want plan.Endpoint, answer []byte) error {
	var health struct {
		Endpoints json.RawMessage `json:"endpoints"` // a worker's are an object, a frontend's a list
		Instances []struct {
			Component string `json:"component"`
			Endpoint  string `json:"endpoint"`
		} `json:"instances"`
	}
	if err := json.Unmarshal(answer, &health); err != nil {
		return fmt.Errorf("the answer is no JSON: %w", err)
	}
	if want.Serves != "" {
		states := map[string]string{}
		_ = json.Unmarshal(health.Endpoints, &states) // another form says of no endpoint that it is ready
		if states[want.Serves] != "ready" {
			return errors.New("it does not serve " + want.Serves + " yet")
		}
	}
	have := map[string]int{}
	for _, i := range health.Instances {
		if i.Endpoint == "generate" {
			have[i.Component]++
		}
	}
	var lacking []string
	for _, component := range slices.Sorted(maps.Keys(want.Instances)) {
		if n := want.Instances[component]; have[component] < n {
			lacking = append(lacking, fmt.Sprintf("%d of %d %s", have[component], n, component))
		}
	}
	if len(lacking) > 0 {
		return errors.New("registered: " + strings.Join(lacking, ", "))
	}
	return nil
}
