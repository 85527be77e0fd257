package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// frequent are the commands that a job calls again and again. To build the model of all commands takes
// longer than what most of them do, so they have a smaller one.
type frequent struct {
	Job   jobCmd `cmd:"" hidden:"" help:"Used by job scripts inside an allocation."`
	Bench struct {
		Serve benchServeCmd `cmd:"" help:"Run the load client, with the flags and results of vllm bench serve."`
	} `cmd:"" help:"Measure a running server."`

	Wide bool `help:"Show tables whole, even if they are wider than the terminal."`
}

// parseFrequent parses a command of frequent. It returns nil for any other command line, and for one that
// asks for help or has a mistake, of which the parser of all commands speaks.
func (a *app) parseFrequent(args []string) (*kong.Kong, *kong.Context) {
	if len(args) < 2 || args[0] != "job" && !(args[0] == "bench" && args[1] == "serve") {
		return nil, nil
	}
	for _, arg := range args {
		if arg == "-h" || strings.HasPrefix(arg, "--help") || strings.HasPrefix(arg, "--version") {
			return nil, nil
		}
	}
	var c frequent
	parser, err := parserOf(a, &c, func(int) {})
	if err != nil {
		return nil, nil
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return nil, nil
	}
	a.wide = c.Wide
	return parser, kctx
}
