package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/document"
	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/summary"
	"github.com/profllm/profllm/pkg/terminal"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

type argsCaptureCmd struct {
	ofFlag
	Release string `placeholder:"VERSION" help:"Release of vLLM to compare with; default: what COMMAND --version prints, and with --text the newest that profllm knows."`
	Text    string `placeholder:"FILE" help:"Read a saved output of vllm serve --help=all instead of calling vLLM; - is standard input."`
	TOML    bool   `name:"toml" help:"Print the differences as the table cmd_args.build.serve (or .bench) of a test, which then takes what this vLLM takes."`
	outputFlag
	Command []string `arg:"" optional:"" passthrough:"" help:"How vLLM is called, such as apptainer exec IMAGE vllm; default: vllm."`
}

// Run compares an installation with the catalogue.
func (c argsCaptureCmd) Run(ctx context.Context, a *app) error {
	text, version, err := c.help(ctx, a)
	if err != nil {
		return fail(exitUsage, err)
	}
	options, err := arguments.Help(text)
	if err != nil {
		return fail(exitUsage, err)
	}
	p := c.program()
	list, newer := p.At(cmp.Or(version, p.Newest().Version))
	if len(list) == 0 {
		return fail(exitUsage, fmt.Errorf("the catalogue has no vLLM %s: it has %s to %s", version, p.Oldest().Version,
			p.Newest().Version))
	}
	release := list[len(list)-1]
	if newer {
		a.logf("vLLM %s is newer than all that profllm knows: compared with %s", version, release.Version)
	}
	d := document.CapturedOptions{Head: document.NewHead("args-capture"), Version: version, Release: release.Version,
		Options: options, Changes: release.Differences(options)}
	if a.json() {
		a.answers(&d)
		return nil
	}
	if c.TOML {
		return a.printLine(strings.Join(append([]string{fmt.Sprintf("# how %s differs from that of vLLM %s", p.Name, release.Version),
			"[cmd_args.build." + c.Of + "]"}, buildLines(release.Build(options))...), "\n"))
	}
	return a.printBlocks(changesBlock(d.Changes, fmt.Sprintf("%s of %s in %s, from what profllm knows of vLLM %s",
		quantity.Count(len(d.Changes), "difference"), quantity.Count(len(options), "option"), p.Name, release.Version)))
}

func buildLines(list []arguments.Difference) (lines []string) {
	for _, d := range list {
		lines = append(lines, d.TOML())
	}
	return lines
}

func changesBlock(changes []arguments.Change, line string) summary.Block {
	t := terminal.Table{Columns: []terminal.Column{{Name: "option"}, {Name: ""}, {Name: "difference"}}}
	for _, change := range changes {
		t.Row(summary.Cells(change.Option, change.Kind, strings.Join(change.What, "; "))...)
	}
	return summary.Block{Table: t, Lines: []string{line}}
}

// help is the text of --help, and the version that is known of it.
func (c argsCaptureCmd) help(ctx context.Context, a *app) (text, version string, err error) {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	switch {
	case c.Text != "" && len(command) > 0:
		return "", "", errors.New("--text reads a file: remove the command")
	case c.Text == "-":
		data, err := io.ReadAll(regular.Limit(a.stdin, helpLimit))
		return string(data), c.Release, err
	case c.Text != "":
		data, err := regular.ReadAtMost(c.Text, helpLimit)
		return string(data), c.Release, err
	}
	if len(command) == 0 {
		command = []string{"vllm"}
	}
	if version = c.Release; version == "" {
		said, err := a.output(ctx, slices.Concat(command, []string{"--version"}))
		if err != nil {
			return "", "", err
		}
		if version = lastVersion(said); version == "" {
			return "", "", fmt.Errorf("%s --version prints no version: set --release", strings.Join(command, " "))
		}
	}
	command = append(slices.Clone(command), strings.Fields(c.program().Name)[1:]...)
	if text, err = a.output(ctx, slices.Concat(command, []string{"--help=all"})); err != nil && ctx.Err() == nil {
		text, err = a.output(ctx, slices.Concat(command, []string{"--help"})) // before 0.9.2
	}
	return text, version, err
}

// helpLimit is the most that a help is read of; that of vLLM 0.33 has 150 KB.
const helpLimit = 16 << 20

// lastVersion is the version in the last line that has one: vLLM may log before it.
func lastVersion(said string) string {
	all := versionLine.FindAllString(said, -1)
	if all == nil {
		return ""
	}
	return strings.TrimSpace(all[len(all)-1])
}

var versionLine = lazyregexp.New(`(?m)^v?\d+(\.\d+)+\S*\s*$`)

// lastBytes keeps the end of what is written.
type lastBytes struct{ bytes.Buffer }

func (l *lastBytes) Write(p []byte) (int, error) {
	const most = 64 << 10
	n, err := l.Buffer.Write(p)
	if over := l.Len() - most; over > 0 {
		l.Next(over)
	}
	return n, err
}

// output is what a program prints.
func (a *app) output(ctx context.Context, argv []string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.WaitDelay = a.environ, time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // a container's program ends it
	var said lastBytes
	cmd.Stderr = &said
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	data, readErr := io.ReadAll(regular.Limit(pipe, helpLimit))
	if readErr != nil {
		_ = cmd.Cancel()
		_ = pipe.Close() // else it waits for a reader
		time.AfterFunc(cmd.WaitDelay, func() { _ = cmd.Process.Kill() })
	}
	if err := cmd.Wait(); err != nil || readErr != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return "", fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), cmp.Or(context.Cause(ctx), readErr, err), lines[len(lines)-1])
	}
	return string(data), nil
}
