package failure

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/pending"
	"github.com/profllm/profllm/pkg/result"
)

// signaturesJSON is our own table, collected from public reports, from the
// sources of the programs that print the lines, and from runs of them; each
// entry names its source.
//
//go:embed signatures.json
var signaturesJSON []byte

// Kind says what a matching line proves.
type Kind string

// The kinds of signatures.
const (
	Root    Kind = "root"    // a cause
	Symptom Kind = "symptom" // a consequence: a cause only if there is no root
	Tail    Kind = "tail"    // says that something ended: never a cause
	Answer  Kind = "answer"  // a server's refusal of a request: a cause only of what a proxy or a client met
)

// A Signature is a line that a known failure prints.
type Signature struct {
	ID    string `json:"id"`
	Area  string `json:"area"`
	Kind  Kind   `json:"kind"`
	Regex string `json:"regex"`
	// Pending stands for a pattern: the reasons of that class for which a job waits.
	Pending pending.Class `json:"pending,omitempty"`
	Sample  string        `json:"sample"` // a line it must match
	// Role is the condition: the signature is tried only on logs of these
	// roles, separated by slashes. See conditions.
	Role string `json:"role"`
	Next string `json:"next"` // what to do about it
	// Command does so; "" if none does, and in the signatures of a site.
	Command result.Command `json:"command,omitempty"`
	Source  string         `json:"source"`
	Where   string         `json:"-"` // file:line:col of a site's own entry, for complaints
}

// name is how complaints call the signature.
func (s Signature) name() string {
	if s.Where != "" {
		return fmt.Sprintf("%s: signature %q", s.Where, s.ID)
	}
	return fmt.Sprintf("signature %q", s.ID)
}

// roles are the words that Role is made of.
var roles = []string{"any", "client", "decode", "dynamo", "job", "node", "prefill", "proxy", "queue", "ray", "server",
	"submit"}

// A Benign line looks like a failure and is none: no signature may match it.
type Benign struct {
	Line   string `json:"line"`
	Why    string `json:"why"`
	Source string `json:"source"`
}

// A Table is a compiled, ordered list of signatures. It is safe for
// concurrent use.
type Table struct {
	entries []entry
	byID    map[string]int
	filter  *automaton
	always  []int // entries without a literal the filter could look for
}

type entry struct {
	Signature
	re    *lazyregexp.Regexp // few of a table are ever put to a line
	roles []string
}

// Builtin returns the table that ships with the program, which is compiled when it is first asked for.
func Builtin() (*Table, error) { return builtinTable() }

var builtinTable = sync.OnceValues(func() (*Table, error) {
	signatures, _, err := builtin()
	if err != nil {
		return nil, err
	}
	return compile(signatures, 0)
})

// Signatures returns the table in the order in which lines are put to it.
func (t *Table) Signatures() []Signature {
	list := make([]Signature, len(t.entries))
	for i, e := range t.entries {
		list[i] = e.Signature
	}
	return list
}

func builtin() ([]Signature, []Benign, error) {
	var file struct {
		Signatures []Signature `json:"signatures"`
		Benign     []Benign    `json:"benign"`
	}
	if err := json.Unmarshal(signaturesJSON, &file); err != nil {
		return nil, nil, fmt.Errorf("decode built-in signatures: %w", err)
	}
	for i, s := range file.Signatures {
		if s.Pending != pending.Unknown {
			file.Signatures[i].Regex = pending.Pattern(s.Pending)
		}
	}
	return file.Signatures, file.Benign, nil
}

// With returns the built-in table with a site's signatures in front of it,
// after putting them to the checks that the built-in ones pass: the pattern
// compiles, matches its sample, is the first to match it, and matches no
// benign line. It returns every complaint.
func With(site []Signature) (*Table, error) {
	if len(site) == 0 {
		return Builtin()
	}
	signatures, benign, err := builtin()
	if err != nil {
		return nil, err
	}
	t, err := compile(slices.Concat(site, signatures), len(site))
	if err != nil {
		return nil, err
	}
	return t, t.check(len(site), benign)
}

