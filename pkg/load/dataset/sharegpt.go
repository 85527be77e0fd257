package dataset

import (
	"errors"
	"fmt"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/regular"
)

// A turn is a question and its recorded answer.
type turn struct{ prompt, answer string }

// sharegpt makes the requests of a file of recorded conversations: the first turn of each.
func (s *Source) sharegpt(d drawing) ([]Request, error) {
	turns, err := readConversations(d.path)
	if err != nil {
		return nil, err
	}
	shuffle(s, s.Seed, turns)
	requests, err := s.conversations(d, turns, s.sharegptOutput(), filter{mostPrompt, mostTotal, false})
	if err != nil {
		return nil, err
	}
	return s.more(requests, s.NumPrompts, s.Seed), nil
}

// readConversations reads the list in which ShareGPT's files hold their conversations. Those of
// one turn are left out.
func readConversations(path string) ([]turn, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer f.Close()
	var turns []turn
	err = eachItem(path, f, func(v pyjson.Value) error {
		t, ok, err := conversation(v)
		if ok {
			turns = append(turns, t)
		}
		return err
	})
	return turns, err
}

// conversation returns the first turn of a conversation; ok is false if it has none.
func conversation(v pyjson.Value) (t turn, ok bool, err error) {
	list := v.At("conversations")
	if list.Kind == pyjson.Absent || list.Kind == pyjson.List && len(list.Items) < 2 {
		return turn{}, false, nil
	}
	if list.Kind != pyjson.List {
		return turn{}, false, fmt.Errorf("%q is no list", "conversations")
	}
	if v.At("image").Kind == pyjson.Text || v.At("video").Kind == pyjson.Text {
		return turn{}, false, errors.New("the entry has a picture or a video, which this client does not send")
	}
	for i, to := range []*string{&t.prompt, &t.answer} {
		if *to, err = text(list.Items[i], "value"); err != nil {
			return turn{}, false, fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	return t, true, nil
}

// A filter says which turns are sent: vLLM leaves out short and long ones.
type filter struct {
	mostPrompt, mostTotal int
	fixedPasses           bool // with an output length of the user's, every turn passes
}

// conversations makes requests of turns, as many as are wanted, in the order of the turns. output
// is the length of all answers; nil takes that of each recorded answer.
func (s *Source) conversations(d drawing, turns []turn, output *int, by filter) ([]Request, error) {
	var requests []Request
	for start := 0; start < len(turns) && len(requests) < s.NumPrompts; start += batch {
		part := turns[start:min(start+batch, len(turns))]
		prompts, answers, err := s.lengths(d, part, output)
		if errors.Is(err, ErrNoTokenizer) && output != nil {
			s.Log("prompts are not chosen by their length, because %v: vLLM leaves out those below 4 and above %d tokens", err,
				by.mostPrompt)
			return s.unfiltered(turns, *output), nil
		}
		if err != nil {
			return nil, err
		}
		for i, t := range part {
			if len(requests) == s.NumPrompts {
				break
			}
			pass := fits(prompts[i], answers[i], by.mostPrompt, by.mostTotal, output != nil)
			if pass || output != nil && by.fixedPasses {
				requests = append(requests, Request{Prompt: s.plain(t.prompt), Input: s.known(prompts[i]), Output: answers[i]})
			}
		}
	}
	return requests, nil
}

// lengths counts the tokens of prompts and of answers.
func (s *Source) lengths(d drawing, turns []turn, output *int) (prompts, answers []int, err error) {
	questions, replies := make([]string, len(turns)), make([]string, len(turns))
	answers = make([]int, len(turns))
	for i, t := range turns {
		questions[i], replies[i] = t.prompt, t.answer
		if output != nil {
			answers[i] = *output
		}
	}
	const why = "count tokens, by which requests are chosen and answers sized (with an output length of your own, " +
		"nothing is counted if there is no tokenizer)"
	if prompts, err = s.counts(d.ctx, questions, true, why); err == nil && output == nil {
		answers, err = s.counts(d.ctx, replies, true, why)
	}
	return prompts, answers, err
}

// unfiltered makes requests of the first turns.
func (s *Source) unfiltered(turns []turn, output int) []Request {
	var requests []Request
	for _, t := range turns[:min(len(turns), s.NumPrompts)] {
		requests = append(requests, Request{Prompt: s.plain(t.prompt), Input: Unknown, Output: output})
	}
	return requests
}

// known is the number of tokens of a prompt, where the server's template adds none.
func (s *Source) known(tokens int) int {
	if s.Chat {
		return Unknown
	}
	return tokens
}
