package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/source"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"A command, such as slurm submit; default: all commands."`
}

// Run prints what --help prints of the command.
func (c helpCmd) Run(ctx context.Context, a *app, parser *kong.Kong) error {
	node, rest := reached(parser.Model.Node, c.Command)
	if len(rest) > 0 && len(node.Children) > 0 {
		return fail(exitUsage, usageError(parser, c.Command, nil))
	}
	named := c.Command[:len(c.Command)-len(rest)]
	kctx, err := parser.Parse(append(slices.Clone(named), "--help"))
	switch {
	case a.helped:
		return nil
	case err != nil:
		return err
	}
	kctx.BindTo(ctx, (*context.Context)(nil))
	return kctx.Run(a, parser) // proxy reads its flags itself
}

// helpInstead asks for help where a command line names no verb: profllm, profllm slurm.
func helpInstead(parser *kong.Kong, args []string) []string {
	node, rest := reached(parser.Model.Node, args)
	if len(rest) == 0 && len(node.Children) > 0 {
		return append(slices.Clone(args), "--help")
	}
	return args
}

// reached is the command that the first words name, and the words behind it.
func reached(node *kong.Node, args []string) (*kong.Node, []string) {
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

// usageError says what is wrong with a command line, and what to type. err is the
// parser's own, nil if the only mistake is the name of a command.
func usageError(parser *kong.Kong, args []string, err error) error {
	node, rest := reached(parser.Model.Node, args)
	help := node.FullPath() + " --help"
	if len(node.Children) > 0 && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		hint := "list the commands: " + help
		if meant := meantCommand(parser.Model.Node, node, rest[0]); meant != "" {
			hint = fmt.Sprintf("did you mean %q?", meant)
		}
		return fmt.Errorf("profllm: there is no command %q\n\thint: %s", strings.TrimPrefix(node.FullPath()+" "+rest[0], "profllm "), hint)
	}
	text := err.Error()
	if what, ok := strings.CutPrefix(text, "expected "); ok && len(node.Children) == 0 {
		text = "missing argument " + strings.ReplaceAll(what, `"`, "")
	}
	if near := campaign.Missing(err); near != "" {
		return fmt.Errorf("%s: %s%s", node.FullPath(), strings.Replace(text, "stat ", "", 1), near)
	}
	var parse *kong.ParseError
	if errors.As(err, &parse) && len(node.Children) == 0 {
		return fmt.Errorf("%s: %s\n\thint: %s", node.FullPath(), text, help)
	}
	return fmt.Errorf("profllm: %s\n\thint: %s", text, help)
}

// meantCommand is the command that a word was probably meant to name: one of the same
// group, one of that name in another group, or one of nearly that name anywhere.
func meantCommand(root, group *kong.Node, word string) string {
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
