package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/profllm/profllm/pkg/load/answer"
	"github.com/profllm/profllm/pkg/load/dataset"
	"github.com/profllm/profllm/pkg/load/sender"
)

// Talk are the flags of conversations, which vLLM's client has not. Their names are AIPerf's where
// that has them.
type Talk struct {
	ConversationFile          string  `name:"conversation-file" ours:"" placeholder:"FILE" help:"Send conversations turn by turn: a file with messages as in OpenAI's API or in ShareGPT."`
	ConversationNum           int     `name:"conversation-num" ours:"" placeholder:"N" help:"Conversations; default: as many as --num-prompts has room for."`
	ConversationTurnMean      int     `name:"conversation-turn-mean" ours:"" default:"1" placeholder:"N" help:"Turns of each random conversation; above 1, each turn is sent after the answer to the one before."`
	ConversationTurnDelayMean float64 `name:"conversation-turn-delay-mean" ours:"" default:"0" placeholder:"MS" help:"Time between an answer and the next turn, in ms."`
}

// talks reports whether the load is conversations.
func (t *Talk) talks() bool { return t.ConversationFile != "" || t.ConversationTurnMean > 1 }

func (o *Options) checkTalk() error {
	switch t := &o.Talk; {
	case t.ConversationTurnMean < 1:
		return fmt.Errorf("--conversation-turn-mean is %d, must be 1 or more", t.ConversationTurnMean)
	case t.ConversationNum < 0:
		return fmt.Errorf("--conversation-num is %d, must be 1 or more", t.ConversationNum)
	case !(t.ConversationTurnDelayMean >= 0 && t.ConversationTurnDelayMean <= 1e9):
		return fmt.Errorf("--conversation-turn-delay-mean is %v, must be from 0 to 1e9 ms", t.ConversationTurnDelayMean)
	case !t.talks() && (t.ConversationNum > 0 || t.ConversationTurnDelayMean > 0):
		return errors.New("--conversation-num and --conversation-turn-delay-mean need --conversation-file or " +
			"--conversation-turn-mean above 1")
	case !t.talks():
		return nil
	case o.Backend != "openai-chat":
		return fmt.Errorf("conversations need --backend openai-chat, not %s", o.Backend)
	case t.ConversationFile != "" && t.ConversationTurnMean > 1:
		return errors.New("--conversation-turn-mean has no effect on --conversation-file, which says how many turns " +
			"there are")
	case o.RandomBatchSize > 1:
		return errors.New("--random-batch-size: a turn of a conversation is one prompt")
	case o.DatasetName != "random":
		return fmt.Errorf("--dataset-name %s: conversations are random, or come from --conversation-file",
			o.DatasetName)
	}
	return nil
}

// A conversation is what was said so far, and what its user will say.
type conversation struct {
	history []byte // the messages so far, as a JSON list without its end
	turns   []json.RawMessage
}

// add appends a message to the history.
func (c *conversation) add(message json.RawMessage) {
	if len(c.history) > 1 {
		c.history = append(c.history, ',')
	}
	c.history = append(c.history, message...)
}

// A turn is the prompt of one turn of a conversation: all messages before it and its own. It is
// rendered after the answer to the turn before, by the goroutine that takes this answer.
type turn struct {
	of *conversation
	n  int
}

// AppendJSON implements [dataset.Prompt].
func (t turn) AppendJSON(dst []byte) []byte {
	dst = append(dst, t.of.history...)
	if len(t.of.history) > 1 {
		dst = append(dst, ',')
	}
	return append(append(dst, t.of.turns[t.n]...), ']')
}

// conversations are a load whose requests follow each other. The first turns come first, then the
// second ones, and so on.
type conversations struct {
	heads int
	turn  []int // of each request, from 0
	talk  []int // the conversation of each request
	next  []int // the request that follows each one, or -1
	delay int64 // ns
	keep  bool  // keep the texts of answers
	all   []*conversation
}

