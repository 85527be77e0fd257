package main

import (
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// parseNamed parses a command line with a parser of nothing but the command that it names: building the model of all
// commands takes longer than most commands do. It returns nil for a line that names no command, asks for help or has
// a mistake, and for the commands that look at the model: the parser of all commands reads those.
func (a *app) parseNamed(args []string) (*kong.Kong, *kong.Context) {
	if len(args) == 0 || slices.Contains([]string{"help", "complete"}, args[0]) || slices.ContainsFunc(args, asksForHelp) {
		return nil, nil
	}
	only, ok := named(reflect.TypeFor[cli](), args)
	if !ok {
		return nil, nil
	}
	c := reflect.New(only)
	parser, err := newParser(a, c.Interface(), func(int) {})
	if err != nil {
		return nil, nil
	}
	kctx, err := parser.Parse(args)
	if err != nil {
		return nil, nil
	}
	a.wide = c.Elem().FieldByName("Wide").Bool()
	return parser, kctx
}

func asksForHelp(arg string) bool {
	return arg == "-h" || strings.HasPrefix(arg, "--help") || strings.HasPrefix(arg, "--version")
}

// named returns a struct of commands without those that words do not name: the first word names one of its fields, the
// second one of that field's, as long as these are commands. It is false if there is no such command.
func named(group reflect.Type, words []string) (only reflect.Type, ok bool) {
	var fields []reflect.StructField
	commands := false
	for f := range group.Fields() {
		if _, command := f.Tag.Lookup("cmd"); command {
			commands = true
			if len(words) == 0 || commandName(f) != words[0] {
				continue
			}
			if f.Type, ok = named(f.Type, words[1:]); !ok {
				return nil, false
			}
		}
		fields = append(fields, f)
	}
	switch {
	case !commands:
		return group, true
	case !ok:
		return nil, false
	}
	return reflect.StructOf(fields), true
}

// commandName is the name of a command's field, as kong has it.
func commandName(f reflect.StructField) string {
	if name := f.Tag.Get("name"); name != "" {
		return name
	}
	return strings.ToLower(f.Name)
}
