// Package commandline answers questions about a command line from its kong model: which command it names,
// whether it asks for help or for JSON, what is wrong with it, and how its last word can be completed.
package commandline

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/source"
)

// WithHelp adds --help to a command line that names no verb: profllm, profllm slurm.
func WithHelp(root *kong.Node, args []string) []string {
	node, rest := Command(root, args)
	if len(rest) == 0 && len(node.Children) > 0 {
		return append(slices.Clone(args), "--help")
	}
	return args
}

// Command is the command that the first words name, and the words behind it.
func Command(node *kong.Node, args []string) (*kong.Node, []string) {
	for i, word := range args {
		next := child(node, word)
		if next == nil {
			return node, args[i:]
		}
		node = next
	}
	return node, nil
}

func child(node *kong.Node, word string) *kong.Node {
	for _, c := range node.Children {
		if c.Name == word || slices.Contains(c.Aliases, word) {
			return c
		}
	}
	return nil
}

// UsageError says what is wrong with a command line, and what to type. err is the parser's own, nil if
// the only mistake is the name of a command; near is a hint about a file that is not there, "" for none.
func UsageError(root *kong.Node, args []string, err error, near string) error {
	node, rest := Command(root, args)
	help := node.FullPath() + " --help"
	if len(node.Children) > 0 && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		hint := "list the commands: " + help
		if near := nearestCommand(root, node, rest[0]); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return fmt.Errorf("%s: there is no command %q\n\thint: %s", root.Name,
			strings.TrimPrefix(node.FullPath()+" "+rest[0], root.Name+" "), hint)
	}
	text := err.Error()
	if what, ok := strings.CutPrefix(text, "expected "); ok && len(node.Children) == 0 {
		text = "missing argument " + strings.ReplaceAll(what, `"`, "")
	}
	if near != "" {
		return fmt.Errorf("%s: %s%s", node.FullPath(), strings.Replace(text, "stat ", "", 1), near)
	}
	var parse *kong.ParseError
	if errors.As(err, &parse) && len(node.Children) == 0 {
		return fmt.Errorf("%s: %s\n\thint: %s", node.FullPath(), text, help)
	}
	return fmt.Errorf("%s: %s\n\thint: %s", root.Name, text, help)
}

// nearestCommand is the command that a word was probably meant to name: one of the same
// group, one of that name in another group, or one of nearly that name anywhere.
func nearestCommand(root, group *kong.Node, word string) string {
	paths := map[string]string{}
	var names []string
	_ = kong.Visit(root, func(v kong.Visitable, next kong.Next) error {
		n, ok := v.(*kong.Node)
		if ok && n.Hidden {
			return nil
		}
		if ok && n != root {
			if _, known := paths[n.Name]; !known {
				paths[n.Name], names = n.FullPath(), append(names, n.Name)
			}
		}
		return next(nil)
	})
	var here []string
	for _, c := range group.Children {
		if !c.Hidden {
			here = append(here, c.Name)
		}
	}
	if path := paths[word]; path != "" {
		return path
	}
	if near := source.Nearest(word, here); near != "" {
		return child(group, near).FullPath()
	}
	return paths[source.Nearest(word, names)]
}

// AsksJSON reports whether a command is to answer in JSON.
func AsksJSON(k *kong.Context) bool {
	for _, f := range k.Flags() {
		if f.Name == "output" && slices.Contains(strings.Split(f.Enum, ","), "json") {
			return k.FlagValue(f) == "json"
		}
	}
	return false
}

// LooksLikeJSON reports the same of words that are no command.
func LooksLikeJSON(words []string) bool {
	i := slices.Index(words, "--output")
	return slices.Contains(words, "--output=json") || i >= 0 && i+1 < len(words) && words[i+1] == "json"
}