// newConversations lays out conversations as requests.
func newConversations(list []dataset.Conversation, o *Options) (*conversations, []dataset.Request) {
	c := &conversations{heads: len(list), keep: o.SaveDetailed,
		delay: int64(o.ConversationTurnDelayMean * float64(time.Millisecond))}
	var requests []dataset.Request
	last := make([]int, len(list)) // the newest request of each conversation
	for _, one := range list {
		talk := &conversation{history: []byte{'['}, turns: one.Turns}
		for _, m := range one.System {
			talk.add(m)
		}
		c.all = append(c.all, talk)
	}
	for n := 0; ; n++ {
		before := len(requests)
		for k, one := range list {
			if n >= len(one.Turns) {
				continue
			}
			if n > 0 {
				c.next[last[k]] = len(requests)
			}
			last[k] = len(requests)
			c.turn, c.talk, c.next = append(c.turn, n), append(c.talk, k), append(c.next, -1)
			requests = append(requests, dataset.Request{Prompt: turn{c.all[k], n}, Input: dataset.Unknown,
				Output: one.Outputs[n]})
		}
		if len(requests) == before {
			return c, requests
		}
	}
}

// follow makes load wait for answers.
func (c *conversations) follow(load *sender.Load) {
	load.Heads, load.KeepText = c.heads, true
	load.Follow = func(i int, at int64) (next int, due int64) {
		o := &load.Outcomes[i]
		switch next = c.next[i]; {
		case next < 0:
		case o.State == answer.Completed:
			talk := c.all[c.talk[i]]
			talk.add(talk.turns[c.turn[i]])
			talk.add(dataset.Said("assistant", o.Text))
		case o.State == answer.Failed:
			for ; next >= 0; next = c.next[next] {
				load.Outcomes[next].State = answer.Skipped
			}
		default:
			next = -1 // interrupted, with all that would follow
		}
		if !c.keep {
			o.Text = ""
		}
		return next, at + c.delay
	}
}

// recorded returns the conversations of the file.
func (o *Options) recorded(stderr io.Writer) ([]dataset.Conversation, error) {
	list, left, err := dataset.ReadConversations(o.ConversationFile)
	if err != nil {
		return nil, fmt.Errorf("--conversation-file: %w", err)
	}
	if left > 0 {
		fmt.Fprintf(stderr, "%d of %d conversations were left out: they have no turn of a user, or other roles\n", left,
			left+len(list))
	}
	list = o.fit(list)
	o.drawOutputs(list)
	return list, nil
}

// drawOutputs draws the length of each answer, which no file says.
func (o *Options) drawOutputs(list []dataset.Conversation) {
	turns := 0
	for _, c := range list {
		turns += len(c.Turns)
	}
	lengths := o.Outputs(turns)
	for k := range list { // a conversation that occurs twice shares its turns, not its lengths
		n := len(list[k].Turns)
		list[k].Outputs, lengths = lengths[:n], lengths[n:]
	}
}

// fit keeps as many conversations as are wanted: --conversation-num, which goes through the list
// again if need be, else as many as --num-prompts has room for.
func (o *Options) fit(list []dataset.Conversation) []dataset.Conversation {
	if n := o.ConversationNum; n > 0 {
		for len(list) < n {
			list = append(list, list...)
		}
		return list[:n]
	}
	turns := 0
	for k, c := range list {
		if turns += len(c.Turns); turns > o.NumPrompts {
			return list[:max(k, 1)]
		}
	}
	return list
}

// fullAnswers reports whether answers have the length that is asked for, whatever the model would
// write: if the user wants that, or if the prompts are drawn or replay a trace, so that an answer has no
// natural end, and nobody says that the server refuses that.
func (o *Options) fullAnswers() bool {
	return !o.NoIgnoreEOS && (o.IgnoreEOS || !o.pools() && o.FullAnswers() && o.ConversationFile == "")
}

