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
	f, err := regular.Open(d.path)
	if err != nil {
		return nil, unreadable(d.path, err)
	}
	defer f.Close()
	var turns []turn
	err = eachItem(d.path, f, func(v pyjson.Value) error {
		t, ok, err := firstTurn(v)
		if ok {
			turns = append(turns, t)
		}
		return err
	})
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

// firstTurn returns the first question of a conversation and its answer, whoever wrote them; ok is
// false if the conversation has one message or none.
func firstTurn(v pyjson.Value) (t turn, ok bool, err error) {
	messages, err := messagesOf(v, "conversations")
	if err != nil || len(messages) < 2 {
		return turn{}, false, err
	}
	if err := pictured(v); err != nil {
		return turn{}, false, err
	}
	for i, m := range messages[:2] {
		switch m.content.Kind {
		case pyjson.Text:
		case pyjson.Absent:
			return turn{}, false, fmt.Errorf("turn %d: the entry has no %q", i+1, "value")
		default:
			return turn{}, false, fmt.Errorf("turn %d: %q is no string", i+1, "value")
		}
	}
	return turn{messages[0].content.Str, messages[1].content.Str}, true, nil
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
			s.Log("prompts are not chosen by their length, because %v: vLLM leaves out those below 4 and above %d "+
				"tokens", err, by.mostPrompt)
			s.Tokenized = false // what was counted before was for nothing
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
				requests = append(requests, Request{Prompt: s.plain(t.prompt), Input: s.known(prompts[i]),
					Output: answers[i]})
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
