package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/sim/knobs"
)

// A token is one step of an answer.
type token struct {
	id   int
	text string // what the step adds to the answer; empty for an end of text and behind a stop string
}

// An answer is everything one sequence will say, decided before its first token is due.
type answer struct {
	tokens []token
	finish string // "length" or "stop"
	reason any    // the stop string or stop token id that ended it, else nil
}

// limits are the conditions that end an answer.
type limits struct {
	max       int // tokens, at least 1
	min       int // tokens before an end of text
	ignoreEOS bool
	stop      []string
	stopIDs   []int
	allowed   []int // the only ids that may be drawn; empty: any
}

// Without ignore_eos an answer ends by itself after this many tokens at least, and fewer than
// twice the spread more.
const (
	shortest = 16
	spread   = 512
)

// speak decides an answer: start first, then words drawn from seed.
func (t tokenizer) speak(seed uint64, start string, l limits) answer {
	opening := t.encode(start)
	natural := len(opening)
	if start == "" {
		natural = shortest + int(knobs.Mix(seed, 0)%spread)
	}
	a := answer{finish: "length"}
	var text strings.Builder
	for i := 0; i < l.max; i++ {
		id := t.draw(knobs.Mix(seed, uint64(i)+1), l.allowed)
		switch {
		case i >= natural && !l.ignoreEOS && i >= l.min && len(l.allowed) == 0:
			id = endOfText
		case i < len(opening):
			id = opening[i]
		}
		if id == endOfText && !l.ignoreEOS && i >= l.min {
			return a.stopped(token{id, ""}, nil)
		}
		if slices.Contains(l.stopIDs, id) && i >= l.min {
			return a.stopped(token{id, ""}, id)
		}
		piece := t.decode(id)
		before := text.Len()
		text.WriteString(piece)
		if s, at := firstStop(text.String(), before, l.stop); at >= 0 && i+1 >= l.min {
			return a.cut(token{id, piece}, at, s)
		}
		a.tokens = append(a.tokens, token{id, piece})
	}
	return a
}

func (a answer) stopped(last token, reason any) answer {
	a.tokens, a.finish, a.reason = append(a.tokens, last), "stop", reason
	return a
}

// cut ends the answer at byte at of its text, taking back what earlier tokens said of the stop
// string. A real server holds such tokens back until it knows; their number is the same.
func (a answer) cut(last token, at int, stop string) answer {
	a = a.stopped(last, stop)
	for i := range a.tokens {
		keep := min(len(a.tokens[i].text), max(0, at))
		at -= len(a.tokens[i].text)
		a.tokens[i].text = a.tokens[i].text[:keep]
	}
	return a
}

// firstStop finds the earliest stop string that ends behind the first before bytes.
func firstStop(text string, before int, stops []string) (string, int) {
	found, at := "", -1
	for _, s := range stops {
		if s == "" {
			continue
		}
		from := max(0, before-len(s)+1)
		if i := strings.Index(text[from:], s); i >= 0 && (at < 0 || from+i < at) {
			found, at = s, from+i
		}
	}
	return found, at
}

// draw picks a token that can be read: a space and three letters, or a letter.
func (t tokenizer) draw(bits uint64, allowed []int) int {
	if len(allowed) > 0 {
		return allowed[bits%uint64(len(allowed))]
	}
	if t.bytes {
		return byteIDs['a'+byte(bits%26)]
	}
	return vocabulary - 1 - int(bits%(26*26*26))
}

// arithmetic is the form of the questions that gsm8k asks and the engine can answer.
var arithmetic = lazyregexp.New(`(\d{1,6}) (plus|minus|times) (\d{1,6})\?\s*Answer:$`)

// Solve answers the arithmetic question that prompt ends with; share of them right. The same
// question always gets the same answer.
func Solve(prompt string, seed uint64, share float64) (string, bool) {
	m := arithmetic.FindStringSubmatch(strings.TrimSpace(prompt))
	if m == nil {
		return "", false
	}
	value := Compute(m[1], m[2], m[3])
	if h := knobs.HashText(seed, m[0]); knobs.Unit(h, 0) >= share {
		value += 1 + int(knobs.Mix(h, 1)%9)
	}
	return " The answer is " + strconv.Itoa(value) + ".\n\nQuestion", true
}

func Compute(left, operator, right string) int {
	a, _ := strconv.Atoi(left) // six digits at most
	b, _ := strconv.Atoi(right)
	switch operator {
	case "plus":
		return a + b
	case "minus":
		return a - b
	}
	return a * b
}