// random returns random conversations. Only their first turns begin with the prefix, which the
// later ones have in their history.
func (o *Options) random(
	ctx context.Context, m model, api *server, stderr io.Writer,
) (list []dataset.Conversation, made origin, err error) {
	turns, n := o.ConversationTurnMean, o.ConversationNum
	if n == 0 {
		n = max(o.NumPrompts/o.ConversationTurnMean, 1)
	}
	flags := o.Flags
	flags.NumPrompts = n
	prompts := flags.Random(m.vocabulary)
	if turns > 1 {
		flags.NumPrompts, flags.RandomPrefixLen = n*turns, 0
		prompts = append(prompts, flags.Random(m.vocabulary)[n:]...)
	}
	if made, err = promptTexts(ctx, prompts, textPrompt, m, api, stderr); err != nil {
		return nil, given, err
	}
	list = make([]dataset.Conversation, n)
	for i := range prompts {
		text, _ := prompts[i].Prompt.(dataset.Text)
		talk := &list[i%n]
		talk.Turns = append(talk.Turns, dataset.Said("user", string(text)))
		talk.Outputs = append(talk.Outputs, prompts[i].Output)
	}
	return list, made, nil
}

// newTalks builds the bodies of conversations.
func newTalks(ctx context.Context, o *Options, m model, api *server, stderr io.Writer) (*bodies, error) {
	var list []dataset.Conversation
	var made origin
	var err error
	if o.ConversationFile != "" {
		list, err = o.recorded(stderr)
	} else {
		list, made, err = o.random(ctx, m, api, stderr)
	}
	if err != nil {
		return nil, err
	}
	talks, requests := newConversations(list, o)
	b := bodiesOf(o, m.name, requests)
	b.talks, b.plainWords, b.tokenized = talks, made == plainWords, made == serverText
	if b.models != nil { // a conversation stays with its adapter, which has its KV cache
		for i, talk := range talks.talk {
			b.models[i] = b.models[talk]
		}
	}
	return b, nil
}

// Turns says how the turns of conversations compare, from the first one.
type Turns struct {
	Conversations int    `json:"conversations"`
	Skipped       int    `json:"skipped"` // turns that were not sent, because one before them failed
	Turns         []Turn `json:"turns"`
	// Of each request in the arrays over requests, with --save-detailed: its conversation and its
	// turn, from 0.
	Requests [][2]int `json:"requests,omitempty"`
}

// A Turn is what was measured of one turn of all conversations.
type Turn struct {
	Turn      int                   `json:"turn"` // from 1
	Completed int                   `json:"completed"`
	Failed    int                   `json:"failed"`
	Input     float64               `json:"mean_input_tokens"`
	Latencies map[string]Statistics `json:"latencies"` // ttft, tpot, e2el
}

// turns measures the turns; nil without conversations.
func (m *measurement) turns() *Turns {
	c := m.talks
	if c == nil {
		return nil
	}
	t := &Turns{Conversations: c.heads}
	values := make([]map[string][]float64, slices.Max(c.turn)+1)
	for n := range values {
		t.Turns, values[n] = append(t.Turns, Turn{Turn: n + 1}), map[string][]float64{}
	}
	for i := range m.outcomes {
		o, one := &m.outcomes[i], &t.Turns[c.turn[i]]
		if m.options.SaveDetailed && (o.State == answer.Completed || o.State == answer.Failed) {
			t.Requests = append(t.Requests, [2]int{c.talk[i], c.turn[i]})
		}
		switch o.State {
		case answer.Skipped:
			t.Skipped++
		case answer.Failed:
			one.Failed++
		case answer.Completed:
			one.Completed++
			one.Input += float64(o.Input)
			add := func(name string, v float64) { values[c.turn[i]][name] = append(values[c.turn[i]][name], v) }
			add("ttft", o.TTFT())
			add("e2el", o.Latency())
			if o.Output > 1 {
				add("tpot", o.TPOT())
			}
		}
	}
	for n := range t.Turns {
		t.Turns[n].Latencies = m.spreads(values[n])
		t.Turns[n].Input /= float64(max(t.Turns[n].Completed, 1))
	}
	return t
}
