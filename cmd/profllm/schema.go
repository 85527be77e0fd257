package main

import (
	"github.com/profllm/profllm/pkg/editor"
	"github.com/profllm/profllm/pkg/result"
)

type schemaCmd struct {
	File string `arg:"" name:"kind" enum:"result,scenario,test,system,experiment" default:"result" help:"Kind of file: result (result.json; the default), or scenario, test, system or experiment (definition files, for editors)."`
}

func (c schemaCmd) Run(a *app) error {
	if c.File != "result" {
		s, err := editor.Schema(c.File)
		if err != nil {
			return err
		}
		return a.printJSON(s)
	}
	s, err := result.Schema()
	if err != nil {
		return err
	}
	return a.printJSON(s)
}
