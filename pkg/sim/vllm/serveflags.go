package vllm

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/sim/engine"
	"github.com/profllm/profllm/pkg/sim/program"
)

func parseServe(args []string) (engine.Config, program.Flags, error) {
	f := program.ParseFlags(args)
	c := engine.Config{
		Host:     f.Text("host", ""),
		Prefix:   f.Bool("enable-prefix-caching", true),
		APIKeys:  f.Values["api-key"],
		Headless: f.Bool("headless", false),
		Ray:      f.Text("distributed-executor-backend", "") == "ray",
	}
	c.Model = f.Text("model", "")
	if len(f.Positional) > 0 {
		c.Model = f.Positional[0]
	}
	var errs []error
	if c.Model == "" {
		errs = append(errs, errors.New("no model: write it right after serve"))
	}
	if len(f.Positional) > 1 {
		errs = append(errs, fmt.Errorf("unrecognized arguments: %s", strings.Join(f.Positional[1:], " ")))
	}
	if _, ok := f.Values["config"]; ok {
		errs = append(errs, errors.New("--config is not simulated: give the flags themselves"))
	}
	c.Names = f.Values["served-model-name"]
	if len(c.Names) == 0 {
		c.Names = []string{c.Model}
	}
	if v := f.Text("max-model-len", ""); v == "auto" || v == "-1" {
		f.Values["max-model-len"] = nil
	}
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
		least    int
	}{
		{&c.Port, "port", engine.DefaultPort, 0},
		{&c.MaxLen, "max-model-len", engine.DefaultMaxLen, 1},
		{&c.MaxSeqs, "max-num-seqs", engine.DefaultMaxSeqs, 1},
		{&c.BlockSize, "block-size", engine.DefaultBlockSize, 1},
		{&c.TP, "tensor-parallel-size", 1, 1},
		{&c.PP, "pipeline-parallel-size", 1, 1},
	} {
		n, err := f.Size(x.name, x.fallback, x.least)
		if err != nil {
			errs = append(errs, err)
		}
		*x.to = n
	}
	if err := readConnector(&c, &f); err != nil {
		errs = append(errs, err)
	}
	return c, f, errors.Join(errs...)
}

// readConnector takes the KV connector from the JSON of --kv-transfer-config or its dotted form.
func readConnector(c *engine.Config, f *program.Flags) error {
	v := struct {
		Connector string `json:"kv_connector"`
		Role      string `json:"kv_role"`
	}{f.Text("kv-transfer-config.kv-connector", ""), f.Text("kv-transfer-config.kv-role", "")}
	text := f.Text("kv-transfer-config", "")
	if text != "" {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return fmt.Errorf("--kv-transfer-config: %w", err)
		}
	}
	if text == "" && v.Connector == "" {
		return nil
	}
	if v.Connector == "" {
		return errors.New("--kv-transfer-config: kv_connector is missing")
	}
	switch v.Role {
	case "kv_producer", "kv_consumer", "kv_both":
		c.Connector, c.Consumer = v.Connector, v.Role != "kv_producer"
		return nil
	}
	return fmt.Errorf("--kv-transfer-config: kv_role %q: want kv_producer, kv_consumer or kv_both", v.Role)
}
