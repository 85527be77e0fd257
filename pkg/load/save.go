package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/regular"
)

// fileName returns the name of the result file as vLLM composes it, without its folder.
func (r *Report) fileName(o *Options) string {
	if o.ResultFilename != "" {
		return o.ResultFilename
	}
	start := r.Label
	if start == "" {
		start = r.Backend
	}
	rate := pyjson.Float(r.RequestRate) + "qps"
	if r.RampUpStrategy != "" {
		rate = fmt.Sprintf("ramp-up-%s-%dqps-%dqps", r.RampUpStrategy, *r.RampUpStartRPS, *r.RampUpEndRPS)
	}
	limit := ""
	if r.MaxConcurrency != nil {
		limit = fmt.Sprintf("-concurrency%d", *r.MaxConcurrency)
	}
	return fmt.Sprintf("%s-%s%s-%s-%s.json", start, rate, limit, path.Base(r.ModelID), r.Date)
}

// output is the result file that the user named, none if its name is composed.
func (o *Options) output() durable.Output {
	out := durable.Output{Option: "--result-filename", Kind: "a result of a load client", MakesFolder: true,
		Ours: func(head []byte) bool {
			return bytes.HasPrefix(bytes.TrimLeft(head, " \n"), []byte(`{"date":`))
		}}
	if o.ResultFilename != "" && (o.SaveResult || o.AppendResult) {
		out.Path = filepath.Join(o.ResultDir, o.ResultFilename)
	}
	return out
}

// CheckOutput refuses named files that are something else.
func (o *Options) CheckOutput() error {
	return durable.CheckOutputs(append(o.plotFiles(o.ResultFilename), o.output(), o.requestsFile())...)
}

// save writes the result file and returns its name. The file appears whole or not at all; with
// appending, what it held stays in front.
func (r *Report) save(o *Options) (string, error) {
	if err := durable.CheckOutputs(o.output()); err != nil {
		return "", err
	}
	name := r.fileName(o)
	if o.ResultDir != "" {
		name = filepath.Join(o.ResultDir, name)
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		return "", fmt.Errorf("make the folder of the result: %w", err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode the result: %w", err)
	}
	if o.AppendResult {
		before, err := regular.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the results before this one: %w", err)
		}
		if len(before) > 0 {
			data = append(append(before, '\n'), data...)
		}
	}
	if err := durable.WriteFile(name, data, 0o666); err != nil {
		return "", fmt.Errorf("write the result: %w", err)
	}
	return name, nil
}
