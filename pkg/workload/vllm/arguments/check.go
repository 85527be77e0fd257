package arguments

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// A Refusal is why no release that a version can mean takes an option.
type Refusal struct {
	Release string // one of these releases: the newest, or the newest that has the option
	Words   string // the words of its parser
	Unknown bool   // no release of the catalogue has the option
	Member  string // of a JSON object, with dots, if it is about one
	Unused  bool   // vLLM takes the member, and does nothing with it
	absent  bool   // the release does not have the member
	Hint    string // what to do instead, "" if that is not known
}

// Check says why the program of a version would refuse one option, written as words of its
// command line: nil if a release that the version can mean takes it (see At), with the words as
// Parse returns them. Without a version, the newest release that has the option and its members
// decides. Unknown options of releases newer than the catalogue are taken.
func (p *Program) Check(version, name string, values ...string) ([]string, *Refusal) {
	words := append([]string{name}, values...)
	list, newer := p.At(version)
	if version == "" {
		list = []*Release{p.newestWith(words[0])}
	}
	var refusal *Refusal
	for _, r := range slices.Backward(list) {
		args, err := r.option(words)
		if err == nil {
			return args, nil
		}
		if refusal == nil || refusal.Unknown && r.has(words[0]) {
			refusal = &Refusal{Release: r.Version, Words: message(err), Unknown: !r.has(words[0])}
			if e, ok := errors.AsType[*usageError](err); ok {
				refusal.Member, refusal.Hint, refusal.Unused = e.member.path, e.member.hint, e.unused
				refusal.absent = e.member.absent
			}
		}
	}
	if refusal == nil {
		return words, nil
	}
	refusal.Hint = cmp.Or(refusal.Hint, p.hint(refusal, list, words))
	_, known := p.Find(nameOf(words[0]))
	_, negated := p.Find(strings.Replace(nameOf(words[0]), "--no-", "--", 1))
	refusal.Unknown = refusal.Unknown && !known && !negated
	if refusal.Unknown && newer {
		return words, nil
	}
	taker := p.newestThatTakes(words)
	if version == "" && taker != nil && refusal.absent && hasMembers(nameOf(words[0]), taker.Version) {
		args, _ := taker.option(words)
		return args, nil // an earlier release has the member
	}
	if version == "" && taker != nil && refusal.Hint == "" {
		refusal.Hint = fmt.Sprintf("vLLM %s takes it: set cmd_args.engine_version if your release does", taker.Version)
	}
	return nil, refusal
}

// Takes reports whether any release takes an option with its values.
func (p *Program) Takes(name string, values ...string) bool {
	return p.newestThatTakes(append([]string{name}, values...)) != nil
}

// Says is the refusal in a sentence.
func (r *Refusal) Says() string {
	if r.Unused {
		return fmt.Sprintf("vLLM %s does not use it: %s", r.Release, r.Words)
	}
	return fmt.Sprintf("vLLM %s says: %s", r.Release, r.Words)
}

// Lacks reports whether no release that a version can mean has an option.
func (p *Program) Lacks(version, name string) bool {
	list, _ := p.At(version)
	return len(list) > 0 && !slices.ContainsFunc(list, func(r *Release) bool { _, ok := r.names[name]; return ok })
}

// option parses the words of one option. None of its values may be another option.
func (r *Release) option(words []string) ([]string, error) {
	line := words
	if r.program.model {
		line = append([]string{"model"}, words...)
	}
	args, err := r.parseFor(line, true)
	if err != nil {
		return nil, err
	}
	args = args[len(line)-len(words):]
	for _, arg := range args[min(1, len(args)):] {
		if strings.HasPrefix(arg, "--") {
			return nil, refused("argument %s: %s would be another option", words[0], arg)
		}
	}
	return args, nil
}

// newestWith is the newest release that knows an option's name, or the newest of all.
func (p *Program) newestWith(word string) *Release {
	for _, r := range slices.Backward(p.releases()) {
		if r.load().has(word) {
			return r
		}
	}
	return p.Newest()
}

func (p *Program) newestThatTakes(words []string) *Release {
	for _, r := range slices.Backward(p.releases()) {
		if _, err := r.load().option(words); err == nil {
			return r
		}
	}
	return nil
}

// message is what the parser says, without the end of a long list.
func message(err error) string {
	const most = 240
	_, text, _ := strings.Cut(err.Error(), "error: ")
	if len(text) <= most {
		return text
	}
	if i := strings.LastIndex(text[:most], ", "); i > 0 {
		return text[:i] + ", …"
	}
	return text
}

func nameOf(word string) string {
	name, _, _ := strings.Cut(word, "=")
	name, _, _ = strings.Cut(name, ".")
	return name
}

func (r *Release) has(word string) bool {
	o, _, _, err := r.look(word)
	return o != nil || err != nil
}

// hint finds what was meant: the successor of an option that the releases lack, when they got it,
// or the choice that is nearly the one given.
func (p *Program) hint(f *Refusal, list []*Release, words []string) string {
	name := nameOf(words[0])
	o, known := p.Find(name)
	if positive, no := strings.CutPrefix(name, "--no-"); !known && no {
		if o, known := p.Find(positive); known {
			return fmt.Sprintf("%s has no negation: remove it", o.Name)
		}
	}
	switch {
	case f.Unknown && p.lacking[o.Name]:
		return "cmd_args.build says that your build lacks it: remove it"
	case f.Unknown && known && o.Removed() != "" && compare(o.Removed(), list[0].Version) <= 0:
		if !list[len(list)-1].has(strings.Fields(o.Successor + " -")[0]) {
			o.Successor = ""
		}
		return o.Removal()
	case f.Unknown && known:
		return fmt.Sprintf("vLLM has it since %s", o.Forms[0].Since)
	case f.Unknown:
		return ""
	}
	return nearChoice(list[len(list)-1], words)
}

// Check says why the release's program would not start with a command line, as far as that
// does not depend on the model and the GPUs, and what of it is probably not meant.
func (r *Release) Check(args []string) (warnings []string, err error) {
	parsed, err := r.parseFor(args, true)
	if e, ok := errors.AsType[*usageError](err); ok && e.unused {
		return nil, fmt.Errorf("vLLM %s does not use all of it: %s", r.Version, e.text)
	}
	if err != nil {
		return nil, fmt.Errorf("vLLM %s says: %w", r.Version, err)
	}
	if !r.program.model {
		return nil, nil
	}
	if warnings, err = startable(parsed); err != nil {
		err = fmt.Errorf("vLLM does not start with these options: %w", err)
	}
	return warnings, err
}

func nearChoice(r *Release, words []string) string {
	option, _, value, err := r.look(words[0])
	if err != nil || option == nil {
		return ""
	}
	values := words[1:]
	if value != nil {
		values = []string{*value}
	}
	for _, v := range values {
		if near := source.Nearest(v, option.Choices); near != "" && !slices.Contains(option.Choices, v) {
			return "did you mean " + near + "?"
		}
	}
	return ""
}
