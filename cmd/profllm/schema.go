package main

import (
	"github.com/profllm/profllm/pkg/result"
)

type schemaCmd struct {
	File string `arg:"" enum:"result" default:"result" help:"File: result, for result.json."`
}

func (c schemaCmd) Run(a *app) error {
	s, err := result.Schema()
	if err != nil {
		return err
	}
	return a.printJSON(s)
}
