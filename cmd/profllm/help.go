package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/campaign"
	"github.com/profllm/profllm/pkg/commandline"
)

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"A command, such as slurm submit; default: all commands."`
}

// Run prints what --help prints of the command.
func (c helpCmd) Run(ctx context.Context, a *app, parser *kong.Kong) error {
	node, rest := commandline.Command(parser.Model.Node, c.Command)
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

// usageError says what is wrong with a command line. err is the parser's.
func usageError(parser *kong.Kong, args []string, err error) error {
	return commandline.UsageError(parser.Model.Node, args, err, campaign.Missing(err))
}

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

// Run prints a script for the shell to read.
func (c completionCmd) Run(a *app) error {
	_, err := fmt.Fprint(a.stdout, commandline.Script(c.Shell))
	return err
}

// completeCmd is what the scripts call: the words up to the cursor, without the
// program's name; the last one may be empty.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:"" help:"-- and the words to complete."`
}

// Run prints a candidate and its help, with a tab between, on each line; :files alone asks the
// shell for the names of files.
func (c completeCmd) Run(a *app, k *kong.Kong) error {
	list, files := commandline.Candidates(k.Model.Node, behindDashes(c.Words))
	if files {
		_, err := fmt.Fprintln(a.stdout, ":files")
		return err
	}
	for _, x := range list {
		help, _, _ := strings.Cut(x.Help, "\n")
		if _, err := fmt.Fprintf(a.stdout, "%s\t%s\n", x.Word, help); err != nil {
			return err
		}
	}
	return nil
}
