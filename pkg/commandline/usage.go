package commandline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/lazyregexp"
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

// Command is the command that the first words name, and the words behind it. Words that name no
// command of a group are those of its default command, if it has one.
func Command(node *kong.Node, args []string) (*kong.Node, []string) {
	for i, word := range args {
		next := child(node, word)
		if next == nil && node.DefaultCmd != nil {
			return node.DefaultCmd, args[i:]
		}
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

// noValue is what kong says of a missing value of a type that reads itself.
var noValue = lazyregexp.New(`: expected \S+ value but got ".*" \(.*\)(; perhaps try .*)?$`)

// UsageError says what is wrong with a command line, and what to type. err is the parser's own,
// nil if the only mistake is the name of a command; near is a hint about a file that is not
// there, "" for none.
func UsageError(root *kong.Node, args []string, err error, near string) error {
	node, rest := Command(root, args)
	help := node.FullPath() + " --help"
	if len(node.Children) > 0 && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		hint := "list the commands: " + help
		if near := meantCommands(root, node, rest[0]); len(near) > 0 {
			hint = "did you mean " + either(near) + "?"
		}
		return fmt.Errorf("%s: there is no command %q\n\thint: %s", root.Name,
			strings.TrimPrefix(node.FullPath()+" "+rest[0], root.Name+" "), hint)
	}
	// kong names the command in front of what its Validate says
	text := strings.TrimPrefix(err.Error(), node.Path()+": ")
	if what, ok := strings.CutPrefix(text, "expected "); ok && len(node.Children) == 0 {
		text = "missing argument " + strings.ReplaceAll(what, `"`, "")
	}
	text = noValue.ReplaceAllString(text, ": the value is missing")
	var choice *choiceError
	if word, ok := strings.CutPrefix(text, "unknown flag "); ok {
		word, _, _ = strings.Cut(word, ",")
		text, help = "unknown flag "+word, cmp.Or(meantFlag(node, word, rest), help)
	} else if errors.As(err, &choice) {
		help = cmp.Or(choice.hint(node), help)
	}
	if near != "" {
		return fmt.Errorf("%s: %s%s", node.FullPath(), strings.Replace(text, "stat ", "", 1), near)
	}
	if !strings.Contains(text, "\n\thint: ") { // a value of a type that reads itself may say what to do
		text += "\n\thint: " + help
	}
	var parse *kong.ParseError
	if errors.As(err, &parse) && len(node.Children) == 0 {
		return fmt.Errorf("%s: %s", node.FullPath(), text)
	}
	return fmt.Errorf("%s: %s", root.Name, text)
}

// either is a list as a sentence has it: a, b or c.
func either(list []string) string {
	last := len(list) - 1
	if last < 1 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:last], ", ") + " or " + list[last]
}

// meantTag is the tag of a command, a flag or an argument that lists other words for its name,
// which people type who know other programs.
const meantTag = "meant"

// meant reports whether a word is another one for what the tag is of.
func meant(tag *kong.Tag, word string) bool {
	return tag != nil && tag.Has(meantTag) && slices.Contains(strings.Split(tag.Get(meantTag), ","), word)
}

// meantCommands are the commands, quoted, that a word was probably meant to name: those that list
// the word, those of that name in another group, or the one of nearly that name. Those of the same
// group go before.
func meantCommands(root, group *kong.Node, word string) []string {
	paths := map[string]string{}
	var names, listed, own []string
	_ = kong.Visit(root, func(v kong.Visitable, next kong.Next) error {
		n, ok := v.(*kong.Node)
		if ok && n.Hidden {
			return nil
		}
		if ok && n != root {
			switch had, known := paths[n.Name]; {
			case !known:
				paths[n.Name], names = n.FullPath(), append(names, n.Name)
			case strings.Count(n.FullPath(), " ") < strings.Count(had, " "):
				paths[n.Name] = n.FullPath() // in no group, or in one less
			}
			if meant(n.Tag, word) {
				listed = append(listed, strconv.Quote(n.FullPath()))
				if n.Parent == group && group != root {
					own = append(own, strconv.Quote(n.FullPath()))
				}
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
	if len(own) > 0 {
		return own
	}
	if len(listed) > 0 {
		return listed
	}
	near := paths[word]
	if name := source.Nearest(word, here); near == "" && name != "" {
		near = child(group, name).FullPath()
	}
	if near = cmp.Or(near, paths[source.Nearest(word, names)]); near == "" {
		return nil
	}
	return []string{strconv.Quote(near)}
}

// meantFlag is a hint at the flag that a word was probably meant to name, "" if there is none
// near. A word like "--format html" may mean the flag --html, and a flag may mean an argument.
func meantFlag(node *kong.Node, word string, rest []string) string {
	name, value := strings.TrimPrefix(word, "--"), ""
	for i, r := range rest {
		if assigned, ok := strings.CutPrefix(r, word+"="); ok {
			value = assigned
		} else if r == word && i+1 < len(rest) {
			value = rest[i+1]
		}
	}
	for _, p := range node.Positional {
		if meant(p.Tag, name) {
			return fmt.Sprintf("name the %s as the argument: %s <%s>", p.Name, node.FullPath(), p.Name)
		}
	}
	var names []string
	for _, group := range node.AllFlags(true) {
		for _, f := range group {
			names = append(names, f.Name)
			if !meant(f.Tag, name) {
				continue
			}
			if other := findFlag(node, "--"+value); value != "" && other != nil {
				f = other
			}
			return fmt.Sprintf("did you mean %s?", usage(f))
		}
	}
	if near := source.Nearest(name, names); near != "" && len(name) > 2 {
		return fmt.Sprintf("did you mean --%s?", near)
	}
	return ""
}

// usage is a flag with what follows it.
func usage(f *kong.Flag) string {
	if f.IsBool() || f.PlaceHolder == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + " " + f.PlaceHolder
}

// AsksJSON reports whether a command is to answer in JSON.
func AsksJSON(k *kong.Context) bool {
	for _, f := range k.Flags() {
		if f.Name == "output" && f.Default == "text" { // else it names what is written
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
