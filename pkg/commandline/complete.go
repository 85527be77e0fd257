package commandline

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// The scripts ask this program for candidates, so they never grow old.
var (
	//go:embed completion/bash
	bashCompletion string
	//go:embed completion/zsh
	zshCompletion string
	//go:embed completion/fish
	fishCompletion string
)

// Script is the completion script of a shell: bash, zsh or fish.
func Script(shell string) string {
	return map[string]string{"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion}[shell]
}

// Candidate is a word that may stand at the cursor, and its help.
type Candidate struct{ Word, Help string }

// Candidates lists what the last of the words up to the cursor may become, or says that it is a
// file. Words are without the program's name; the last one may be empty.
func Candidates(root *kong.Node, words []string) (list []Candidate, files bool) {
	if len(words) == 0 {
		words = []string{""}
	}
	words = joinEquals(words)
	done, current := words[:len(words)-1], words[len(words)-1]
	at, positionals, waiting, onlyArgs := walk(root, done)
	if at.DefaultCmd != nil && (strings.HasPrefix(current, "-") || !begun(at, current)) {
		at = at.DefaultCmd
	}
	name, value, assigned := strings.Cut(current, "=")
	switch {
	case waiting != nil:
		return values(waiting.Value, "", current)
	case !onlyArgs && assigned && strings.HasPrefix(name, "--"):
		flag := findFlag(at, name)
		if flag == nil || flag.IsBool() {
			return nil, false
		}
		return values(flag.Value, name+"=", value)
	case !onlyArgs && strings.HasPrefix(current, "-"):
		return flags(at, current), false
	case len(at.Children) > 0:
		for _, child := range at.Children {
			if !child.Hidden && strings.HasPrefix(child.Name, current) {
				list = append(list, Candidate{child.Name, child.Help})
			}
		}
		return list, false
	case len(at.Positional) == 0:
		return nil, false
	}
	p := at.Positional[min(positionals, len(at.Positional)-1)]
	if positionals >= len(at.Positional) && !p.IsCumulative() {
		return nil, false
	}
	return values(p, "", current)
}

// begun reports whether a word is the beginning of a command of a group.
func begun(at *kong.Node, word string) bool {
	return slices.ContainsFunc(at.Children, func(n *kong.Node) bool {
		return !n.Hidden && strings.HasPrefix(n.Name, word)
	})
}

// joinEquals undoes what bash does to --flag=value: it makes three words of it,
// and completes the last one.
func joinEquals(words []string) []string {
	var out []string
	for i, w := range words {
		last := i == len(words)-1
		switch {
		case w == "=" && last && len(out) > 0 && strings.HasPrefix(out[len(out)-1], "--"):
			out = append(out, "")
		case w == "=" && len(out) > 0 && strings.HasPrefix(out[len(out)-1], "--"):
			// the value follows as the flag's next word
		default:
			out = append(out, w)
		}
	}
	return out
}

// walk goes through the words before the cursor: the command they name, the
// positional arguments it has so far, and the flag that waits for its value.
func walk(root *kong.Node, words []string) (at *kong.Node, positionals int, waiting *kong.Flag, onlyArgs bool) {
	at = root
	for _, w := range words {
		switch {
		case waiting != nil:
			waiting = nil
		case !onlyArgs && w == "--":
			onlyArgs = true
		case !onlyArgs && len(w) > 1 && strings.HasPrefix(w, "-"):
			if at.DefaultCmd != nil {
				at = at.DefaultCmd
			}
			if flag := findFlag(at, w); flag != nil && !flag.IsBool() {
				waiting = flag
			}
		default:
			i := slices.IndexFunc(at.Children,
				func(n *kong.Node) bool { return n.Name == w || slices.Contains(n.Aliases, w) })
			switch {
			case i >= 0:
				at = at.Children[i]
			case at.DefaultCmd != nil:
				at, positionals = at.DefaultCmd, positionals+1
			default:
				positionals++
			}
		}
	}
	return at, positionals, waiting, onlyArgs
}

// findFlag finds --name or -n; one with its value behind = is none.
func findFlag(at *kong.Node, word string) *kong.Flag {
	for _, group := range at.AllFlags(false) {
		for _, f := range group {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) ||
				slices.Contains(f.Aliases, strings.TrimPrefix(word, "--")) {
				return f
			}
		}
	}
	return nil
}

func flags(at *kong.Node, prefix string) []Candidate {
	var list []Candidate
	for _, group := range at.AllFlags(true) {
		for _, f := range group {
			if word := "--" + f.Name; strings.HasPrefix(word, prefix) {
				enum := strings.ReplaceAll(f.Enum, ",", ", ")
				list = append(list, Candidate{word, strings.ReplaceAll(f.Help, "${enum}", enum)})
			}
		}
	}
	slices.SortFunc(list, func(a, b Candidate) int { return strings.Compare(a.Word, b.Word) })
	return list
}

// pathWords are placeholders of flags and names of arguments that are paths.
var pathWords = []string{"FILE", "DIR", "FOLDER", "PATH"}

// values lists what a flag or an argument may be. A value without an enumeration
// is a file, unless it is a flag that says otherwise.
func values(v *kong.Value, head, prefix string) (list []Candidate, files bool) {
	if v.Enum != "" {
		for _, e := range v.EnumSlice() {
			if e != "" && strings.HasPrefix(e, prefix) {
				list = append(list, Candidate{head + e, ""})
			}
		}
		return list, false
	}
	if v.Flag == nil {
		return nil, true
	}
	path := slices.Contains([]string{"existingfile", "existingdir", "path"}, v.Tag.Type)
	return nil, path || slices.Contains(pathWords, v.Flag.PlaceHolder)
}
