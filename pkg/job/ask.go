package job

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/run"
)

// AnswerFile is the name below raw/ of the service's answer to a request like those of its
// clients, written if the service refused all of theirs.
const AnswerFile = "refused-request.txt"

const (
	askLimit  = 10 * time.Second
	maxAnswer = 64 << 10
)

// ask sends one request as a client did, if the service served none of theirs,
// and keeps the answer: a server logs no more than "400 Bad Request" for a prompt
// that is too long, a missing chat template or a wrong model name, and most
// clients print no more. A run that measured something is not disturbed.
func (j *Job) ask(ctx context.Context) {
	p, place, err := j.load()
	if err != nil || !j.servedNothing(p) {
		return
	}
	for i := range p.Loads {
		r, ok := requestOf(p, &p.Loads[i])
		if !ok {
			continue
		}
		url, err := endpoint(p, place, r.role, r.path)
		if err != nil {
			j.logf("send a request as the client would: %v", err)
			return
		}
		ctx, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		text, err := post(ctx, url, r.body)
		if err != nil {
			text = err.Error()
		}
		text = fmt.Sprintf("POST %s\n%s\n", url, text)
		if err := run.WriteFile(j.path(run.RawDir, AnswerFile), []byte(text), 0o644); err != nil {
			j.logf("store the answer to a refused request: %v", err)
		}
		return
	}
}

// servedNothing reports whether every engine says that it answered no request
// since the roles were ready. An engine that does not say is not asked either.
func (j *Job) servedNothing(p *plan.Plan) bool {
	engines := 0
	for _, role := range p.Roles {
		if !role.Engine {
			continue
		}
		before, errBefore := j.served(role.Name, "before")
		after, errAfter := j.served(role.Name, "after")
		if errBefore != nil || errAfter != nil || after > before {
			return false
		}
		engines++
	}
	return engines > 0
}

func (j *Job) served(role, when string) (float64, error) {
	f, err := regular.Open(j.path(run.RawDir, MetricsFile(role, when)))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	page, err := promtext.Read(f)
	if err != nil {
		return 0, err
	}
	n, ok := page.Sum("vllm:request_success_total")
	if !ok {
		return 0, fmt.Errorf("%s does not count its requests", role)
	}
	return n, nil
}

// request is what a client asks for, as far as its plan says.
type request struct {
	role *plan.Role
	path string
	body []byte
}

// requestOf makes the request from the client's command; false if the load has no
// client that sends any.
func requestOf(p *plan.Plan, l *plan.Load) (request, bool) {
	for _, c := range l.Clients {
		role := targetOf(p, c)
		model := cmp.Or(optionOf(c, "--served-model-name"), optionOf(c, "--model"))
		if role == nil || model == "" {
			continue
		}
		path := cmp.Or(optionOf(c, "--endpoint"), "/v1/completions")
		prompt := strings.TrimSpace(strings.Repeat("hello ", max(1, l.Expect.InputTokens)))
		body := map[string]any{"model": model, "max_tokens": max(1, l.Expect.OutputTokens)}
		if strings.HasSuffix(path, "chat/completions") {
			body["messages"] = []map[string]string{{"role": "user", "content": prompt}}
		} else {
			body["prompt"] = prompt
		}
		data, err := json.Marshal(body)
		return request{role, path, data}, err == nil
	}
	return request{}, false
}

// targetOf is the role whose address is in the client's command.
func targetOf(p *plan.Plan, c plan.Step) *plan.Role {
	for _, w := range c.Argv {
		for _, part := range w {
			if part.Addr != "" {
				return p.Role(part.Addr)
			}
		}
	}
	return nil
}

// optionOf is the value of an option in a command, "" if there is none.
func optionOf(c plan.Step, name string) string {
	for i, w := range c.Argv {
		text, ok := w.Literal()
		if !ok {
			continue
		}
		if value, joined := strings.CutPrefix(text, name+"="); joined {
			return value
		}
		if text == name && i+1 < len(c.Argv) {
			value, _ := c.Argv[i+1].Literal()
			return value
		}
	}
	return ""
}

// post returns the status and the body of the answer.
func post(ctx context.Context, url string, body []byte) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client(0).Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.Status + "\n" + string(answer), err
}
