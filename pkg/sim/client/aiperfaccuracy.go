package client

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/sim/program"
)

// Questions are asked so many times at most: what is answered is known in advance.
const mostQuestions = 200

// accuracy is AIPerf's accuracy mode: generated arithmetic in place of the questions of a
// benchmark, and the table of AIPerf 0.13.
func (a *askedOf) accuracy(ctx context.Context, p program.Process, benchmark string) int {
	o, err := a.questions()
	if err != nil {
		return p.Fail(program.Usage, fmt.Errorf("aiperf: %w", err))
	}
	fmt.Fprintf(p.Stdout, "profllm sim: %d generated questions, none of %s\n", o.Questions, benchmark)
	r := o.Run(ctx)
	if ctx.Err() != nil {
		return p.Fail(program.Failed, ctx.Err())
	}
	var text strings.Builder
	w := csv.NewWriter(&text)
	right, unread := int(math.Round(r.Accuracy*float64(o.Questions))), int(math.Round(r.InvalidRate*float64(o.Questions)))
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', 4, 64) }
	_ = w.Write([]string{"task", "total", "passed", "unparsed", "accuracy_rate", "unparsed_rate"}) // into memory
	for _, task := range []string{"simulated", "OVERALL"} {
		_ = w.Write([]string{task, strconv.Itoa(o.Questions), strconv.Itoa(right), strconv.Itoa(unread), number(r.Accuracy),
			number(r.InvalidRate)})
	}
	w.Flush()
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return p.Fail(program.Failed, err)
	}
	if err := durable.WriteFile(filepath.Join(a.dir, "accuracy_results.csv"), []byte(text.String()), 0o644); err != nil {
		return p.Fail(program.Failed, err)
	}
	fmt.Fprintf(p.Stdout, "profllm sim: accuracy %.3f of %d questions\n", r.Accuracy, o.Questions)
	return program.OK
}

// questions is what is asked where AIPerf asks those of a benchmark.
func (a *askedOf) questions() (EvalOptions, error) {
	at := a.url
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	u, err := url.Parse(at)
	if err != nil {
		return EvalOptions{}, err
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		return EvalOptions{}, errors.New("--url has no port")
	}
	return EvalOptions{Host: u.Scheme + "://" + u.Hostname(), Port: port, Model: a.model, Chat: a.endpoint == "chat",
		Questions: min(a.requests, mostQuestions), MaxTokens: 256, Seed: 42, Concurrency: a.inFlight,
		Timeout: 10 * time.Minute}, nil
}
