package apicheck

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/printable"
	"github.com/profllm/profllm/pkg/source"
)

// A Check is one request, or two, and what the answer must have.
type Check struct {
	Number   int    // from 1
	Name     string // one word
	Asks     string // the request
	Requires string // what a passing answer has
	run      func(context.Context, *Server) (seen string, err error)
}

// Checks are all checks, by number.
func Checks() []Check {
	const completion, talk = "POST " + completionsPath + ": ", "POST " + chatPath + `: user "Hi", 10 tokens, temperature `
	list := []Check{
		{0, "models", "GET " + modelsPath, "a list that has the model", listsModels},
		{0, "completion", completion + `prompt "Hello", 10 tokens, temperature 0`, "one choice with text", completes},
		{0, "batch", completion + `prompts "Once" and "In", 10 tokens, temperature 0`,
			"a choice with text for each prompt", batches},
		{0, "chat", talk + "0", "one choice of the role assistant with content", chats},
		{0, "sampling", talk + "0.9, top_p 0.95", "one choice of the role assistant", samples},
		{0, "streaming", talk + "0, stream", "events of JSON, at least one with a token, then data: [DONE]", streams},
		{0, "logprobs", completion + `prompt "Hello", 5 tokens, logprobs 5, temperature 0`,
			"log probabilities of every token", givesLogprobs},
		{0, "stop", completion + `prompt "1.", 20 tokens, temperature 0; again, with a part of the answer ` +
			`and "3." as stop strings`,
			"a text that ends before the stop string, and finish_reason stop", stops},
		{0, "echo", completion + `prompt "Hello", 5 tokens, echo, temperature 0`,
			"a text that begins with the prompt", echoes},
		{0, "multiple", completion + `prompt "Hi", 10 tokens, n 2`, "two choices", multiplies},
	}
	for i := range list {
		list[i].Number = i + 1
	}
	return list
}

// Select returns the checks that are named, each once, by number; all if names is empty.
func Select(names []string) ([]Check, error) {
	all := Checks()
	if len(names) == 0 {
		return all, nil
	}
	wanted := make([]bool, len(all))
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	for _, name := range names {
		found := false
		for i, c := range all {
			if strings.EqualFold(name, c.Name) || name == strconv.Itoa(c.Number) {
				wanted[i], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no check %q\n\thint: %s, or a number from 1 to %d", name,
				source.Suggest(name, known), len(all))
		}
	}
	var list []Check
	for i, c := range all {
		if wanted[i] {
			list = append(list, c)
		}
	}
	return list, nil
}

// An Outcome is what came of a check.
type Outcome struct {
	Check  Check
	Passed bool
	Came   string // the answer, or what is wrong with it: one line
	Took   time.Duration
}

// Run runs the checks one after the other. It ends early only with ctx: the outcomes so far are
// returned with its error.
func (s *Server) Run(ctx context.Context, list []Check) ([]Outcome, error) {
	outcomes := []Outcome{}
	for _, c := range list {
		o := s.one(ctx, c)
		if err := ctx.Err(); err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// one runs one check.
func (s *Server) one(ctx context.Context, c Check) Outcome {
	ctx, cancel := s.limited(ctx)
	defer cancel()
	begun := time.Now()
	seen, err := c.run(ctx, s)
	o := Outcome{Check: c, Passed: err == nil, Took: time.Since(begun)}
	if err != nil {
		seen = err.Error()
	}
	o.Came = s.plain(seen)
	return o
}

// longest is how much of an answer is shown, in characters.
const longest = 200

// line is text as one line, shortened.
func line(text string) string {
	runes := []rune(printable.Line(strings.Join(strings.Fields(text), " ")))
	if len(runes) > longest {
		return string(runes[:longest]) + "…"
	}
	return string(runes)
}
