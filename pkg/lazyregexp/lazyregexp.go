// Package lazyregexp compiles a regular expression when it is first used: a command pays for those that it uses, not for
// all. It is for package variables. A pattern that does not compile panics at its first use; a test of depcheck compiles
// all of them.
//
//	var version = lazyregexp.New(`^v?(\d+)\.(\d+)`)
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression with the methods of regexp.Regexp. It is safe for concurrent use.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns the expression of a pattern.
func New(pattern string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })}
}

func (r *Regexp) MatchString(s string) bool            { return r.compiled().MatchString(s) }
func (r *Regexp) Match(b []byte) bool                  { return r.compiled().Match(b) }
func (r *Regexp) FindString(s string) string           { return r.compiled().FindString(s) }
func (r *Regexp) FindStringIndex(s string) []int       { return r.compiled().FindStringIndex(s) }
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }
func (r *Regexp) FindStringSubmatchIndex(s string) []int {
	return r.compiled().FindStringSubmatchIndex(s)
}
func (r *Regexp) FindIndex(b []byte) []int               { return r.compiled().FindIndex(b) }
func (r *Regexp) FindSubmatch(b []byte) [][]byte         { return r.compiled().FindSubmatch(b) }
func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }
func (r *Regexp) FindAllStringIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringIndex(s, n)
}
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}
func (r *Regexp) FindAllIndex(b []byte, n int) [][]int { return r.compiled().FindAllIndex(b, n) }
func (r *Regexp) FindAllSubmatch(b []byte, n int) [][][]byte {
	return r.compiled().FindAllSubmatch(b, n)
}
func (r *Regexp) ReplaceAllString(s, by string) string { return r.compiled().ReplaceAllString(s, by) }
func (r *Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r.compiled().ReplaceAllStringFunc(s, by)
}
func (r *Regexp) ReplaceAll(b, by []byte) []byte { return r.compiled().ReplaceAll(b, by) }
func (r *Regexp) ReplaceAllFunc(b []byte, by func([]byte) []byte) []byte {
	return r.compiled().ReplaceAllFunc(b, by)
}
func (r *Regexp) ReplaceAllLiteral(b, by []byte) []byte { return r.compiled().ReplaceAllLiteral(b, by) }
func (r *Regexp) String() string                        { return r.compiled().String() }
