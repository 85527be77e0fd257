package plan

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Word is one argument or value: text, mixed with parts that are known only
// inside the allocation. A scheduler prints those its own way (a shell
// variable, a pod reference); whoever writes a Word does not know which.
type Word []Part

// Part is a piece of a Word. Exactly one field is set.
type Part struct {
	Text string `json:"text,omitempty"`
	Addr string `json:"addr,omitempty"` // address of the first node of the named role; role+N: of node N behind it
	Port string `json:"port,omitempty"` // the named port
	Self bool   `json:"self,omitempty"` // profllm itself, as the nodes see it
	// a secret: the named variable of the submitting shell; in plans before Step.Secrets
	Env   string `json:"env,omitempty"`
	File  string `json:"file,omitempty"`  // a secret: the content of a file on the node; likewise
	Shell string `json:"shell,omitempty"` // shell text, expanded inside double quotes
}

// Text returns a Word of plain text.
func Text(s string) Word { return Word{{Text: s}} }

// Texts returns a Word for each string.
func Texts(list ...string) []Word {
	words := make([]Word, len(list))
	for i, s := range list {
		words[i] = Text(s)
	}
	return words
}

// Addr is the address of the first node of a role.
func Addr(role string) Part { return Part{Addr: role} }

// AddrOf is the address of node n of a role beside the servers, from 0 on.
func AddrOf(role string, n int) Part {
	if n == 0 {
		return Addr(role)
	}
	return Part{Addr: fmt.Sprintf("%s+%d", role, n)}
}

// PortNumber is the port of that name.
func PortNumber(name string) Part { return Part{Port: name} }

// Self is the path of profllm on the nodes.
func Self() Word { return Word{{Self: true}} }

// Concat joins strings, Parts and Words into one Word.
func Concat(parts ...any) Word {
	var w Word
	for _, p := range parts {
		switch x := p.(type) {
		case string:
			if x != "" {
				w = append(w, Part{Text: x})
			}
		case Part:
			w = append(w, x)
		case Word:
			w = append(w, x...)
		default:
			panic(fmt.Sprintf("plan: %T cannot be part of a word", p))
		}
	}
	return w
}

// Literal returns the text of w; ok is false when a part is known only later.
func (w Word) Literal() (s string, ok bool) {
	for _, p := range w {
		if p != (Part{Text: p.Text}) {
			return "", false
		}
		s += p.Text
	}
	return s, true
}

// String shows w to a person: ${addr:prefill}, ${port:proxy}.
func (w Word) String() string {
	var b strings.Builder
	for _, p := range w {
		switch {
		case p.Addr != "":
			b.WriteString("${addr:" + p.Addr + "}")
		case p.Port != "":
			b.WriteString("${port:" + p.Port + "}")
		case p.Self:
			b.WriteString("profllm")
		case p.Env != "":
			b.WriteString("${env:" + p.Env + "}")
		case p.File != "":
			b.WriteString("${file:" + p.File + "}")
		case p.Shell != "":
			b.WriteString(p.Shell)
		default:
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// MarshalJSON writes plain text as a string and anything else as a list of parts.
func (w Word) MarshalJSON() ([]byte, error) {
	if s, ok := w.Literal(); ok {
		return json.Marshal(s)
	}
	parts := make([]Part, 0, len(w))
	for _, p := range w {
		if p != (Part{}) {
			parts = append(parts, p)
		}
	}
	return json.Marshal(parts)
}

// UnmarshalJSON reads both forms.
func (w *Word) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) == nil {
		*w = Text(s)
		return nil
	}
	var parts []Part
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if n := p.fields(); n != 1 {
			return fmt.Errorf("a part of a word has %d fields set; it must have 1", n)
		}
	}
	*w = parts
	return nil
}

// fields counts the fields that are set.
func (p Part) fields() int {
	n := 0
	for _, set := range []bool{p.Text != "", p.Addr != "", p.Port != "", p.Self, p.Env != "", p.File != "",
		p.Shell != ""} {
		if set {
			n++
		}
	}
	return n
}

// Var is an environment variable.
type Var struct {
	Name  string `json:"name"`
	Value Word   `json:"value"`
}
