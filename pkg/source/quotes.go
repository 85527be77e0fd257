package source

import "fmt"

// Unquote takes off the single quotes around an option's value: users of CloudAI had
// to write them, because it quotes nothing itself.
func Unquote(s string) string {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	return s
}

// UnquotedNotes has a line for each option of t that Unquote changes; name is the
// table's.
func (t *Table) UnquotedNotes(name string) []string {
	var notes []string
	for _, key := range t.Keys() {
		values := []*Value{t.Get(key)}
		if list, ok := values[0].Any.([]*Value); ok {
			values = list
		}
		for _, v := range values {
			if s, ok := v.Any.(string); ok && Unquote(s) != s {
				notes = append(notes,
					fmt.Sprintf("%s: %s.%s is passed without its outer single quotes, as CloudAI's shell passes it: %s",
						t.PosOf(key), name, key, Unquote(s)))
			}
		}
	}
	return notes
}
