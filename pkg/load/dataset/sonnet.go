package dataset

import (
	"fmt"
	"math"
	"strings"

	"github.com/profllm/profllm/pkg/pyrand"
)

// sonnetTask is what vLLM writes above the lines.
const sonnetTask = "Pick as many lines as you can from these poem lines:\n"

// sonnet makes prompts of lines of poems: the first lines of the file, which all prompts share, and
// lines that are drawn. vLLM had this data set up to 0.31.
func (s *Source) sonnet(d drawing) ([]Request, error) {
	var lines []string
	if err := eachLine(d.path, func(_ int, line []byte) error {
		lines = append(lines, string(line))
		return nil
	}); err != nil || len(lines) == 0 {
		return nil, err
	}
	const why = "count tokens, by which lines are chosen"
	perLine, err := s.counts(d.ctx, lines, true, why)
	if err != nil {
		return nil, err
	}
	sum := 0
	for _, n := range perLine {
		sum += n
	}
	task, err := s.templated(d, []string{sonnetTask})
	if err != nil {
		return nil, err
	}
	share := func(tokens int) int { // lines that have so many tokens, with the task
		return max(int(math.RoundToEven(float64(tokens-len(task[0]))/(float64(sum)/float64(len(lines))))), 0)
	}
	if s.SonnetInputLen <= len(task[0]) {
		return nil, fmt.Errorf("--sonnet-input-len %d is too small: the task alone has %d tokens", s.SonnetInputLen,
			len(task[0]))
	}
	shared := min(share(s.SonnetPrefixLen), len(lines))
	return s.poems(d, lines, sonnetTask+strings.Join(lines[:shared], ""), max(share(s.SonnetInputLen)-shared, 0))
}

// poems draws prompts of a common beginning and of n lines until there are enough that are not too
// long.
func (s *Source) poems(d drawing, lines []string, beginning string, n int) ([]Request, error) {
	rng := pyrand.FromInt(s.Seed)
	var requests []Request
	for tries := 0; len(requests) < s.NumPrompts; tries += batch {
		if tries > 100*batch && len(requests) == 0 {
			return nil, fmt.Errorf("no prompt of %d drawn lines has at most --sonnet-input-len %d tokens", n,
				s.SonnetInputLen)
		}
		texts := make([]string, batch)
		for i := range texts {
			var text strings.Builder
			text.WriteString(beginning)
			for _, line := range rng.Choices(len(lines), n) {
				text.WriteString(lines[line])
			}
			texts[i] = text.String()
		}
		ids, err := s.templated(d, texts)
		if err != nil {
			return nil, err
		}
		for i, prompt := range ids {
			if len(prompt) > s.SonnetInputLen || len(requests) == s.NumPrompts {
				continue
			}
			r := Request{Prompt: IDs(prompt), Input: len(prompt), Output: s.sonnetOutput()}
			if s.Chat {
				r.Prompt = UserMessage(texts[i])
			}
			requests = append(requests, r)
		}
	}
	return requests, nil
}

// templated returns the tokens of texts as the model's chat template renders them.
func (s *Source) templated(d drawing, texts []string) ([][]int, error) {
	if s.Tokenizer == nil {
		return nil, s.noTemplate(ErrNoTokenizer)
	}
	ids, err := s.Tokenizer.Chat(d.ctx, users(texts), s.Kwargs)
	if err != nil {
		return nil, fmt.Errorf("apply the model's chat template: %w", err)
	}
	return ids, nil
}
