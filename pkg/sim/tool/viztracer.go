package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/sim/program"
)

// vizReport is the whole of a simulated trace: none of the command's calls.
type vizReport struct {
	Simulated bool             `json:"simulated"`
	By        string           `json:"by"`
	Command   []string         `json:"command"`
	Exit      int              `json:"exit"`
	Events    []map[string]any `json:"traceEvents"`
}

// noCalls are the events of a trace that has none.
var noCalls = []map[string]any{{"name": "process_name", "ph": "M", "pid": 1,
	"args": map[string]any{"name": "profllm sim: no call was traced"}}}

// VizTracer is `viztracer [options] -- COMMAND`: it runs a command and leaves a trace that says
// it has none of its calls.
func VizTracer(ctx context.Context, p program.Process, args []string) int {
	at := slices.Index(args, "--")
	if at < 0 || at == len(args)-1 {
		return p.Fail(program.Usage, errors.New("viztracer without -- and a command is not simulated"))
	}
	options, command, output := args[:at], args[at+1:], "result.json"
	for i, o := range options {
		if v, ok := strings.CutPrefix(o, "--output_file="); ok {
			output = v
		} else if (o == "-o" || o == "--output_file") && i+1 < len(options) {
			output = options[i+1]
		}
	}
	code, ran := wrapped(ctx, p, "viztracer", command)
	if !ran {
		return code
	}
	text, err := json.Marshal(vizReport{Simulated: true, By: program.Version, Command: command, Exit: code,
		Events: noCalls})
	if err == nil {
		err = os.WriteFile(output, append(text, '\n'), 0o644)
	}
	if err != nil {
		return p.Fail(program.Failed, fmt.Errorf("viztracer: %w", err))
	}
	return code
}
