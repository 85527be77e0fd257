package config

import (
	"regexp"

	"github.com/profllm/profllm/pkg/source"
)

// Signature is a line that a failure of this site prints. It is tried before the
// built-in ones.
type Signature struct {
	ID   string `toml:"id,required"` // Names the cause; not one of the built-in ones.
	Area string `toml:"area"`        // What the failure is about, e.g. filesystem; default "site".
	// root (default): a cause; symptom: a cause if there is no root; tail: never a cause.
	Kind   string `toml:"kind"`
	Regex  string `toml:"regex,required"`  // Go regular expression, searched for in each line.
	Sample string `toml:"sample,required"` // A line that the expression matches.
	// Logs that are searched: any (default), job, client, proxy, server, prefill, decode, ray,
	// node; several with slashes.
	Role string `toml:"role"`
	Next string `toml:"next,required"` // What to do about the failure.

	Pos source.Pos `toml:"-"`
}

// UnmarshalSource reads a signature, and tries it on its sample.
func (s *Signature) UnmarshalSource(v *source.Value) error {
	t, ok := v.Any.(*source.Table)
	if !ok {
		return source.Errorf(v.Pos, "a signature must be a table, not %s", v.Describe()).Hintf("write [[signatures]]")
	}
	var c source.Complaints
	type plain Signature
	*s = Signature{Area: "site", Kind: "root", Role: "any", Pos: t.Pos}
	c.Add(source.Decode(t, (*plain)(s)))
	re, err := regexp.Compile(s.Regex)
	switch {
	case err != nil:
		c.Addf(t.PosOf("regex"), "signature %q: %v", s.ID, err)
	case s.Sample != "" && !re.MatchString(s.Sample):
		c.Add(source.Errorf(t.PosOf("sample"), "signature %q does not match its sample %.80q", s.ID, s.Sample).
			Hintf("set sample to a line that the regex %q matches", s.Regex))
	}
	return c.Err()
}
