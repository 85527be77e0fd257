// Package eval asks an OpenAI-compatible server the questions of GSM8K and scores the answers.
//
// Prompts, stop words, the reading of answers and the keys of the result are those of vLLM's script
// tests/evals/gsm8k/gsm8k_eval.py, so that accuracies can be compared. What differs: every answer is
// kept in a file as it comes, so that an evaluation can be continued, split over several commands, and
// compared question by question; and a request that fails is asked again when the evaluation is
// continued, instead of counting as a wrong answer.
//
// The package has no questions of its own: GSM8K's files are given.
//
//	set, err := eval.Read(train, test, eval.Settings{Shots: 5, Questions: 1319})
//	book, err := eval.OpenBook("answers.jsonl", set)
//	err = eval.Ask(ctx, server, set, book)
//	result, err := book.Score()
package eval

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/pyjson"
)

// Limits of the files that are read.
const (
	longestLine   = 4 << 20
	mostQuestions = 1 << 20

	longestSession = 1e9 // s
)

// Settings are what decides the requests and their scoring. They are kept with the answers: answers of
// other settings are not continued.
type Settings struct {
	Endpoint    string          `json:"endpoint"`               // Completions or Chat
	Model       string          `json:"model,omitempty"`        // that requests name; "": none
	Served      string          `json:"served_model,omitempty"` // that answers
	Shots       int             `json:"num_shots"`
	Questions   int             `json:"num_questions"`
	MaxTokens   int             `json:"max_tokens"`
	Temperature *float64        `json:"temperature"`
	TopP        *float64        `json:"top_p"`
	TopK        *int            `json:"top_k"`
	Seed        *int            `json:"seed"`
	Effort      *string         `json:"reasoning_effort"`
	Template    json.RawMessage `json:"chat_template_kwargs,omitempty"`
	Prefix      string          `json:"gen_prefix,omitempty"` // text behind "Answer:"
	Simulated   bool            `json:"simulated,omitempty"`  // the server
}

// The two endpoints.
const (
	Completions = "completions"
	Chat        = "chat"
)

// A Set is the questions of an evaluation as they are asked.
type Set struct {
	Settings
	Digest string // of the questions and their answers
	Items  []Item
}

// Item is one question.
type Item struct {
	ID     string // digest of the question, the same in every evaluation
	Prompt string
	Label  string // the right number
}

// pair is a line of GSM8K's files.
type pair struct {
	Question *string `json:"question"`
	Answer   *string `json:"answer"`
}

// Read makes the questions of GSM8K's training and test files. The first of the training file are the
// examples of every prompt.
func Read(train, test []byte, s Settings) (*Set, error) {
	examples, err := lines(train, s.Shots)
	if err != nil {
		return nil, fmt.Errorf("training file: %w", err)
	}
	if len(examples) < s.Shots {
		return nil, fmt.Errorf("training file: %d questions, but --num-shots is %d", len(examples), s.Shots)
	}
	asked, err := lines(test, s.Questions)
	if err != nil {
		return nil, fmt.Errorf("test file: %w", err)
	}
	if len(asked) == 0 {
		return nil, errors.New("test file: no questions")
	}
	var shots strings.Builder
	for _, p := range examples {
		fmt.Fprintf(&shots, "Question: %s\nAnswer:%s %s\n\n", *p.Question, s.Prefix, *p.Answer)
	}
	set := &Set{Settings: s}
	set.Questions = len(asked)
	all := sha256.New()
	fmt.Fprintf(all, "%d:%s", shots.Len(), shots.String())
	for i, p := range asked {
		label, ok := Number(*p.Answer)
		if !ok {
			return nil, fmt.Errorf("test file: question %d has no number in its answer", i+1)
		}
		id := sha256.Sum256([]byte(*p.Question))
		set.Items = append(set.Items, Item{
			ID: hex.EncodeToString(id[:]), Label: label,
			Prompt: shots.String() + "Question: " + *p.Question + "\nAnswer:" + s.Prefix,
		})
		fmt.Fprintf(all, "%d:%s%s;", len(*p.Question), *p.Question, label)
	}
	set.Digest = "sha256:" + hex.EncodeToString(all.Sum(nil))
	return set, nil
}

// lines reads up to most questions. Lines that begin with # are comments.
func lines(data []byte, most int) ([]pair, error) {
	var list []pair
	in := bufio.NewScanner(pyjson.SkipMark(bytes.NewReader(data)))
	in.Buffer(nil, longestLine)
	for n := 1; len(list) < min(most, mostQuestions) && in.Scan(); n++ {
		line := in.Bytes()
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		var p pair
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if p.Question == nil || p.Answer == nil {
			return nil, fmt.Errorf("line %d: question or answer is missing", n)
		}
		list = append(list, p)
	}
	return list, in.Err()
}

// numbers are runs of digits, of any script, as Python's \d.
var numbers = lazyregexp.New(`\p{Nd}+`)

// longestNumber is the most digits that Python reads as a number (sys.int_info).
const longestNumber = 4300

// Number is the number that an answer ends with: the last run of digits once commas are dropped,
// without signs and decimals. Like Python's parser, it refuses leading zeros and digits of other
// scripts.
func Number(answer string) (text string, ok bool) {
	all := numbers.FindAllString(strings.ReplaceAll(answer, ",", ""), -1)
	if len(all) == 0 {
		return "", false
	}
	last := all[len(all)-1]
	switch {
	case strings.Trim(last, "0") == "":
		return "0", true
	case last[0] == '0', len(last) > longestNumber, strings.Trim(last, "0123456789") != "":
		return "", false
	}
	return last, true
}

// A Shard is one of several parts of the questions: every n-th.
type Shard struct{ Part, Of int }

// UnmarshalText reads i/n.
func (s *Shard) UnmarshalText(text []byte) error {
	var rest string
	n, _ := fmt.Sscanf(string(text), "%d/%d%s", &s.Part, &s.Of, &rest)
	if n != 2 || s.Part < 1 || s.Of < s.Part {
		return fmt.Errorf("%q is not a part such as 1/4", text)
	}
	return nil
}

// String is i/n.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", max(s.Part, 1), max(s.Of, 1)) }

// has reports whether a question is of the part.
func (s Shard) has(i int) bool { return s.Of < 2 || i%s.Of == s.Part-1 }