// compile makes a table. The patterns of the first signatures are a site's, and may not compile.
func compile(signatures []Signature, site int) (*Table, error) {
	t := &Table{byID: map[string]int{}}
	var bad *multierror.Error
	var words [][]string
	for i, s := range signatures {
		first, twice := t.byID[s.ID]
		switch {
		case s.ID == "":
			bad = multierror.Append(bad, fmt.Errorf("signature %d has no id", i+1))
		case twice && signatures[first].Where != "":
			bad = multierror.Append(bad,
				fmt.Errorf("%s: another signature, built in or of the site, has this id", signatures[first].name()))
		case twice:
			bad = multierror.Append(bad, fmt.Errorf("%s is defined twice", s.name()))
		}
		if i < site {
			if _, err := regexp.Compile(s.Regex); err != nil {
				bad = multierror.Append(bad, fmt.Errorf("%s: %w", s.name(), err))
			}
		}
		if !slices.Contains([]Kind{Root, Symptom, Tail, Answer}, s.Kind) {
			bad = multierror.Append(bad,
				fmt.Errorf("%s: unknown kind %q; known: root, symptom, answer, tail", s.name(), s.Kind))
		}
		for _, r := range strings.Split(s.Role, "/") {
			if !slices.Contains(roles, r) {
				bad = multierror.Append(bad,
					fmt.Errorf("%s: unknown role %q; known: %s; separate several with slashes", s.name(), r,
						strings.Join(roles, ", ")))
			}
		}
		t.byID[s.ID] = i
		t.entries = append(t.entries, entry{s, lazyregexp.New(s.Regex), strings.Split(s.Role, "/")})
		lits := required(s.Regex)
		if lits == nil {
			t.always = append(t.always, i)
		}
		words = append(words, lits)
	}
	if err := lines(bad); err != nil {
		return nil, err
	}
	t.filter = newAutomaton(append(words, markerWords...))
	return t, nil
}

// check puts the first n signatures to the table's rules.
func (t *Table) check(n int, benign []Benign) error {
	var bad *multierror.Error
	for i, e := range t.entries[:n] {
		if !e.re.MatchString(e.Sample) {
			bad = multierror.Append(bad, fmt.Errorf("%s does not match its sample %.80q", e.name(), e.Sample))
		} else if first := t.first(e.Sample); first != i {
			bad = multierror.Append(bad,
				fmt.Errorf("%s: %q comes before it and matches its sample", e.name(), t.entries[first].ID))
		}
		for _, b := range benign {
			if e.re.MatchString(b.Line) {
				bad = multierror.Append(bad,
					fmt.Errorf("%s matches a line that is not a failure (%s): %.80q", e.name(), b.Why, b.Line))
			}
		}
	}
	return lines(bad)
}

// lines is every complaint on a line of its own, nil if there is none.
func lines(bad *multierror.Error) error {
	if bad != nil {
		bad.ErrorFormat = func(errs []error) string {
			text := make([]string, len(errs))
			for i, err := range errs {
				text[i] = err.Error()
			}
			return strings.Join(text, "\n")
		}
	}
	return bad.ErrorOrNil()
}

// first returns the first entry that matches the line, whatever its role, or -1.
func (t *Table) first(line string) int {
	return slices.IndexFunc(t.entries, func(e entry) bool { return e.re.MatchString(line) })
}

// meets reports whether the signature is to be tried on a log that meets the
// given conditions.
func (e *entry) meets(conditions []string) bool {
	if e.roles[0] == "any" || len(conditions) == 0 {
		return true
	}
	return slices.ContainsFunc(e.roles, func(r string) bool { return slices.Contains(conditions, r) })
}

// Conditions returns the roles of the table that a log of the named role
// stands for; nil, which means all of them, if the name says nothing. A
// suffix such as [0] or -1 is ignored. Whatever a step prints, srun and
// slurmstepd print into the same file, so each log of a role is also one of
// the job.
func Conditions(role string) []string {
	name := strings.ToLower(strings.TrimRight(role, "[]-_0123456789"))
	switch name {
	case "serve", "server", "vllm", "sglang", "offline", "aggregated":
		return []string{"server", "ray", "dynamo", "job"}
	case "prefill", "decode":
		return []string{name, "server", "ray", "dynamo", "job"}
	case "head", "worker", "ray", "ray-head", "ray-worker", "ray_head", "ray_worker":
		return []string{"server", "ray", "prefill", "decode", "dynamo", "job"}
	case "proxy", "router", "frontend", "ingress":
		return []string{"proxy", "dynamo", "job"}
	case "client", "bench", "eval", "gsm8k", "load":
		return []string{"client", "job"}
	case "etcd", "nats", "dynamo":
		return []string{"dynamo", "job"}
	case "job", "slurm", "batch":
		return []string{"job"}
	case "node", "dmesg", "kernel":
		return []string{"node"}
	case "submit", "queue":
		return []string{name}
	}
	return nil
}
