package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/regular"
	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

// nsysValues are the options of `nsys profile` whose value is the next word;
// long ones carry theirs behind an equal sign.
const nsysValues = "-s -o -t -f -c -w -x -y -d -e -b -p"

// nsysVariable is a part of a report's name that the environment says.
var nsysVariable = lazyregexp.New(`%q\{\w+\}`)

// nsysReport is the whole of a simulated report.
type nsysReport struct {
	Simulated bool     `json:"simulated"`
	By        string   `json:"by"`
	Command   []string `json:"command"`
	Options   []string `json:"options"`
	Exit      int      `json:"exit"`
}

// Nsys is `nsys profile`: it runs a command and leaves a report that says so.
func Nsys(ctx context.Context, p program.Process, args []string) int {
	if len(args) == 0 || args[0] != "profile" {
		return p.Fail(program.Usage, fmt.Errorf("nsys %s is not simulated: want profile", strings.Join(args, " ")))
	}
	output, args := "report1", args[1:]
	var options []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		n := 1
		if strings.Contains(" "+nsysValues+" ", " "+args[0]+" ") && len(args) > 1 {
			n = 2
		}
		if args[0] == "-o" && n == 2 {
			output = args[1]
		} else if v, ok := strings.CutPrefix(args[0], "--output="); ok {
			output = v
		}
		options, args = append(options, args[:n]...), args[n:]
	}
	if len(args) == 0 {
		return p.Fail(program.Usage, errors.New("nsys profile: no command"))
	}
	output = nsysVariable.ReplaceAllStringFunc(output, func(s string) string { return p.Env(s[3 : len(s)-1]) })
	ranges := output + ".ranges"
	p.Environ = append(slices.Clone(p.Environ), engine.RangesVar+"="+ranges)
	code, ran := wrapped(ctx, p, "nsys profile", args)
	if !ran {
		return code
	}
	opened, err := regular.ReadFile(ranges)
	if err == nil {
		err = os.Remove(ranges)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p.Fail(program.Failed, fmt.Errorf("nsys profile: %w", err))
	}
	names := reportNames(output, options, args, bytes.Count(opened, []byte("\n")))
	if len(names) == 0 {
		fmt.Fprintln(p.Stdout, "The application ended before a capture range began: no report (profllm sim)")
	}
	text, err := json.Marshal(nsysReport{Simulated: true, By: program.Version, Command: args, Options: options,
		Exit: code})
	for _, name := range names {
		if err == nil {
			err = os.WriteFile(name, append(text, '\n'), 0o644)
		}
		if err != nil {
			return p.Fail(program.Failed, fmt.Errorf("nsys profile: %w", err))
		}
		fmt.Fprintf(p.Stdout, "Generated (profllm sim, no trace):\n    %s\n", name)
	}
	return code
}

// reportNames are the reports of a recording: one, or with a capture range by the CUDA profiler
// as many as ranges were opened, of which only --capture-range-end=repeat gives more than the
// first. Ranks without an API are told of no range, and are taken to have had one.
func reportNames(output string, options, command []string, ranges int) (names []string) {
	if !slices.Contains(options, "--capture-range=cudaProfilerApi") || slices.Contains(command, "--headless") {
		return []string{output + ".nsys-rep"}
	}
	repeat := slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, "--capture-range-end=repeat") })
	for i := range ranges {
		switch {
		case repeat:
			names = append(names, fmt.Sprintf("%s.%d.nsys-rep", output, i+1))
		case i == 0:
			names = append(names, output+".nsys-rep")
		}
	}
	return names
}

// wrapped runs the command behind a profiler and returns its exit code; false if it did not start.
// On SIGTERM, the command gets the same signal.
func wrapped(ctx context.Context, p program.Process, name string, args []string) (code int, ran bool) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.Environ, p.Stdout, p.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		return p.Fail(program.Missing, fmt.Errorf("%s: %w", name, err)), false
	}
	_ = cmd.Wait() // the exit code below says it
	if code = cmd.ProcessState.ExitCode(); code < 0 {
		code = program.Failed
	}
	return code, true
}
