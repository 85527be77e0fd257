// Package dataset makes the requests of a load: from random tokens, or from files of prompts.
//
// A data set is asked for n requests and returns them all, each with its prompt, its lengths
// and what else its body holds. It sends nothing and knows no protocol: package load renders
// the bodies.
package dataset

import (
	"encoding/json"
	"strconv"
	"time"
)

// Unknown is the number of tokens of a prompt that nobody has counted.
const Unknown = -1

// A Request is one request of a data set.
type Request struct {
	Prompt Prompt
	Input  int           // tokens of the prompt, or [Unknown]
	Output int           // tokens to ask for
	Due    time.Duration // since the start of the load, if its data set says when requests are sent
	// Pictures are JPEG files in base64, which go with the text of the prompt: an [Illustrated] has
	// them. Not nil, if the set has pictures, even where this request has none.
	Pictures [][]byte
	// Extra are members of this request's body alone. They win over members of the same name
	// that all requests have.
	Extra []Member
}

// A Member is one member of a JSON object.
type Member struct {
	Key   string
	Value json.RawMessage
}

// A Prompt is what a request asks: [Tokens], [Text], [Texts], a [Batch], [Messages] or [Illustrated].
type Prompt interface {
	// AppendJSON appends the prompt as a JSON value.
	AppendJSON(dst []byte) []byte
}

// Tokens are a prompt of exact token ids.
type Tokens interface {
	Prompt
	// List returns the first n ids. The prompt goes on beyond its own length.
	List(n int) []int
}

// Text is a prompt of text.
type Text string

// AppendJSON implements [Prompt].
func (t Text) AppendJSON(dst []byte) []byte { return appendJSON(dst, string(t)) }

// Texts are the query and the documents that it is compared with.
type Texts []string

// AppendJSON implements [Prompt].
func (t Texts) AppendJSON(dst []byte) []byte { return appendJSON(dst, []string(t)) }

// A Batch is several prompts in one request, of which each is text or tokens.
type Batch []Prompt

// AppendJSON implements [Prompt].
func (b Batch) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i, p := range b {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = p.AppendJSON(dst)
	}
	return append(dst, ']')
}

// Messages are a chat, as the JSON array of its messages.
type Messages json.RawMessage

// AppendJSON implements [Prompt].
func (m Messages) AppendJSON(dst []byte) []byte { return append(dst, m...) }

// UserMessage returns a chat of one message, which a user wrote.
func UserMessage(text string) Messages {
	return Messages(appendJSON(nil, []map[string]string{{"role": "user", "content": text}}))
}

func appendJSON(dst []byte, v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings always marshal
	}
	return append(dst, raw...)
}

// IDs are token ids that are kept.
type IDs []int

// AppendJSON implements [Prompt].
func (p IDs) AppendJSON(dst []byte) []byte {
	dst = append(dst, '[')
	for i, id := range p {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return append(dst, ']')
}

// List implements [Tokens]. Beyond its end, the prompt starts again.
func (p IDs) List(n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = p[i%len(p)]
	}
	return ids
}
