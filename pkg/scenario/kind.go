package scenario

import "github.com/profllm/profllm/pkg/source"

// Kind says what a definition file is: "system" if it has the key scheduler,
// "scenario" if it has Tests, else "test".
func Kind(f File) (string, error) {
	t, err := source.Parse(f.Name, f.Data)
	if err != nil {
		return "", err
	}
	return kind(t), nil
}

func kind(t *source.Table) string {
	switch {
	case t.Has("scheduler"):
		return "system"
	case t.Has("Tests"):
		return "scenario"
	}
	return "test"
}

// Mistaken refuses a file of another kind than the wanted one, "system" or "scenario". It
// lets pass what might be a file of the wanted kind with mistakes.
func Mistaken(t *source.Table, wanted string) error {
	is := kind(t)
	if is == wanted || is == "test" && !t.Has("test_template_name") {
		return nil
	}
	hint := "name it as the scenario, and a system file with --system"
	switch {
	case is == "system":
		hint = "name a scenario, and this file with --system"
	case is == "test" && wanted == "scenario":
		hint = "name a scenario that has this test in [[Tests]], by test_name"
	case is == "test":
		hint = "name a system file with --system"
	}
	return source.Errorf(source.Pos{File: t.Pos.File}, "this is a %s file, not a %s file", is, wanted).Hintf("%s", hint)
}
