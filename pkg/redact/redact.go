// Package redact takes secrets out of text: what has the shape of one, and what
// is known to be one, in the spellings in which programs print it.
//
// It knows nothing of runs or files; whoever knows the values hands them over.
//
//	redact.Line("token hf_AbCdEfGhIjKlMnOp refused") // token [redacted] refused
package redact

import (
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
)

// Mark stands where a secret stood.
const Mark = "[redacted]"

// rule is one shape. Where a group matched, only the group is replaced, or what secret
// finds by a match, if the rule has that. A text without any of the hints, in lower case,
// has no match: most text has none. Nor has one without any of the characters in needs,
// where there are some.
type rule struct {
	name    string
	hints   []string
	pattern *lazyregexp.Regexp
	needs   string
	secret  func(s string, match []int) (start, end int)
}

// rules are tried in this order. Token formats: the vendors' own prefixes
// (Hugging Face, NVIDIA NGC, GitHub, GitLab, OpenAI and Anthropic, AWS, Google,
// Slack), RFC 6750, RFC 7617, RFC 7519, RFC 3986 section 3.2.1, RFC 7468.
var rules = []rule{
	{"token", []string{"hf_", "nvapi_", "nvapi-", "ghp_", "ghp-", "gho_", "gho-", "ghu_", "ghu-", "ghs_", "ghs-",
		"ghr_", "ghr-", "github_pat", "glpat", "sk-", "sk_", "xox"},
		lazyregexp.New(`\b(hf_|(?:nvapi|ghp|gho|ghu|ghs|ghr|github_pat|glpat|sk|xox[abprs])[_-])([A-Za-z0-9_-]{8,})`), "", tokenValue},
	{"aws-key-id", []string{"akia", "asia"}, lazyregexp.New(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), "", nil},
	{"google-key", []string{"aiza"}, lazyregexp.New(`\bAIza[A-Za-z0-9_-]{35}`), "", nil},
	{"jwt", []string{"eyj"}, lazyregexp.New(`\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+`), "",
		nil},
	{"header", []string{"bearer", "basic"},
		lazyregexp.New(`(?i)\b(?:bearer|authorization['"]?\s*[:=]\s*['"]?basic)\s+([A-Za-z0-9._~+/=-]{8,})`), "",
		nil},
	{"named", keyHints, lazyregexp.New(`(?i)\\*['"]?\b` + anyKey + `\\*['"]?\]?\s*[:=]=?\s*`), ":=", assignedValue},
	{"option", []string{"--"}, lazyregexp.New(`(?i)--` + anyKey + `(?:=|\s+)['"]?([^\s'",-][^\s'",]{3,})`),
		"= \t\n\v\f\r", optionValue},
	{"url", []string{"://"}, lazyregexp.New(`://(?:[^/\s:@'"]*:([^/\s@'"]+)|([A-Za-z0-9_+=-]{16,}))@`), "@",
		userinfo},
	{"private-key", []string{"private key"},
		lazyregexp.New(`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`), "", nil},
}

// A scenario may be called hf, and a test hf_llama_70b: what follows such a prefix is no
// token if it holds the time stamp of a run's directory, or, where the vendor's tokens have
// neither dash nor underscore, if it is made of short words.
var (
	runStamp   = lazyregexp.New(`^(?:[A-Za-z0-9]{0,19}[_-])*\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d`)
	unbroken   = lazyregexp.New(`^(?:hf|gh[pousr])_$`)
	shortWords = lazyregexp.New(`^(?:[a-z0-9]{1,15}[_-])+[a-z0-9]{0,15}$|^[a-z]{1,15}$`)
)

func tokenValue(s string, match []int) (start, end int) {
	prefix, value := s[match[2]:match[3]], s[match[4]:match[5]]
	if runStamp.MatchString(value) || unbroken.MatchString(prefix) && shortWords.MatchString(value) {
		return match[0], match[0]
	}
	return match[0], match[1]
}

// Line replaces what has the shape of a secret.
func Line(s string) string {
	lower := strings.ToLower(s)
	for _, r := range rules {
		if r.hinted(lower) && (r.needs == "" || strings.ContainsAny(s, r.needs)) {
			s = r.replace(s)
		}
	}
	return s
}

func (r rule) hinted(lower string) bool { return containsAny(lower, r.hints) }

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// Words does for the words of a command line what Setting does for its settings:
// the option --api-key, the variable HF_TOKEN=… and the header are keys.
func Words(words []string) []string {
	out := make([]string, len(words))
	follows := false
	for i, w := range words {
		out[i], follows = wordAfter(follows, w), expects(w, follows)
	}
	return out
}

// wordAfter is a word without what is secret in it; all of it where it follows an
// option whose value is a secret.
func wordAfter(option bool, w string) string {
	name, value, given := strings.Cut(w, "=")
	switch {
	case option && !strings.HasPrefix(w, "-") && w != "":
		return Mark
	case given && assigned.MatchString(name):
		return Line(name + "=" + Setting(name, value))
	}
	return inner(w)
}

// assigned is what stands before the first "=" of an option or a variable.
var assigned = lazyregexp.New(`^-{0,2}[A-Za-z_][A-Za-z0-9_.-]*$`)

// expects reports whether the word behind this one is a secret. --api-key takes
// several words.
func expects(word string, before bool) bool {
	if strings.HasPrefix(word, "-") {
		return !strings.Contains(word, "=") && Key(word)
	}
	return before
}

// Shaped reports whether some of s has the shape of a secret.
func Shaped(s string) bool { return Line(s) != s }

func (r rule) replace(s string) string {
	var b strings.Builder
	last := 0
	for _, m := range r.pattern.FindAllStringSubmatchIndex(s, -1) {
		if m[1] < last && strings.TrimLeft(s[m[1]:last], `\`) != "" {
			continue // its value begins within what was taken out, which may be long
		}
		start, end := group(m)
		if r.secret != nil {
			start, end = r.secret(s, m)
		}
		if start < last || start == end || s[start:end] == Mark {
			continue
		}
		b.WriteString(s[last:start])
		b.WriteString(Mark)
		last = end
	}
	if last == 0 {
		return s
	}
	b.WriteString(s[last:])
	return b.String()
}

// group is the last group that matched, or all of the match.
func group(m []int) (start, end int) {
	start, end = m[0], m[1]
	for g := 2; g < len(m); g += 2 {
		if m[g] >= 0 {
			start, end = m[g], m[g+1]
		}
	}
	return start, end
}
